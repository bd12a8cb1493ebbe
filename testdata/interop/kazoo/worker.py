#!/usr/bin/env python3
"""kazoo as a client under test: see ../README.md."""
import json
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import (BadVersionError, ConnectionClosedError, ConnectionLoss, InvalidACLError, NoAuthError, NodeExistsError,
                              NoNodeError, NotEmptyError, OperationTimeoutError, RolledBackError, SessionExpiredError)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_acl, make_digest_acl

EPHEMERALS, WATCHES, WRITES, DATA = 20, 50, 2000, 40
LOST = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, KazooTimeoutError, SessionExpiredError)


def raises(error, f, *a, **k):
    try:
        f(*a, **k)
    except error:
        return
    raise AssertionError("%s%r did not raise %s" % (f.__name__, a, error.__name__))


def ops(addr, name):
    zk = KazooClient(hosts=addr, timeout=10)
    zk.start(timeout=20)
    root = "/ops-" + name
    assert zk.create(root, b"r") == root
    raises(NodeExistsError, zk.create, root, b"")
    path, stat = zk.create(root + "/a", b"1", include_data=True)
    assert stat.version == 0 and stat.data_length == 1
    assert zk.create(root + "/s-", sequence=True) == root + "/s-0000000001"
    assert zk.create(root + "/e", ephemeral=True) == root + "/e"
    assert zk.create(root + "/es-", ephemeral=True, sequence=True) == root + "/es-0000000003"
    assert zk.exists(root + "/e").ephemeralOwner == zk.client_id[0]
    assert zk.exists(root + "/none") is None
    events = []
    got = threading.Event()
    data, stat = zk.get(root + "/a", watch=lambda e: (events.append(e.type), got.set()))
    assert data == b"1"
    assert zk.set(root + "/a", b"2", version=0).version == 1
    assert got.wait(10) and events == ["CHANGED"], events
    raises(BadVersionError, zk.set, root + "/a", b"3", version=0)
    raises(NoNodeError, zk.set, root + "/none", b"")
    children, stat = zk.get_children(root, include_data=True)
    assert sorted(children) == ["a", "e", "es-0000000003", "s-0000000001"] and stat.numChildren == 4
    raises(NotEmptyError, zk.delete, root)
    kids = threading.Event()
    zk.get_children(root, watch=lambda e: kids.set())
    zk.delete(root + "/a", version=1)
    assert kids.wait(10)
    made = threading.Event()
    zk.exists(root + "/a", watch=lambda e: made.set())
    zk.create(root + "/a", b"4")
    assert made.wait(10)
    acls, stat = zk.get_acls(root + "/a")
    assert acls[0].id.id == "anyone" and stat.aversion == 0
    raises(InvalidACLError, zk.set_acls, root + "/a", [make_acl("nope", "x", read=True)])
    zk.add_auth("digest", "u:p")
    zk.create(root + "/private", b"", acl=[make_digest_acl("u", "p", all=True)])
    other = KazooClient(hosts=addr, timeout=10)
    other.start(timeout=20)
    other.sync("/")
    raises(NoAuthError, other.get, root + "/private")
    assert zk.get(root + "/private")[0] == b""
    zk.set_acls(root + "/a", [make_acl("world", "anyone", read=True)])
    raises(NoAuthError, zk.set, root + "/a", b"5")
    assert zk.sync(root) == root
    t = zk.transaction()
    t.create(root + "/t", b"x")
    t.set_data(root + "/t", b"y")
    t.check(root + "/t", version=1)
    t.delete(root + "/t")
    r = t.commit()
    assert r[0] == root + "/t" and r[1].version == 1 and r[2] is True and r[3] is True, r
    t = zk.transaction()
    t.create(root + "/t", b"x")
    t.delete(root + "/none")
    t.create(root + "/u", b"x")
    r = t.commit()
    assert isinstance(r[0], RolledBackError) and isinstance(r[1], NoNodeError), r
    assert zk.exists(root + "/t") is None
    other.stop()
    other.close()
    zk.delete(root, recursive=True)
    zk.stop()
    zk.close()


class Chaos:
    def __init__(self, connect, name):
        self.zk = KazooClient(hosts=connect, timeout=10, randomize_hosts=True)
        self.root = "/chaos/" + name
        self.nodes, self.faults, self.sessions = {}, [], []
        self.writes = self.unsure = self.events = 0
        self.seen, self.lock = {}, threading.Lock()
        self.stop = threading.Event()
        self.zk.add_listener(self.listen)

    def listen(self, state):
        if state == "LOST" and not self.zk._stopped.is_set():
            self.faults.append("session lost")
        if state == "CONNECTED":
            s = self.zk.client_id[0]
            if s not in self.sessions:
                self.sessions.append(s)

    def retry(self, f, *a):
        end = time.time() + 60
        while True:
            try:
                return f(*a)
            except LOST as e:
                if time.time() > end:
                    raise
                self.wait_connected()

    def wait_connected(self):
        end = time.time() + 60
        while not self.zk.connected:
            if time.time() > end:
                raise AssertionError("not connected for 60 s")
            time.sleep(0.01)

    def write(self, path, value):
        """Sets or creates until it is known to have happened; counts each acknowledged write."""
        first = path not in self.nodes
        while True:
            try:
                if first:
                    self.zk.create(path, value.encode())
                else:
                    self.zk.set(path, value.encode())
                break
            except LOST:
                self.unsure += 1
                self.wait_connected()
                if self.settled(path, value):
                    break
            except NodeExistsError:
                # only a lost create of our own can have made it
                if not self.settled(path, value):
                    raise
                break
        self.nodes[path] = value
        self.writes += 1

    def settled(self, path, value):
        def look():
            self.zk.sync(path)
            try:
                return self.zk.get(path)[0].decode()
            except NoNodeError:
                return None
        found = self.retry(look)
        if found not in (value, self.nodes.get(path)):
            self.faults.append("%s holds %r, neither %r nor %r" % (path, found, self.nodes.get(path), value))
        return found == value

    def watch(self, path):
        def changed(data, stat, event=None):
            with self.lock:
                self.events += event is not None
                self.seen[path] = None if data is None else data.decode()
        self.zk.DataWatch(path, changed)

    def run(self):
        self.zk.start(timeout=30)
        self.retry(self.zk.ensure_path, self.root)
        ephemerals = ["%s/e-%d" % (self.root, i) for i in range(EPHEMERALS)]
        for p in ephemerals:  # whose they are is checked by the driver
            try:
                self.retry(lambda: self.zk.create(p, b"", ephemeral=True))
            except NodeExistsError:
                pass
        watched = ["%s/w-%d" % (self.root, i) for i in range(WATCHES)]
        for p in watched:
            self.write(p, "0")
            self.watch(p)
        n = 0
        while not (self.stop.is_set() and self.writes >= WRITES):
            n += 1
            self.write("%s/d-%d" % (self.root, n % DATA), str(n))
            if n % 4 == 0:
                self.write("%s/c-%d" % (self.root, n), str(n))
            if n % 3 == 0:
                self.write(watched[n // 3 % WATCHES], str(n))
            if not self.stop.is_set():
                self.stop.wait(0.004)
        for p in watched:
            self.write(p, "last")
        end = time.time() + 60
        while time.time() < end and any(self.seen.get(p) != "last" for p in watched):
            time.sleep(0.05)
        for p in watched:
            if self.seen.get(p) != "last":
                self.faults.append("watch on %s last told of %r" % (p, self.seen.get(p)))
        return dict(writes=self.writes, unsure=self.unsure, nodes=self.nodes, ephemerals=ephemerals, events=self.events,
                    sessions=["%x" % s for s in self.sessions], faults=self.faults)


def main():
    mode, connect, name = sys.argv[1:4]
    if mode == "ops":
        ops(connect, name)
        print("ok")
        return
    c = Chaos(connect, name)
    told = threading.Event()

    def stdin():
        for line in sys.stdin:
            if line.strip() == "stop":
                c.stop.set()
        told.set()
    threading.Thread(target=stdin, daemon=True).start()
    print(json.dumps(c.run()), flush=True)
    told.wait()
    c.zk.stop()
    c.zk.close()


main()
