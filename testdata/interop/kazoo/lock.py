#!/usr/bin/env python3
"""kazoo's Lock beside other clients' locks: see ../README.md. The mode "deaf" is one that does not look for others'."""
import sys
import time

from kazoo.client import KazooClient


def main():
    mode, connect, path, file, seconds = sys.argv[1:6]
    zk = KazooClient(hosts=connect, timeout=10)
    zk.start(timeout=20)
    lock = zk.Lock(path, extra_lock_patterns=["-lock-"] if mode == "lock" else [])
    turns, end = 0, time.monotonic() + int(seconds)
    while time.monotonic() < end:
        with lock:
            with open(file) as f:
                n = int(f.read())
            time.sleep(0.001)  # who does not wait for the lock comes in between
            with open(file, "r+") as f:  # in place: who reads at the same time sees a number, too
                f.write("%010d" % (n + 1))
        turns += 1
    print(turns, flush=True)
    zk.stop()
    zk.close()


main()
