#!/usr/bin/env python3
"""Our Mutex beside the locks of Curator, kazoo and go-zookeeper: for .ci/interop-locks, which says what it needs.

    locks.py --server ZKSERVER --java-classpath CP --gozk BIN --ours BIN [--seconds 60] [--dir DIR]

Three servers. For each other client: two workers of ours, one on each wire, and one of theirs take the lock of one path in
turn for so long; under the lock each reads a number from a file, waits a millisecond, and writes the next one. The number at
the end has to be that of all turns, and everybody must have had some. The same, for a quarter of the time, with our RWMutex
and Curator's InterProcessReadWriteLock, both to write, and with our Election and its LeaderLatch. Then with a kazoo that does
not look for others' locks, which must lose updates: so the file finds them. At last Curator's Revoker asks our holder to make
way, and ours Curator's. Exit 0 if all that is so. Only processes started here are ended.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "kafka"))
from ensemble import Ensemble  # noqa: E402

SLACK = 60  # seconds beyond what is asked for in which a worker must be done


def main():
    ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    ap.add_argument("--server", required=True)
    ap.add_argument("--java-classpath", required=True)
    ap.add_argument("--gozk", required=True)
    ap.add_argument("--ours", required=True)
    ap.add_argument("--seconds", type=int, default=60)
    ap.add_argument("--dir")
    a = ap.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what runs is ended
    root = a.dir or tempfile.mkdtemp(prefix="zk-locks-")
    os.makedirs(root, exist_ok=True)
    curator = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", a.java_classpath, "Locks"]
    kazoo = [sys.executable, os.path.join(HERE, "kazoo", "lock.py")]
    zk = Ensemble(a.server, root)
    running, failed = [], []

    def start(name, cmd):
        with open(os.path.join(root, name + ".err"), "ab") as err:
            p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True)
        running.append(p)
        return p

    def end(name, p, seconds):
        """The last line of a worker's output."""
        try:
            out, _ = p.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            p.kill()
            p.communicate()
            out = ""
        if p.returncode or not out.strip():
            with open(os.path.join(root, name + ".err")) as f:
                print("FAIL: %s: exit %s\n%s" % (name, p.returncode, f.read()[-2000:]), flush=True)
            failed.append(name)
            return ""
        return out.strip().splitlines()[-1]

    def beside(name, theirs, seconds, lost_wanted=False, kind="lock"):
        path, file = "/locks-" + name, os.path.join(root, name + ".count")
        with open(file, "w") as f:
            f.write("0" * 10)
        args = [zk.connect, path, file, str(seconds)]
        workers = {"ours": start("ours", [a.ours, "zookeeper", kind] + args), "ours-grpc": start("ours-grpc", [a.ours, "grpc", kind] + args),
                   name: start(name, theirs + args)}
        turns = {n: int(end(n, p, seconds + SLACK) or 0) for n, p in workers.items()}
        with open(file) as f:
            n = int(f.read())
        lost = sum(turns.values()) - n
        print("%s: %d s, turns %s, counted %d, lost %d" % (name, seconds, turns, n, lost), flush=True)
        if not all(turns.values()):
            failed.append("%s: somebody had no turn" % name)
        if (lost != 0) != lost_wanted:
            failed.append("%s: %d updates lost" % (name, lost))

    def asks(name, holder, revoker):
        h = start(name + "-holder", holder + ["hold", zk.connect, "/locks-" + name])
        if h.stdout.readline() != "held\n":
            failed.append(name + ": not held")
            return
        r = start(name + "-revoker", revoker + ["revoke", zk.connect, "/locks-" + name])
        if r.wait(SLACK) or end(name + "-holder", h, SLACK) != "revoked":
            failed.append(name + ": not revoked")
        else:
            print("%s: the holder was asked, and made way" % name, flush=True)

    try:
        zk.start()
        beside("curator", curator + ["lock"], a.seconds)
        beside("kazoo", kazoo + ["lock"], a.seconds)
        beside("go-zookeeper", [a.gozk, "lock"], a.seconds)
        for kind in ("write", "latch"):
            beside("curator-" + kind, curator + [kind], max(a.seconds // 4, 5), kind=kind)
        for _ in range(6):  # an overlap takes some luck with the times
            beside("deaf-kazoo", kazoo + ["deaf"], 5, lost_wanted=True)
            if "deaf-kazoo: 0 updates lost" not in failed:
                break
            failed.remove("deaf-kazoo: 0 updates lost")
        else:
            failed.append("deaf-kazoo: no update was lost")
        asks("curator-asks", [a.ours, "zookeeper"], curator)
        asks("ours-asks", curator, [a.ours, "grpc"])
        failed += zk.faults()
    except (RuntimeError, subprocess.TimeoutExpired) as e:
        failed.append(str(e))
    finally:
        for p in running:
            if p.poll() is None:
                p.kill()
                p.wait()
        zk.stop()
        if not a.dir:
            shutil.rmtree(root, ignore_errors=True)
    for f in failed:
        print("FAIL:", f)
    print("ok" if not failed else "%d failed" % len(failed))
    sys.exit(1 if failed else 0)


main()
