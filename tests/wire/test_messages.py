"""What a declaration turns into: constructors, equality, errors of writing, records by reference."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.errors import OdradekError, ProtocolError
from odradek.wire.api import ApiKey
from odradek.wire.errors import InvalidMessageError
from odradek.wire.fields import Field, int8, int32, nested, string
from odradek.wire.message import Data, Message, Struct, data, record_key, struct
from odradek.wire.messages import request_class, response_class
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.fetch import FetchResponse, NodeEndpoint, PartitionData
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.primitives import ZERO_UUID
from odradek.wire.schemas.consumer_offsets import GroupMetadataValue, OffsetCommitKey
from odradek.wire.schemas.consumer_protocol import ConsumerProtocolSubscription
from odradek.wire.structs import struct_fields
from waiting import WITHIN_S


def produce(*batches: Any) -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=records) for index, records in enumerate(batches)]
    return ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=partitions)]
    )


def test_a_constructor_takes_keywords_and_has_kafkas_defaults() -> None:
    message = CreateTopicsRequest()
    assert (message.topics, message.timeout_ms, message.validate_only) == ([], 60000, False)
    assert TopicProduceData().topic_id == ZERO_UUID
    assert ProduceRequest().transactional_id is None
    assert PartitionData().diverging_epoch.end_offset == -1
    with pytest.raises(TypeError):
        ProduceRequest(no_such_field=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ProduceRequest("positional")  # type: ignore[misc]


def test_defaults_are_not_shared() -> None:
    first, second = PartitionData(), PartitionData()
    first.diverging_epoch.epoch = 5
    assert second.diverging_epoch.epoch == -1
    one, other = CreateTopicsRequest(), CreateTopicsRequest()
    one.topics.append(CreatableTopic(name="t"))
    assert other.topics == []


def test_messages_are_slotted_mutable_and_compare_by_value() -> None:
    message = produce(b"x")
    assert message == produce(b"x")
    assert message != produce(b"y")
    assert message != object()
    message.acks = 0
    assert message.acks == 0
    with pytest.raises(AttributeError):
        message.ack = 1  # type: ignore[attr-defined]
    assert "acks=0" in repr(message)
    with pytest.raises(TypeError):
        hash(message)


def test_decode_wants_the_whole_buffer() -> None:
    encoded = produce(b"x").encode(7)
    with pytest.raises(ProtocolError, match="1 bytes left over"):
        ProduceRequest.decode(encoded + b"\0", 7)
    message, end = ProduceRequest.decode_from(b"head" + encoded + b"tail", 7, 4)
    assert (message, end) == (produce(b"x"), 4 + len(encoded))


@pytest.mark.parametrize("version", [-1, 14])
def test_versions_that_do_not_exist(version: int) -> None:
    with pytest.raises(ValueError, match=f"no version {version}"):
        ProduceRequest.decode(b"", version)
    with pytest.raises(ValueError, match="known: 0 to 13"):
        ProduceRequest().encode(version)


# -- records


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("version", [3, 9])
def test_decoded_records_are_views_into_the_frame(version: int, wrap: type) -> None:
    frame = wrap(produce(b"records" * 10).encode(version))
    found = ProduceRequest.decode(frame, version).topic_data[0].partition_data[0].records
    assert isinstance(found, memoryview)
    assert found.obj is (frame.obj if isinstance(frame, memoryview) else frame)
    assert found == b"records" * 10


@pytest.mark.parametrize("version", [3, 9])
def test_encode_parts_hands_out_the_callers_larger_buffers(version: int) -> None:
    pieces = [bytearray(b"first" * 2000), memoryview(b"second" * 2000)]
    whole = b"x" * 10_000
    message = produce(whole, pieces, b"", None)
    parts = message.encode_parts(version)
    assert sum(part is whole for part in parts) == 1
    assert sum(part is piece for part in parts for piece in pieces) == 2
    assert len(parts) == 6
    assert b"".join(parts) == message.encode(version)
    assert b"".join(parts) == produce(whole, b"first" * 2000 + b"second" * 2000, b"", None).encode(version)


# -- what a version cannot carry


def test_a_value_that_the_version_lacks_is_an_error_unless_ignorable() -> None:
    with pytest.raises(
        InvalidMessageError, match=r"ProduceRequest\.transactional_id is 'tx'.* version 2"
    ) as caught:
        ProduceRequest(transactional_id="tx").encode(2)
    assert isinstance(caught.value, OdradekError)
    assert isinstance(caught.value, ValueError)
    topic = TopicProduceData(name="t", topic_id=b"\1" * 16)  # ignorable: dropped
    assert ProduceRequest(topic_data=[topic]).encode(9) == ProduceRequest(
        topic_data=[TopicProduceData(name="t")]
    ).encode(9)


def test_nested_structs_and_unknown_tags_are_not_dropped_silently() -> None:
    response = FetchResponse()
    response.node_endpoints = [None]  # type: ignore[list-item]
    with pytest.raises(InvalidMessageError, match="node_endpoints"):
        response.encode(4)
    message = ProduceRequest()
    message.unknown_tagged_fields = {9: b"x"}
    with pytest.raises(InvalidMessageError, match="unknown_tagged_fields"):
        message.encode(3)
    assert ProduceRequest.decode(message.encode(9), 9).unknown_tagged_fields == {9: b"x"}


@pytest.mark.parametrize(
    ("message", "version", "complaint"),
    [
        (ProduceRequest(acks=70000), 7, "acks: 70000 is not an int16"),
        (ProduceRequest(acks="1"), 7, "acks: '1' is not an int16"),  # type: ignore[arg-type]
        (ProduceRequest(topic_data=None), 7, "topic_data: None where null is not allowed"),  # type: ignore[arg-type]
        (ProduceRequest(topic_data=[TopicProduceData(name=None)]), 9, r"topic_data\[0\].name: None"),  # type: ignore[arg-type]
        (
            ProduceRequest(topic_data=[TopicProduceData(name="x" * 40000)]),
            9,
            r"topic_data\[0\].name: a string of 40000",
        ),
        (
            ProduceRequest(topic_data=[TopicProduceData(name="x" * 40000)]),
            7,
            r"topic_data\[0\].name: a string of 40000",
        ),
        (ProduceRequest(topic_data=[TopicProduceData(name="\ud800")]), 7, "surrogates"),
        (ProduceRequest(topic_data=[TopicProduceData(topic_id=b"x")]), 13, "topic_id: b'x' is not a uuid"),
        (ProduceRequest(topic_data=[MetadataRequestTopic()]), 7, "instead of TopicProduceData"),  # type: ignore[list-item]
        (MetadataRequest(topics=None), 0, "topics: None where null is not allowed"),
    ],
)
def test_values_that_do_not_fit_are_named(message: Message, version: int, complaint: str) -> None:
    with pytest.raises(InvalidMessageError, match=complaint):
        message.encode(version)


def test_a_failed_encode_leaves_the_message_usable() -> None:
    message = ProduceRequest(acks=70000)
    with pytest.raises(InvalidMessageError):
        message.encode(7)
    message.acks = 1
    assert ProduceRequest.decode(message.encode(7), 7) == message


# -- tagged fields


def test_a_tag_of_a_later_version_is_an_error_in_an_earlier_one() -> None:
    """Fetch 12 knows the tag 0 of its request, but 1 came with 15."""
    later = bytes.fromhex("01010c" + "00" * 12)
    plain = request_class(1)().encode(12)
    assert plain.endswith(b"\0")
    with pytest.raises(ProtocolError, match="tag 1 is not known to version 12"):
        request_class(1).decode(plain[:-1] + later, 12)


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [
        ("02 0500 0500", "ascend"),
        ("02 0600 0500", "ascend"),
        ("01 0505 00", "claims 5 bytes"),
        ("01 ffffffff0f 00", "ascend"),
        ("01 ffffffffff01 00", "varint"),
        ("02 0500", "index out of range|out of bounds"),
    ],
)
def test_malformed_tags(tags: str, complaint: str) -> None:
    plain = request_class(12)().encode(4)
    with pytest.raises(ProtocolError, match=complaint):
        request_class(12).decode(plain[:-1] + bytes.fromhex(tags), 4)


def test_an_unknown_tag_may_not_take_a_declared_number() -> None:
    for endpoints in ([], [NodeEndpoint()]):
        message = FetchResponse(node_endpoints=endpoints)
        message.unknown_tagged_fields = {0: b""}
        with pytest.raises(InvalidMessageError, match="unknown tag 0 is one of the declared tags"):
            message.encode(16)


# -- prefixes


def test_stored_values_begin_with_their_version() -> None:
    value = GroupMetadataValue(protocol_type="consumer", generation=3)
    assert value.encode_prefixed(3)[:2] == b"\0\3"
    assert GroupMetadataValue.decode_prefixed(value.encode_prefixed(3)) == value
    with pytest.raises(ProtocolError, match="version 9 is not known"):
        GroupMetadataValue.decode_prefixed(b"\0\x09" + value.encode(3))
    with pytest.raises(ProtocolError, match="too short"):
        GroupMetadataValue.decode_prefixed(b"\0")
    with pytest.raises(ProtocolError, match="left over"):
        GroupMetadataValue.decode_prefixed(value.encode_prefixed(3) + b"\0")


def test_stored_keys_begin_with_their_type() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    assert key.encode_prefixed(0)[:2] == b"\0\1"
    assert OffsetCommitKey.decode_prefixed(key.encode_prefixed(0)) == key
    with pytest.raises(ProtocolError, match="record type 2 instead of 1"):
        OffsetCommitKey.decode_prefixed(b"\0\2" + key.encode(0))


def test_a_subscription_is_prefixed_as_clients_send_it() -> None:
    value = ConsumerProtocolSubscription(topics=["t"])
    assert value.encode_prefixed(0) == bytes.fromhex("0000 00000001 0001 74 ffffffff")


# -- a declaration of the test's own


@struct
class Point(Struct):
    """A point."""

    x: int = int32()
    y: int = int32("1+", default=7)


@data(versions="0-2", flexible="2+")
class Shape(Data):
    """A shape."""

    name: str | None = string(nullable="1+", default=None)
    corner: Point = nested(Point)
    extra: Point | None = nested(Point, "2+", nullable="2+", default=None, tag=3)
    weight: int = int8("0-1", default=-1)


@record_key(5)
class Named(Data):
    """A key."""

    name: str = string()


def test_a_declaration_of_ones_own() -> None:
    shape = Shape(name="s", corner=Point(x=1, y=7), weight=-1)
    assert Shape.decode(shape.encode(0), 0) == shape
    assert shape.encode(0) == bytes.fromhex("0001 73 00000001 ff")
    with pytest.raises(InvalidMessageError, match="weight is 3, which version 2"):
        Shape(name="s", weight=3).encode(2)
    with pytest.raises(InvalidMessageError, match="name: None"):
        Shape().encode(0)
    shape.extra = Point(x=2)
    encoded = shape.encode(2)
    assert encoded == bytes.fromhex("02 73 00000001 00000007 00 01 03 0a 01 00000002 00000007 00")
    assert Shape.decode(encoded, 2) == shape
    assert Named(name="n").encode_prefixed(0) == bytes.fromhex("0005 0001 6e")


def test_a_missing_version_part_of_a_struct() -> None:
    with pytest.raises(InvalidMessageError, match=r"Point\.y is 1"):
        Shape(name="", corner=Point(y=1)).encode(0)


# -- any message that can be built


def values(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    limits = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
    kind = field.kind
    strategy: st.SearchStrategy[Any]
    if kind in limits:
        strategy = st.integers(-(2 ** limits[kind]), 2 ** limits[kind] - 1)
    elif kind in ("uint16", "uint32"):
        strategy = st.integers(0, 2 ** int(kind[4:]) - 1)
    elif kind == "bool":
        strategy = st.booleans()
    elif kind == "float64":
        strategy = st.floats(allow_nan=False)
    elif kind == "uuid":
        strategy = st.binary(min_size=16, max_size=16)
    elif kind == "string":
        strategy = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    elif kind in ("bytes", "records"):
        strategy = st.binary(max_size=6)
    elif kind == "struct":
        assert field.struct is not None
        strategy = messages(field.struct, version, flexible)
    else:
        assert field.element is not None
        strategy = st.lists(values(field.element, version, flexible), max_size=2)
    return st.none() | strategy if version in field.nullable else strategy


def messages(cls: type[Struct], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    inline, tagged, _ = struct_fields(cls, version, flexible=flexible)
    return st.builds(cls, **{f.name: values(f, version, flexible) for f in inline + tagged})


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_can_be_built_comes_back(draw: st.DataObject) -> None:
    cls = draw.draw(
        st.sampled_from([pick(key) for key in ApiKey for pick in (request_class, response_class)])
    )
    version = draw.draw(st.sampled_from(cls.VERSIONS))
    flexible = cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM
    message = draw.draw(messages(cls, version, flexible))
    assert cls.decode(message.encode(version), version) == message
    assert cls.from_json(message.to_json(version), version) == message


# -- lightness


def test_importing_the_package_imports_no_message() -> None:
    code = (
        "import sys, odradek.wire; print([m for m in sys.modules if m.startswith('odradek.wire.messages.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=WITHIN_S
    )
    assert done.stdout.strip() == "[]"
