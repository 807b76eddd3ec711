"""The beginning of a connection to brokers that do not know ApiVersions, as real ones behave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.client.config import AdminConfig, build
from odradek.client.core.connection import ConnectionState
from odradek.client.core.handshake import (
    KnownBrokers,
    Opening,
    after_hang_up,
    known_brokers,
)
from odradek.client.core.versions import (
    BROUGHT_BY,
    KAFKA_0_8_2,
    KAFKA_0_9_0,
    SPOKEN,
    V0_8_2,
    V0_9_0,
    brought_by,
)
from odradek.client.errors import ConfigError, UnsupportedByBrokerError
from odradek.errors import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.headers import encode_response
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.heartbeat import HeartbeatResponse
from odradek.wire.messages.list_groups import ListGroupsResponse
from odradek.wire.messages.list_offsets import ListOffsetsResponse

RELEASES = json.loads((Path(__file__).parents[1] / "golden" / "releases.json").read_text(encoding="utf-8"))[
    "releases"
]


def frame(buffers: list[Any]) -> bytes:
    return b"".join(bytes(b) for b in buffers)[4:]


def groups(correlation_id: int) -> bytes:
    return frame(encode_response(ApiKey.LIST_GROUPS, 0, correlation_id, ListGroupsResponse()))


def offsets(correlation_id: int) -> bytes:
    return frame(encode_response(ApiKey.LIST_OFFSETS, 0, correlation_id, ListOffsetsResponse(topics=[])))


def heartbeat(correlation_id: int, error: int) -> bytes:
    return frame(encode_response(ApiKey.HEARTBEAT, 0, correlation_id, HeartbeatResponse(error_code=error)))


def versions(correlation_id: int, version: int = 4, error: int = 0) -> bytes:
    known = [] if error else [ApiVersion(api_key=3, min_version=0, max_version=5)]
    response = ApiVersionsResponse(error_code=error, api_keys=known)
    return frame(encode_response(ApiKey.API_VERSIONS, version, correlation_id, response))


def key_of(buffers: list[Any]) -> int:
    return int.from_bytes(frame(buffers)[:2], "big")


def test_a_broker_that_passes_over_api_versions_is_a_0_9_0() -> None:
    state = ConnectionState("me")
    assert key_of(state.start_handshake(0.0)) == ApiKey.API_VERSIONS
    assert key_of(state.broker_is_silent()) == ApiKey.LIST_GROUPS
    assert state.broker_is_silent() == []  # once is enough
    assert state.continue_handshake(groups(1)) is None
    assert state.versions is V0_9_0
    assert not state.in_flight
    assert state.broker_is_silent() == []


def test_a_broker_that_was_only_slow_answers_both() -> None:
    state = ConnectionState("me")
    state.start_handshake(0.0)
    state.broker_is_silent()
    assert state.continue_handshake(versions(0)) == []
    assert state.versions is None
    assert state.continue_handshake(groups(1)) is None
    assert state.versions is not None
    assert state.versions.ranges == {3: (0, 5)}
    assert state.versions.release is None


def test_a_broker_that_was_slow_and_is_older_is_asked_what_it_knows_once() -> None:
    """As a Kafka before 2.4 that has just started on a busy machine."""
    state = ConnectionState("me")
    state.start_handshake(0.0)
    state.broker_is_silent()
    again = state.continue_handshake(versions(0, 0, ErrorCode.UNSUPPORTED_VERSION))
    assert again is not None
    assert key_of(again) == ApiKey.API_VERSIONS
    # That it knows groups is no news: its versions are being asked for.
    assert state.continue_handshake(groups(1)) == []
    assert state.continue_handshake(versions(2, 0)) is None
    assert state.versions is not None
    assert state.versions.release is None


def test_a_broker_that_cannot_serve_a_heartbeat_is_a_0_8_2() -> None:
    first = ConnectionState("me")
    first.start_handshake(0.0)
    approach = first.after_hang_up()
    assert approach is Opening.FEEL
    second = ConnectionState("me", approach)
    assert key_of(second.start_handshake(0.0)) == ApiKey.HEARTBEAT
    assert second.broker_is_silent() == []
    assert second.continue_handshake(heartbeat(0, -1)) is None
    assert second.versions is V0_8_2


def test_a_broker_that_hung_up_by_accident_is_asked_again() -> None:
    state = ConnectionState("me", Opening.FEEL)
    state.start_handshake(0.0)
    again = state.continue_handshake(heartbeat(0, 24))
    assert again is not None
    assert key_of(again) == ApiKey.API_VERSIONS
    assert state.continue_handshake(versions(1)) is None
    assert state.versions is not None
    assert state.versions.release is None


def test_a_0_9_0_may_hang_up_first_and_be_silent_then() -> None:
    state = ConnectionState("me", Opening.FEEL)
    state.start_handshake(0.0)
    state.continue_handshake(heartbeat(0, 16))
    assert key_of(state.broker_is_silent()) == ApiKey.LIST_GROUPS
    assert state.continue_handshake(groups(2)) is None
    assert state.versions is V0_9_0


def test_who_hangs_up_at_the_heartbeat_too_is_a_0_8_2_if_it_knows_offsets() -> None:
    assert after_hang_up(Opening.FEEL, 0) is Opening.GROPE
    third = ConnectionState("me", Opening.GROPE)
    assert key_of(third.start_handshake(0.0)) == ApiKey.LIST_OFFSETS
    again = third.continue_handshake(offsets(0))
    assert again is not None
    assert key_of(again) == ApiKey.LIST_GROUPS
    approach = third.after_hang_up()
    assert approach is V0_8_2
    fourth = ConnectionState("me", approach)
    assert fourth.start_handshake(0.0) == []
    assert fourth.versions is V0_8_2
    assert fourth.after_hang_up() is None


def test_who_knows_groups_is_asked_for_its_versions_again() -> None:
    state = ConnectionState("me", Opening.GROPE)
    state.start_handshake(0.0)
    state.continue_handshake(offsets(0))
    again = state.continue_handshake(groups(1))
    assert again is not None
    assert key_of(again) == ApiKey.API_VERSIONS
    assert state.after_hang_up() is V0_9_0  # it knows groups, and hangs up at ApiVersions each time


def test_who_hangs_up_at_once_is_no_kafka() -> None:
    assert after_hang_up(Opening.GROPE, 0) is None
    assert after_hang_up(Opening.FEEL, 1) is V0_9_0
    assert after_hang_up(Opening.ASK, 1) is None  # it had answered, and then died
    assert after_hang_up(V0_8_2, 0) is None


def test_what_a_broker_is_is_remembered_until_it_is_gone() -> None:
    known = KnownBrokers()
    assert known.approach("a:1") is Opening.ASK
    known.learned("a:1", V0_9_0)
    assert known.approach("a:1") is V0_9_0
    assert known.approach("a:2") is Opening.ASK
    known.lost("a:1")
    assert known.approach("a:1") is Opening.ASK


def test_brokers_need_not_be_asked() -> None:
    servers = {"bootstrap.servers": "127.0.0.1:9092"}
    assert known_brokers(build(AdminConfig, servers)).approach("a:1") is Opening.ASK
    unasked = {**servers, "api.version.request": "false"}
    assert known_brokers(build(AdminConfig, unasked)).approach("a:1") is V0_9_0
    old = {**unasked, "broker.version.fallback": "0.8.2"}
    assert known_brokers(build(AdminConfig, old)).approach("a:1") is V0_8_2
    with pytest.raises(ConfigError, match=r"broker\.version\.fallback"):
        build(AdminConfig, {**unasked, "broker.version.fallback": "0.7"})


def test_0_8_2_answers_without_the_id_where_it_has_no_coordinator() -> None:
    state = ConnectionState("me", V0_8_2)
    state.start_handshake(0.0)
    state.request(FindCoordinatorRequest(key="a"), 0, "first", 0.0)
    state.request(FindCoordinatorRequest(key="a"), 0, "second", 0.0)
    for token in ("first", "second"):
        answer = FindCoordinatorResponse(error_code=15, node_id=-1, port=-1)
        asked, message = state.receive(frame(encode_response(ApiKey.FIND_COORDINATOR, 0, 0, answer)))
        assert (asked.token, message.error_code) == (token, 15)


def test_the_error_names_the_api_and_the_release_that_brought_it() -> None:
    with pytest.raises(
        UnsupportedByBrokerError, match=r"0\.8\.2\) .*not offer JoinGroup, which Kafka 0\.9\.0"
    ):
        V0_8_2.pick(ApiKey.JOIN_GROUP)
    with pytest.raises(UnsupportedByBrokerError, match=r"not offer CreateTopics, which Kafka 0\.10\.1"):
        V0_9_0.pick(ApiKey.CREATE_TOPICS)
    with pytest.raises(UnsupportedByBrokerError, match=r"Produce: .* 0 to 1; Kafka 2\.1 brought version 7"):
        V0_9_0.pick(ApiKey.PRODUCE, at_least=7)


def test_the_table_of_releases_is_that_of_kafkas_own_classes() -> None:
    assert BROUGHT_BY.keys() == SPOKEN.keys()
    for key, (_, high) in SPOKEN.items():
        if key == ApiKey.INIT_PRODUCER_ID:
            high = 5  # 6 is in no release but as an unstable version
        for version in range(high + 1):
            first = next(
                release
                for release, keys in RELEASES.items()
                if any(k["key"] == key and k["min"] <= version <= k["max"] for k in keys)
            )
            if first == "0.8.2.2" and key in (ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT):
                first = "0.9.0.1"  # the classes were there, the broker did not know them yet
            told = brought_by(key, version)
            assert told is not None
            assert first.startswith(told + "."), (ApiKey(key).api_name, version)
        assert brought_by(key, high + 1) is None


@pytest.mark.parametrize(("release", "ranges"), [("0.8.2.2", KAFKA_0_8_2), ("0.9.0.1", KAFKA_0_9_0)])
def test_the_versions_of_old_releases_are_those_of_kafkas_own_classes(
    release: str, ranges: dict[int, tuple[int, int]]
) -> None:
    theirs = {k["key"]: (k["min"], k["max"]) for k in RELEASES[release]}
    for key, versions in ranges.items():
        assert theirs[key] == versions
    between_brokers = {4, 5, 6, 7}
    unknown_to_0_8_2 = {ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT} if release == "0.8.2.2" else set()
    assert theirs.keys() - between_brokers - unknown_to_0_8_2 == ranges.keys()
