"""gRPC's C-core: `server` echoes metadata, `client ADDRESS CA PATH` sends it and prints what came back.
An empty CA stands for a connection without TLS."""
import json
import sys
from concurrent import futures

import grpc

SENT = [("x-text", "a"), ("x-text", "b, c"), ("x-raw-bin", b"\x01\x02\x03\x04"), ("x-raw-bin", b"\xff\x00")]


def ours(metadata):
    return [(key, value) for key, value in metadata or () if key in ("x-text", "x-raw-bin")]


class Echo(grpc.GenericRpcHandler):
    def service(self, _details):
        def answer(request, context):
            context.send_initial_metadata(ours(context.invocation_metadata()))
            context.set_trailing_metadata(ours(context.invocation_metadata()))
            return request

        return grpc.unary_unary_rpc_method_handler(answer)


def printable(metadata):
    return [[key, value if isinstance(value, str) else value.hex()] for key, value in ours(metadata)]


if sys.argv[1] == "server":
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Echo(),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()
else:
    if sys.argv[3] == "":
        channel = grpc.insecure_channel(sys.argv[2])
    else:
        with open(sys.argv[3], "rb") as ca:
            channel = grpc.secure_channel(sys.argv[2], grpc.ssl_channel_credentials(ca.read()))
    _, call = channel.unary_unary(sys.argv[4]).with_call(b"", metadata=SENT, timeout=60)
    print(json.dumps([printable(call.initial_metadata()), printable(call.trailing_metadata())]))
