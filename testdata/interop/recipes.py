#!/usr/bin/env python3
"""Our recipes beside those of Curator and kazoo that docs/recipes says are the same: for .ci/interop-locks.

    recipes.py --server ZKSERVER --java-classpath CP --ours BIN [--dir DIR]

Three servers. Counters and a value are added to by all at the same time; a queue is filled and emptied by all; members of a
group, and instances of a service, see each other; who waits at a barrier that one has set is let pass. Exit 0 if all that
is so. Only processes started here are ended.
"""
import argparse
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
from ensemble import Ensemble  # noqa: E402

PATIENCE = 120  # seconds for a worker
ADDS, ITEMS = 100, 50


def main():
    ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    ap.add_argument("--server", required=True)
    ap.add_argument("--java-classpath", required=True)
    ap.add_argument("--ours", required=True)
    ap.add_argument("--dir")
    a = ap.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what runs is ended
    root = a.dir or tempfile.mkdtemp(prefix="zk-recipes-")
    os.makedirs(root, exist_ok=True)
    workers = {
        "ours": [a.ours, "zookeeper"],
        "ours-grpc": [a.ours, "grpc"],
        "curator": ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", a.java_classpath, "Recipes"],
        "kazoo": [sys.executable, os.path.join(HERE, "kazoo", "recipes.py")],
    }
    zk = Ensemble(a.server, root)
    running, failed = [], []

    def start(who, mode, path, *args):
        with open(os.path.join(root, who + ".err"), "ab") as err:
            p = subprocess.Popen(workers[who] + [mode, zk.connect, path, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
        p.who = who
        running.append(p)
        return p

    def end(p):
        """What a worker has said; it is told to end."""
        try:
            out, _ = p.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            p.kill()
            out, _ = p.communicate()
        if p.returncode:
            with open(os.path.join(root, p.who + ".err")) as f:
                failed.append("%s: exit %s: %s" % (p.args, p.returncode, f.read()[-2000:]))
        return out.strip()

    def count(format, theirs):
        """theirs: client, and what the format is called there. They add again where a reply is lost with a connection."""
        for again in range(5):
            for who, _ in theirs:
                open(os.path.join(root, who + ".err"), "w").close()
            before = len(failed)
            wrong = counted("/count-%s-%d" % (format, again), format, theirs)
            ours_failed = any(a.ours in f for f in failed[before:])
            lost = any("connection SUSPENDED" in open(os.path.join(root, who + ".err")).read() for who, _ in theirs)
            if not wrong and len(failed) == before or ours_failed or not lost:
                break
            del failed[before:]
        if wrong:
            failed.append("%s: not counted well" % format)

    def counted(path, format, theirs):
        """What is missing, or too much."""
        all = [start(who, "count", path, format, str(ADDS)) for who in ("ours", "ours-grpc")]
        all += [start(who, "count", path, name, str(ADDS)) for who, name in theirs]
        for p in all:
            end(p)
        sum = end(start("ours", "read", path, format))
        print("%s: %d each by ours, ours-grpc, %s: %s" % (format, ADDS, ", ".join("%s (%s)" % t for t in theirs), sum), flush=True)
        return ADDS * len(all) - int(sum or 0)

    def queue():
        put = [start(who, "put", "/queue", who, str(ITEMS)) for who in ("ours", "ours-grpc", "kazoo")]
        for p in put:
            end(p)
        take = [start("ours", "take", "/queue", "take"), start("ours-grpc", "take", "/queue", "claim"), start("kazoo", "take", "/queue")]
        had = {p.who: end(p).split() for p in take}
        rest = end(start("ours", "take", "/queue", "take")).split()  # of a machine that was busy for longer than they wait
        print("queue: had %s" % {who: len(items) for who, items in had.items()}, flush=True)
        want = sorted("%s-%d" % (p.who, i) for p in put for i in range(ITEMS))
        if sorted(sum(had.values(), rest)) != want:
            failed.append("queue: had %s, and at the end %s" % (had, rest))
        for who, items in had.items():
            if not any(i.startswith("kazoo") != (who == "kazoo") for i in items):
                failed.append("queue: %s has had nothing of the others" % who)

    def see(mode, ours, args, want):
        path = "/%s-%s" % (mode, ours)
        both = [start(who, mode, path, *args(i, who)) for i, who in enumerate((ours, "curator"))]
        seen = [p.stdout.readline().strip() for p in both]
        for p in both:
            end(p)
        print("%s: %s" % (mode, " | ".join(seen)), flush=True)
        if seen != [want(ours)] * 2:
            failed.append("%s: seen %s, want %s" % (mode, seen, want(ours)))

    def barrier(sets, waits):
        path = "/barrier-%s-%s" % (sets, waits)
        b = start(sets, "barrier", path)
        if b.stdout.readline() != "set\n":
            failed.append("%s: no barrier" % path)
            return
        w = start(waits, "wait", path)
        end_of_look = time.monotonic() + 3  # by then it waits, on a machine that is not busy
        while w.poll() is None and time.monotonic() < end_of_look:
            time.sleep(0.05)
        held = w.poll() is None
        end(b)
        passed = end(w)
        print("%s: %s" % (path, "held, then passed" if held and passed == "passed" else "FAULT"), flush=True)
        if not held or passed != "passed":
            failed.append("%s: held %s, %s" % (path, held, passed))

    try:
        zk.start()
        count("decimal", [("kazoo", "decimal")])
        count("int32", [("kazoo", "int32"), ("curator", "int32"), ("curator", "shared")])
        count("int64", [("curator", "int64")])
        count("text", [("curator", "text")])
        queue()
        see("member", "ours", lambda i, who: [who], lambda ours: "curator of curator, %s of %s" % (ours, ours))
        see("member", "ours-grpc", lambda i, who: [who], lambda ours: "curator of curator, %s of %s" % (ours, ours))
        for ours in ("ours", "ours-grpc"):
            see("service", ours, lambda i, who: [who, str(8080 + i)], lambda ours: "curator 10.0.0.1 8081 curator, %s 10.0.0.1 8080 %s" % (ours, ours))
        for other in ("curator", "kazoo"):
            barrier("ours", other)
            barrier(other, "ours-grpc")
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
