"""Versions and the connection's protocol state, against bytes and against recorded handshakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.client.core.connection import ConnectionState
from odradek.client.core.versions import SPOKEN, NodeVersions, handshake_retry_version
from odradek.client.errors import UnsupportedByBrokerError
from odradek.errors import ProtocolError
from odradek.wire.api import ApiKey
from odradek.wire.headers import encode_response
from odradek.wire.messages import request_class
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

TRANSCRIPTS = Path(__file__).parents[1] / "golden" / "transcripts"


def frame(buffers: list[Any]) -> bytes:
    """A frame as it is received: joined, without its size."""
    return b"".join(bytes(b) for b in buffers)[4:]


def answer(correlation_id: int, *ranges: tuple[int, int, int], error: int = 0, version: int = 0) -> bytes:
    keys = [ApiVersion(api_key=k, min_version=low, max_version=high) for k, low, high in ranges]
    response = ApiVersionsResponse(error_code=error, api_keys=keys)
    return frame(encode_response(ApiKey.API_VERSIONS, version, correlation_id, response))


def test_every_version_spoken_is_one_that_exists() -> None:
    for key, (low, high) in SPOKEN.items():
        versions = request_class(key).VERSIONS
        assert low in versions
        assert high in versions


def test_the_newest_common_version_is_picked() -> None:
    node = NodeVersions({ApiKey.PRODUCE: (0, 7), ApiKey.FETCH: (4, 99), ApiKey.OFFSET_FETCH: (0, 0)})
    assert node.pick(ApiKey.PRODUCE) == 7
    assert node.pick(ApiKey.FETCH) == SPOKEN[ApiKey.FETCH][1]
    assert node.pick(ApiKey.FETCH, at_most=12) == 12
    with pytest.raises(UnsupportedByBrokerError, match=r"OffsetFetch: .* 1 .* 0 to 0; Kafka 0\.8\.2 "):
        node.pick(ApiKey.OFFSET_FETCH)
    with pytest.raises(UnsupportedByBrokerError, match=r"not offer ListOffsets, which Kafka 0\.8\.2 brought"):
        node.pick(ApiKey.LIST_OFFSETS)
    with pytest.raises(UnsupportedByBrokerError, match="from 8"):
        node.pick(ApiKey.PRODUCE, at_least=8)
    assert node.has(ApiKey.PRODUCE)
    assert not node.has(ApiKey.OFFSET_FETCH)


def test_a_handshake_that_the_broker_understands() -> None:
    state = ConnectionState("me")
    sent = frame(state.start_handshake(0.0))
    assert sent[:4] == bytes.fromhex("00120004")
    assert state.continue_handshake(answer(0, (0, 0, 9), version=4)) is None
    assert state.versions is not None
    assert state.versions.ranges == {0: (0, 9)}


@pytest.mark.parametrize(
    ("ranges", "next_version"),
    [([], 0), ([(18, 0, 2)], 2), ([(0, 0, 7), (18, 0, 3)], 3), ([(18, 0, 9)], 3)],
)
def test_a_handshake_that_goes_down(ranges: Any, next_version: int) -> None:
    state = ConnectionState("me")
    state.start_handshake(0.0)
    again = state.continue_handshake(answer(0, *ranges, error=35))
    assert again is not None
    assert frame(again)[2:4] == next_version.to_bytes(2, "big")
    assert state.continue_handshake(answer(1, (3, 0, 1), version=next_version)) is None


def test_recorded_handshakes() -> None:
    """Kafka 3.9 does not know version 5 and answers in version 0; the frames are a real broker's."""
    seen = 0
    for path in sorted(TRANSCRIPTS.glob("4.4.0.jsonl*")):
        text = path.read_text(encoding="utf-8") if path.suffix == ".jsonl" else _gunzip(path)
        for line in text.splitlines():
            entry = json.loads(line)
            if entry["key"] == 18 and entry["dir"] != "request" and entry["version"] == 5:
                body = bytes.fromhex(entry["hex"])
                if body[4:6] == b"\x00\x23":
                    assert handshake_retry_version(body, 5) == 4
                    seen += 1
    if not list(TRANSCRIPTS.glob("4.4.0.jsonl*")):
        pytest.skip("no transcripts here")
    assert seen


def _gunzip(path: Path) -> str:
    import gzip

    return gzip.decompress(path.read_bytes()).decode()


def ready() -> ConnectionState:
    state = ConnectionState("me")
    state.start_handshake(0.0)
    state.continue_handshake(answer(0, (12, 0, 4), version=4))
    return state


def test_answers_are_matched_in_order() -> None:
    state = ready()
    state.request(HeartbeatRequest(group_id="a"), 4, "first", 10.0)
    state.request(HeartbeatRequest(group_id="b"), 0, "second", 5.0)
    assert state.next_deadline_ms() == 5.0
    asked, message = state.receive(frame(encode_response(12, 4, 1, HeartbeatResponse(error_code=27))))
    assert (asked.token, message.error_code) == ("first", 27)
    asked, message = state.receive(frame(encode_response(12, 0, 2, HeartbeatResponse())))
    assert asked.token == "second"
    assert state.next_deadline_ms() is None
    with pytest.raises(ProtocolError, match="nobody"):
        state.receive(b"\0\0\0\3\0\0")


def test_a_request_in_front_of_a_throttled_connection_has_more_time() -> None:
    state = ConnectionState("test")
    for number in range(3):
        state.request(ApiVersionsRequest(), 3, number, state.deadline_ms(1_000, 500))
    assert state.next_deadline_ms() == 1_500
    state.in_flight.popleft()
    state.note_throttle(ApiVersionsResponse(throttle_time_ms=60_000), 1_100)
    assert [asked.deadline_ms for asked in state.in_flight] == [61_500, 61_500]
    assert state.deadline_ms(1_200, 500) == 61_600
    assert state.deadline_ms(70_000, 500) == 70_500
    state.note_throttle(ApiVersionsResponse(), 70_000)
    state.note_throttle(object(), 70_000)
    assert state.deadline_ms(70_000, 500) == 70_500


def test_a_wrong_correlation_id_is_an_error() -> None:
    state = ready()
    state.request(HeartbeatRequest(group_id="a"), 0, "token", 0.0)
    with pytest.raises(ProtocolError, match="awaited"):
        state.receive(frame(encode_response(12, 0, 9, HeartbeatResponse())))


def test_an_unanswered_request_is_not_waited_for_and_abandon_gives_the_rest() -> None:
    state = ready()
    state.request(HeartbeatRequest(group_id="a"), 0, "none", 0.0, answered=False)
    state.request(HeartbeatRequest(group_id="a"), 0, "token", 0.0)
    assert [asked.token for asked in state.abandon()] == ["token"]
    assert not state.in_flight


@pytest.mark.parametrize("body", [b"", b"\0\0\0\0", b"\0\0\0\0\0\x23", b"\0\0\0\0\0\x23\xff\xff\xff\xff"])
def test_nonsense_in_the_handshake(body: bytes) -> None:
    state = ConnectionState("me")
    state.start_handshake(0.0)
    try:
        again = state.continue_handshake(body)
    except ProtocolError:
        return
    assert again is not None
