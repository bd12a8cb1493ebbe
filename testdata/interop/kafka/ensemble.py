"""An ensemble of three zkserver processes on loopback whose leader can be killed: for .ci/kafka, .ci/kafka-move and
.ci/kafka-kraft; ../drive.py uses its functions."""
import os
import random
import re
import shutil
import socket
import subprocess
import threading
import time

BOUND = 60  # seconds in which whatever is waited for must happen
SETTINGS = """tickTime=500
initLimit=20
syncLimit=10
4lw.commands.whitelist=*
extendedTypesEnabled=true
maxClientCnxns=0
minSessionTimeout=1000
maxSessionTimeout=60000
DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=
"""


def free_ports(n):
    """The first of n free ports in a row, below those that the system gives to connections."""
    while True:
        base, held = random.randrange(20000, 30000), []
        try:
            for i in range(n):
                held.append(socket.socket())
                held[i].bind(("127.0.0.1", base + i))
            return base
        except OSError:
            continue
        finally:
            for s in held:
                s.close()


def word(port, w):
    """The answer to a four-letter word, empty if there is none within five seconds."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as s:
            s.settimeout(5)
            s.sendall(w.encode())
            out = b""
            while chunk := s.recv(1 << 16):
                out += chunk
            return out.decode()
    except OSError:
        return ""


def until(what, fn, bound=BOUND):
    """The first result of fn that counts as true."""
    end = time.monotonic() + bound
    while time.monotonic() < end:
        if v := fn():
            return v
        time.sleep(0.02)
    raise RuntimeError("not within %d s: %s" % (bound, what))


class Server:
    def __init__(self, exe, root, sid, base):
        self.exe, self.sid, self.port, self.proc = exe, sid, base + sid, None
        self.dir = os.path.join(root, str(sid))
        os.makedirs(self.dir)
        with open(os.path.join(self.dir, "zoo.cfg"), "w") as f:
            f.write(SETTINGS + "dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n" % (self.dir, self.port))
            for i in (1, 2, 3):
                f.write("server.%d=127.0.0.1:%d:%d\n" % (i, base + 3 + i, base + 6 + i))
        with open(os.path.join(self.dir, "myid"), "w") as f:
            f.write("%d\n" % sid)

    def start(self):
        with open(os.path.join(self.dir, "stderr"), "ab") as log:
            self.proc = subprocess.Popen([self.exe, os.path.join(self.dir, "zoo.cfg")], stdout=log, stderr=log, start_new_session=True)

    def mode(self):
        """What the server is, None while it does not serve."""
        m = re.search(r"^Mode: (\w+)", word(self.port, "srvr"), re.M)
        return m and m[1]

    def mntr(self):
        return dict(line.split("\t", 1) for line in word(self.port, "mntr").splitlines() if "\t" in line)


class Ensemble:
    def __init__(self, exe, root):
        base = free_ports(10)
        self.servers = [Server(os.path.abspath(exe), root, i, base) for i in (1, 2, 3)]
        self.connect = ",".join("127.0.0.1:%d" % s.port for s in self.servers)
        self.lock, self.kills, self.began = threading.Lock(), 0, time.monotonic()

    def start(self):
        for s in self.servers:
            s.start()
        until("three servers serve", lambda: self.ended() or all(s.mode() for s in self.servers))
        if ended := self.ended():
            raise RuntimeError("; ".join(ended))

    def ended(self):
        return ["server %d ended by itself, exit %s" % (s.sid, s.proc.returncode) for s in self.servers if s.proc.poll() is not None]

    def say(self, text):
        print("[%6.1fs] ensemble: %s" % (time.monotonic() - self.began, text), flush=True)

    def leader(self, but=None):
        return next((s for s in self.servers if s is not but and s.mode() == "leader"), None)

    def kill_leader(self, why):
        """Kills the leader, waits for another one, starts the killed server again and waits until it follows."""
        with self.lock:
            old = until("a leader", self.leader)
            self.say("%s: kill -9 server %d, the leader, pid %d" % (why, old.sid, old.proc.pid))
            t = time.monotonic()
            old.proc.kill()
            old.proc.wait()
            new = until("another leader", lambda: self.leader(but=old))
            led = time.monotonic() - t
            old.start()
            until("the killed server is back", old.mode)
            self.kills += 1
            self.say("server %d leads after %.2f s; server %d is back after %.2f s" % (new.sid, led, old.sid, time.monotonic() - t))

    def exists(self, ephemeral):
        """Whether a path ends so that an ephemeral node has, as a server that serves sees it; None if none serves."""
        for s in self.servers:
            if s.mode() and "Connections dump:" in (dump := word(s.port, "dump")):
                return re.search(re.escape(ephemeral) + "$", dump, re.M) is not None
        return None

    def faults(self):
        """What is wrong at the end, when nobody writes any more."""
        keys, out = ("zk_last_processed_zxid", "zk_tree_digest", "zk_state_digest", "zk_digest_mismatches_count"), self.ended()
        states = []

        def same():
            states[:] = [tuple(m.get(k) for k in keys) for m in (s.mntr() for s in self.servers)]
            return states[0] == states[1] == states[2] and states[0][-1] == "0"
        try:
            until("the servers hold the same tree", same)
        except RuntimeError as e:
            out.append("%s: %s" % (e, states))
        return out

    def stop(self, keep=None):
        """Ends the servers; copies their logs to the folder keep."""
        started = [s for s in self.servers if s.proc]
        for s in started:
            s.proc.terminate()
        for s in started:
            try:
                s.proc.wait(10)
            except subprocess.TimeoutExpired:
                s.proc.kill()
                s.proc.wait()
            if keep:
                os.makedirs(keep, exist_ok=True)
                shutil.copy(os.path.join(s.dir, "stderr"), os.path.join(keep, "server-%d.log" % s.sid))
