"""A session over gRPC in Python, as docs/grpc.md shows it: grpc_example.py HOST:PORT. grpc_check.py runs it."""
import queue, sys
import grpc
from zk.v1 import zk_pb2 as zk, zk_pb2_grpc

say = queue.SimpleQueue()  # what is put here goes out; None ends the stream
answers = zk_pb2_grpc.ZooKeeperServiceStub(grpc.insecure_channel(sys.argv[1])).Session(iter(say.get, None))
anyone = zk.ACLList(entries=[zk.ACL(perms=31, scheme="world", id="anyone")])
say.put(zk.SessionRequest(commands=[
    zk.Command(cxid=1, connect=zk.ConnectRequest(timeout_ms=10000)),
    zk.Command(cxid=2, create=zk.CreateRequest(path="/py", mode=zk.CREATE_MODE_EPHEMERAL, acl=anyone)),
    zk.Command(cxid=3, get=zk.GetRequest(path="/py", watch=True)),
    zk.Command(cxid=4, set=zk.SetRequest(path="/py", data=b"hello", version=0)),
    zk.Command(cxid=5, close=zk.CloseRequest()),
]))
for message in answers:
    for a in message.answers:
        if a.HasField("event"):
            print(zk.EventType.Name(a.event.type), a.event.path)
        elif a.HasField("reply"):
            print(a.reply.cxid, zk.Code.Name(a.reply.code))
say.put(None)
