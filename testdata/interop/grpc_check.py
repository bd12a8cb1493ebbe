#!/usr/bin/env python3
"""The gRPC API through a generated Python client: grpc_check.py HOST:PORT. Health, reflection, unary calls, a stream."""
import os
import queue
import subprocess
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from zk.v1 import zk_pb2 as zk
from zk.v1 import zk_pb2_grpc

OPEN = zk.ACLList(entries=[zk.ACL(perms=31, scheme="world", id="anyone")])


def main():
    addr = sys.argv[1]
    channel = grpc.insecure_channel(addr)
    health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
    assert health.status == health_pb2.HealthCheckResponse.SERVING, health
    services = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert "zk.v1.ZooKeeperService" in services, services
    api = zk_pb2_grpc.ZooKeeperServiceStub(channel)
    root = "/grpc-check-" + addr.split(":")[1]
    assert api.Create(zk.CreateRequest(path=root, data=b"1", acl=OPEN), timeout=10).path == root
    api.Set(zk.SetRequest(path=root, data=b"2", version=0), timeout=10)
    got = api.Get(zk.GetRequest(path=root), timeout=10)
    assert got.data == b"2" and got.stat.version == 1, got
    try:
        api.Get(zk.GetRequest(path=root + "/none"), timeout=10)
        raise AssertionError("a missing node was found")
    except grpc.RpcError as e:
        assert e.code() == grpc.StatusCode.NOT_FOUND, e

    out = queue.Queue()
    answers = api.Session(iter(out.get, None))
    flat = (a for r in answers for a in r.answers)
    out.put(zk.SessionRequest(commands=[zk.Command(cxid=1, connect=zk.ConnectRequest(timeout_ms=10000))]))
    first = next(flat)
    assert first.WhichOneof("kind") == "connected" and first.connected.session_id, first
    out.put(zk.SessionRequest(commands=[
        zk.Command(cxid=2, create=zk.CreateRequest(path=root + "/e", mode=zk.CREATE_MODE_EPHEMERAL, acl=OPEN)),
        zk.Command(cxid=3, get=zk.GetRequest(path=root, watch=True)),
        zk.Command(cxid=4, set=zk.SetRequest(path=root, data=b"3", version=-1)),
        zk.Command(cxid=5, children=zk.ChildrenRequest(path=root)),
    ]))
    seen = []
    for _ in range(5):
        a = next(flat)
        seen.append(a.reply.cxid if a.WhichOneof("kind") == "reply" else "event")
    assert seen == [2, 3, "event", 4, 5], seen
    out.put(zk.SessionRequest(commands=[zk.Command(cxid=6, close=zk.CloseRequest())]))
    assert next(flat).reply.cxid == 6
    assert list(flat) == []
    out.put(None)
    assert not api.Exists(zk.ExistsRequest(path=root + "/e"), timeout=10).HasField("stat"), "the ephemeral outlived its session"
    api.Delete(zk.DeleteRequest(path=root, version=-1), timeout=10)
    example = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "grpc_example.py"), addr],
                             capture_output=True, text=True, timeout=60, check=True).stdout.split("\n")
    want = ["2 CODE_OK", "3 CODE_OK", "EVENT_TYPE_NODE_DATA_CHANGED /py", "4 CODE_OK", "5 CODE_OK", ""]
    assert example == want, example
    print("ok")


main()
