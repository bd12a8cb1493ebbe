#!/usr/bin/env python3
"""kazoo's recipes beside ours: see ../README.md."""
import sys

from kazoo.client import KazooClient

IDLE = 5  # seconds


def main():
    mode, connect, path, args = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    zk = KazooClient(hosts=connect, timeout=10)
    zk.add_listener(lambda state: print("connection", state, file=sys.stderr, flush=True))
    zk.start(timeout=20)
    if mode == "count":
        counter = zk.Counter(path, support_curator=args[0] == "int32")
        for _ in range(int(args[1])):
            counter += 1
        print("done")
    elif mode == "put":
        queue = zk.LockingQueue(path)
        for i in range(int(args[1])):
            queue.put(b"%s-%d" % (args[0].encode(), i))
        print("done")
    elif mode == "take":
        queue, had = zk.LockingQueue(path), []
        while (item := queue.get(timeout=IDLE)) is not None:
            had.append(item.decode())
            queue.consume()
        print(" ".join(had))
    elif mode == "barrier":
        barrier = zk.Barrier(path)
        barrier.create()
        print("set", flush=True)
        sys.stdin.read()
        barrier.remove()
    elif mode == "wait":
        while not zk.retry(zk.Barrier(path).wait, 2):  # it misses what happens while it has no connection
            pass
        print("passed")
    zk.stop()
    zk.close()


main()
