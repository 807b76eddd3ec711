"""Classes of protobuf's messages, made as generated code makes them."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from odradek.util.protobuf_text import compile_text

INNER = 'syntax = "proto3"; package serdes.inner; message Inner { string s = 1; }'
SALE = """
syntax = "proto3"; package serdes; import "serdes_inner.proto"; import "google/protobuf/timestamp.proto";
message Other {}
message Sale {
  message Line { int32 number = 1; }
  int32 x = 1; serdes.inner.Inner inside = 2; google.protobuf.Timestamp at = 3; map<string, int64> m = 4;
}
"""
REQUIRED = 'syntax = "proto2"; package serdes.two; message Required { required int32 x = 1; }'


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.Default()
    # Whoever asks first brings it.
    assert pool.FindFileByName(timestamp_pb2.DESCRIPTOR.name)
    sources = [("serdes_inner.proto", INNER), ("serdes_sale.proto", SALE)]
    for data in [*compile_text(sources), *compile_text([("serdes_two.proto", REQUIRED)])]:
        if not descriptor_pb2.FileDescriptorProto.FromString(data).name.startswith("google/"):
            pool.AddSerializedFile(data)
    return pool


def message_class(name: str) -> Any:
    """The class of a message by its full name."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))
