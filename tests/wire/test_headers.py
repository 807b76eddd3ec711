"""Headers: their versions, the size in front, and what malformed ones get."""

from __future__ import annotations

import pytest

from odradek.errors import ProtocolError
from odradek.wire.api import ApiKey, request_header_version, response_header_version
from odradek.wire.headers import (
    MOST_UNKNOWN_TAGS,
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from odradek.wire.messages import request_class
from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.primitives import join_tags


@pytest.mark.parametrize("client_id", [None, "", "client", "käfer" * 40])
@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_request_goes_out_and_comes_in(version: int, client_id: str | None) -> None:
    request = HeartbeatRequest(group_id="g", member_id="m")
    frame = b"".join(encode_request(ApiKey.HEARTBEAT, version, -7, client_id, request))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, start = decode_request_header(frame[4:])
    expected = RequestHeader(api_key=12, api_version=version, correlation_id=-7, client_id=client_id)
    assert header == expected
    assert frame[4 : 4 + start] == expected.encode(request_header_version(12, version))
    assert HeartbeatRequest.decode(frame[4 + start :], version) == request


@pytest.mark.parametrize("version", [0, 4])
def test_a_response_goes_out_and_comes_in(version: int) -> None:
    response = HeartbeatResponse(error_code=27)
    frame = b"".join(encode_response(ApiKey.HEARTBEAT, version, 99, response))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode_response(frame[4:], ApiKey.HEARTBEAT, version) == (99, response)
    with pytest.raises(ProtocolError, match="left over"):
        decode_response(frame[4:] + b"\0", ApiKey.HEARTBEAT, version)


def test_api_versions_answers_under_header_version_0() -> None:
    assert [response_header_version(18, version) for version in range(6)] == [0] * 6
    frame = b"".join(encode_response(ApiKey.API_VERSIONS, 3, 1, ApiVersionsResponse(error_code=35)))
    assert frame[4:10] == bytes.fromhex("00000001 0023")


def test_controlled_shutdown_0_has_no_client_id() -> None:
    assert [request_header_version(7, version) for version in range(4)] == [0, 1, 1, 2]
    request = ControlledShutdownRequest(broker_id=5)
    frame = b"".join(encode_request(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, "ignored", request))
    assert frame == bytes.fromhex("0000000c 0007 0000 00000003 00000005")
    header, start = decode_request_header(frame[4:])
    assert (header.client_id, start) == (None, 8)


def test_the_client_id_of_a_flexible_header_is_not_compact() -> None:
    frame = b"".join(encode_request(ApiKey.API_VERSIONS, 3, 1, "ab", ApiVersionsRequest()))
    assert frame[12:17] == bytes.fromhex("0002 6162 00")


@pytest.mark.parametrize("version", [7, 9])
def test_records_are_not_copied_on_the_way_out(version: int) -> None:
    batch = bytearray(10_000)
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])]
    parts = encode_request(ApiKey.PRODUCE, version, 1, "c", ProduceRequest(topic_data=data))
    assert sum(part is batch for part in parts) == 1
    assert len(parts) == (2 if version == 7 else 3)
    assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ("", "too short"),
        ("000000", "too short"),
        ("0034 0000 00000000 ffff", "API key 52 is not known"),
        ("ffff 0000 00000000 ffff", "API key -1 is not known"),
        ("0000 0007 0000", "RequestHeader v1"),
        ("0000 0007 00000000 0005 6162", "client_id claims 5 bytes, 2 are left"),
        ("0000 0007 00000000 0002 c328", "utf-8"),
        ("0000 0009 00000000 ffff", "RequestHeader v2"),
        ("0000 0009 00000000 ffff 01", "RequestHeader v2"),
    ],
)
def test_malformed_headers(frame: str, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        decode_request_header(bytes.fromhex(frame))


def test_a_header_of_a_version_that_does_not_exist_is_still_read() -> None:
    """The broker needs it to answer: ApiVersions 99 gets an answer in version 0."""
    header, _ = decode_request_header(bytes.fromhex("0012 0063 0000000b ffff 00"))
    assert (header.api_key, header.api_version, header.correlation_id) == (18, 99, 11)


def test_unknown_tags_of_a_header_are_passed_over_as_far_as_they_are_few() -> None:
    head = bytes.fromhex("000c 0004 00000001 ffff")
    header, start = decode_request_header(head + bytes.fromhex("01 05 02 abcd"))
    assert header.unknown_tagged_fields is None
    assert start == 15
    most = join_tags([], dict.fromkeys(range(MOST_UNKNOWN_TAGS), b"x"))
    assert decode_request_header(head + most)[1] == len(head + most)
    with pytest.raises(ProtocolError, match="more than 256 elements and unknown tagged fields"):
        decode_request_header(head + join_tags([], dict.fromkeys(range(MOST_UNKNOWN_TAGS + 1), b"x")))


def test_unknown_keys_are_value_errors() -> None:
    for call in (request_header_version, response_header_version):
        with pytest.raises(ValueError, match="52"):
            call(52, 0)
    with pytest.raises(ValueError, match="52"):
        request_class(52)
