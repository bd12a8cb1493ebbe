#!/usr/bin/env python3
"""Starts three voters and an observer, runs every client's `ops` against each, then `chaos` while the leader is killed.

    drive.py --server ZKSERVER --zkcli ZKCLI [--kills 20] [--clients kazoo,java,gozk,ours,ours-grpc] [--dir DIR]
             [--java-classpath CP] [--gozk BIN] [--ours BIN] [--grpc-check FILE] [--apache CP]

Each client is a program described in README.md beside this file. Exit 0 only if every client passed, every acknowledged
write is on every server, every ephemeral of a live session is there, and no session was lost. --apache runs Apache
ZooKeeper instead of ours (its class path), to check the workers themselves. Only processes started here are ended.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "kafka"))
from ensemble import free_ports, until, word  # noqa: E402


class Server:
    def __init__(self, a, root, sid, lines, port):
        self.a, self.sid, self.port = a, sid, port
        self.dir = os.path.join(root, str(sid))
        os.makedirs(self.dir)
        self.cfg = os.path.join(self.dir, "zoo.cfg")
        with open(self.cfg, "w") as f:
            f.write("tickTime=1000\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
                    "dataDir=%s\n%s" % (self.dir, lines))
        with open(os.path.join(self.dir, "myid"), "w") as f:
            f.write("%d\n" % sid)
        self.proc = None

    def start(self):
        cmd = [self.a.server, self.cfg]
        if self.a.apache:
            cmd = ["java", "-Xmx256m", "-cp", self.a.apache, "org.apache.zookeeper.server.quorum.QuorumPeerMain", self.cfg]
        with open(os.path.join(self.dir, "server.log"), "ab") as log:
            self.proc = subprocess.Popen(cmd, stdout=log, stderr=log, start_new_session=True)

    def mode(self):
        for line in word(self.port, "srvr").splitlines():
            if line.startswith("Mode: "):
                return line[6:]
        return ""

    def kill(self):
        self.proc.kill()
        self.proc.wait(20)


def tree(port):
    """Every node below /chaos as this server has it, after a sync."""
    from kazoo.client import KazooClient
    zk = KazooClient(hosts="127.0.0.1:%d" % port, timeout=10)
    zk.start(timeout=20)
    zk.sync("/")
    nodes, owners = {}, {}
    for c in zk.get_children("/chaos"):
        pending = [(p, zk.get_async(p)) for p in ("/chaos/%s/%s" % (c, n) for n in zk.get_children("/chaos/" + c))]
        for p, r in pending:
            data, st = r.get(30)
            nodes[p] = (data or b"").decode()
            if st.ephemeralOwner:
                owners[p] = "%x" % (st.ephemeralOwner & (1 << 64) - 1)
    zk.stop()
    zk.close()
    return nodes, owners


def main():
    ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    ap.add_argument("--server")
    ap.add_argument("--zkcli")
    ap.add_argument("--kills", type=int, default=20)
    ap.add_argument("--clients", default="kazoo,java,gozk,ours,ours-grpc")
    ap.add_argument("--java-classpath", default="")
    ap.add_argument("--gozk", default="")
    ap.add_argument("--ours", default="")
    ap.add_argument("--apache", default="")
    ap.add_argument("--grpc-check", default="", help="a program that gets the address of each server")
    ap.add_argument("--dir")
    a = ap.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what runs is ended
    root = a.dir or tempfile.mkdtemp(prefix="zk-clients-")
    os.makedirs(root, exist_ok=True)
    command = {
        "kazoo": [sys.executable, os.path.join(HERE, "kazoo", "worker.py")],
        "java": ["java", "-Xmx256m", "-cp", a.java_classpath, "Worker"],
        "gozk": [a.gozk], "ours": [a.ours, "zookeeper"], "ours-grpc": [a.ours, "grpc"],
    }
    clients = a.clients.split(",")
    n = 4
    first = free_ports(3 * n)
    ports = range(first, first + 3 * n)
    lines = "".join("server.%d=127.0.0.1:%d:%d:%s;127.0.0.1:%d\n" % (
        i + 1, ports[n + 2 * i], ports[n + 2 * i + 1], "participant" if i < 3 else "observer", ports[i]) for i in range(n))
    servers = [Server(a, root, i + 1, lines, ports[i]) for i in range(n)]
    workers, failed = {}, []
    try:
        for s in servers:
            s.start()
        for s in servers:
            until("server %d serves" % s.sid, s.mode)
        print("servers:", ", ".join("%d %s" % (s.sid, s.mode()) for s in servers), flush=True)
        for s in servers:
            for c in clients:
                r = subprocess.run(command[c] + ["ops", "127.0.0.1:%d" % s.port, "%s-%d" % (c, s.sid)], stdin=subprocess.DEVNULL,
                                   capture_output=True, text=True, timeout=120)
                if r.returncode or r.stdout.strip().splitlines()[-1:] != ["ok"]:
                    failed.append("ops of %s on server %d" % (c, s.sid))
                    print("FAIL:", failed[-1], r.stdout[-500:], r.stderr[-3000:], flush=True)
            if a.grpc_check:
                r = subprocess.run([sys.executable, a.grpc_check, "127.0.0.1:%d" % s.port], capture_output=True, text=True, timeout=60)
                if r.returncode:
                    failed.append("gRPC on server %d" % s.sid)
                    print("FAIL:", failed[-1], r.stdout[-500:], r.stderr[-2000:], flush=True)
        print("ops: %d clients on %d servers, %d failed" % (len(clients), n, len(failed)), flush=True)
        connect = ",".join("127.0.0.1:%d" % s.port for s in servers)
        for c in clients:
            with open(os.path.join(root, c + ".err"), "wb") as err:
                workers[c] = subprocess.Popen(command[c] + ["chaos", connect, c], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
        down = []
        for k in range(a.kills):
            leader = until("a leader", lambda: next((s for s in servers if s.mode() == "leader"), None))
            t = time.monotonic()
            leader.kill()
            until("a new leader", lambda: next((s for s in servers if s is not leader and s.mode() == "leader"), None))
            down.append(time.monotonic() - t)
            leader.start()
            for s in servers:
                until("server %d serves again" % s.sid, s.mode)
            if a.zkcli:
                p = "/cli-%d" % k
                for i, args in enumerate((["create", p, "v%d" % k], ["set", p, "w"], ["get", p], ["stat", p], ["ls", "/"], ["delete", p])):
                    r = subprocess.run([a.zkcli, "-server", connect] + args, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
                    if r.returncode or args[0] == "get" and r.stdout.strip() != "w":
                        failed.append("zkcli %s after kill %d" % (" ".join(args), k + 1))
                        print("FAIL:", failed[-1], r.returncode, r.stdout[-300:], r.stderr[-500:], flush=True)
            time.sleep(1)  # lets the clients work between kills; nothing waits for it
        down.sort()
        print("kills: %d, until the next leader: median %.0f ms, longest %.0f ms" % (a.kills, 1000 * down[len(down) // 2] if down else 0, 1000 * (down or [0])[-1]), flush=True)
        results = {}
        for c, p in workers.items():
            try:
                p.stdin.write("stop\n")
                p.stdin.flush()
            except BrokenPipeError:
                pass  # it ended early: the loop below says so
        for c, p in workers.items():
            line = p.stdout.readline()
            if not line:
                p.wait(10)
                failed.append("%s ended early, see %s.err" % (c, c))
                print("FAIL:", failed[-1], open(os.path.join(root, c + ".err")).read()[-2000:], flush=True)
                continue
            results[c] = r = json.loads(line)
            print("%s: %d writes acknowledged, %d of unsure fate, %d events, sessions %s" % (c, r["writes"], r["unsure"], r["events"], ",".join(r["sessions"])), flush=True)
            bad = list(r["faults"])
            if r["writes"] < 2000:
                bad.append("only %d writes" % r["writes"])
            if len(r["sessions"]) != 1:
                bad.append("sessions: %s" % r["sessions"])
            for b in bad[:10]:
                failed.append("%s: %s" % (c, b))
                print("FAIL:", failed[-1], flush=True)
        for s in servers:
            nodes, owners = tree(s.port)
            for c, r in results.items():
                model = dict(r["nodes"])
                mine = {p: v for p, v in nodes.items() if p.startswith("/chaos/%s/" % c)}
                wrong = [p for p, v in model.items() if mine.get(p) != v]
                extra = [p for p in mine if p not in model and p not in r["ephemerals"]]
                gone = [p for p in r["ephemerals"] if owners.get(p) not in r["sessions"]]
                for name, l in (("differ from the model", wrong), ("unknown to the model", extra), ("ephemerals missing", gone)):
                    if l:
                        failed.append("server %d, %s: %d nodes %s, such as %s" % (s.sid, c, len(l), name, l[0]))
                        print("FAIL:", failed[-1], flush=True)
            print("server %d: %d nodes, %d ephemerals compared" % (s.sid, len(nodes), len(owners)), flush=True)
    except RuntimeError as e:  # until
        failed.append(str(e))
        print("FAIL:", e, flush=True)
    finally:
        for p in workers.values():
            try:
                p.stdin.close()
                p.wait(10)
            except (OSError, subprocess.TimeoutExpired):
                p.kill()
        for s in servers:
            if s.proc:
                s.proc.terminate()
        for s in servers:
            if s.proc:
                try:
                    code = s.proc.wait(15)
                except subprocess.TimeoutExpired:
                    s.kill()
                    code = "none within 15 s"
                if code != 0 and not a.apache:  # a JVM ends with 143
                    failed.append("server %d ended with exit code %s" % (s.sid, code))
                    print("FAIL:", failed[-1], flush=True)
    if failed:
        print("%d FAILED; logs in %s" % (len(failed), root))
        sys.exit(1)
    if not a.dir:
        shutil.rmtree(root)
    print("ok")


main()
