"""Queries a gRPC port with a key and without: check.py DESCRIPTORS HOST:PORT KEY"""
import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

descriptors, address, key = sys.argv[1:]
pool = descriptor_pool.DescriptorPool()
with open(descriptors, "rb") as file:
    for each in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
        pool.Add(each)
factory = message_factory.MessageFactory(pool)
method = pool.FindServiceByName("envoy.service.auth.v3.Authorization").methods_by_name["Check"]
request = factory.GetPrototype(method.input_type)
response = factory.GetPrototype(method.output_type)

with grpc.insecure_channel(address) as channel:
    check = channel.unary_unary(
        "/envoy.service.auth.v3.Authorization/Check",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    answers = []
    for headers in ({"service-key": key}, {}):
        http = {"method": "GET", "path": "/x", "host": "api.example.com", "headers": headers}
        asked = json_format.ParseDict({"attributes": {"request": {"http": http}}}, request())
        answers.append(json_format.MessageToDict(check(asked, timeout=30)))
    print(json.dumps(answers))
