"""Each effect on some APIs, in the oldest and the newest version, as one sees it on a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.broker.apis.registry import SERVED
from odradek.errors import ErrorCode
from odradek.testing import Broker
from odradek.testing.faults.names import parts
from odradek.testing.faults.parting import part
from odradek.wire.api import ApiKey
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from waiting import until

from .requests import REQUESTS, Ids, produce
from .test_parting import codes_of
from .wire import Wire

EDGES = [
    pytest.param(key, version, id=f"{key.api_name}-{version}")
    for key in REQUESTS
    for version in (SERVED[key].versions[0], SERVED[key].versions[-1])
]
MAKERS = {key: make for key, (make, _) in REQUESTS.items()}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics_enable=False) as running:
        for topic in ("orders", "clicks"):
            running.create_topic(topic, 2)
        with Wire(running.port) as wire:  # the coordinator is there, and has loaded
            until(
                lambda: wire.ask(MAKERS[ApiKey.FIND_COORDINATOR](0, {}, ()), 0).error_code == 0,
                "a coordinator",
            )
            until(
                lambda: not codes_of(wire.ask(MAKERS[ApiKey.OFFSET_FETCH](1, {}, ("orders",)), 1)), "offsets"
            )
        yield running


@pytest.fixture(scope="module")
def ids(broker: Broker) -> Ids:
    return broker.call(lambda app: {name: app.image.topic_id(name) for name in ("orders", "clicks")})


class Clock:
    """Timers that fire in the loop's next turn, and know for how long they were set."""

    def __init__(self, timers: Any) -> None:
        self._timers = timers
        self.asked: list[float] = []

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        self.asked.append(delay_ms)
        return self._timers.call_later(0 if delay_ms in (3_600_000, 7_200_000) else delay_ms, callback)


@pytest.fixture
def clock(broker: Broker) -> Iterator[Clock]:
    def put(app: Any, timers: Any) -> Any:
        before, app.timers = app.timers, timers
        return before

    clock = Clock(broker.call(lambda app: app.timers))
    broker.call(lambda app: put(app, clock))
    yield clock
    broker.call(lambda app: put(app, clock._timers))


def plain(broker: Broker, request: Any, version: int) -> Any:
    with Wire(broker.port) as wire:
        return wire.ask(request, version)


@pytest.mark.parametrize(("key", "version"), EDGES)
def test_fail(broker: Broker, ids: Ids, key: ApiKey, version: int) -> None:
    make, error = REQUESTS[key]
    request = make(version, ids, ("orders",))
    with broker.fail(key, error, times=1) as fault, Wire(broker.port) as wire:
        if codes := codes_of(wire.ask(request, version)):
            assert set(codes) == {ErrorCode[error]}
        assert codes
        assert ErrorCode[error] not in codes_of(wire.ask(make(version, ids, ("orders",)), version))
    assert (fault.met, fault.calls.matched) == (1, 1)


@pytest.mark.parametrize(("key", "version"), EDGES)
def test_hang(broker: Broker, ids: Ids, key: ApiKey, version: int) -> None:
    request = MAKERS[key](version, ids, ("orders",))
    before = broker.call(lambda app: len(app.listeners[0].connections))
    with broker.hang(key) as fault, Wire(broker.port) as wire:
        wire.send(request, version)
        until(lambda: fault.met, "a request that hangs")
        # What is asked behind it has to wait as well.
        wire.send(MetadataRequest(topics=[]), 1)
        plain(broker, MetadataRequest(topics=[]), 2) if key != ApiKey.METADATA else None
        assert wire.has_nothing()
    until(lambda: broker.call(lambda app: len(app.listeners[0].connections)) <= before, "its end")


@pytest.mark.parametrize(("key", "version"), EDGES)
@pytest.mark.parametrize("after", [False, True])
def test_drop(broker: Broker, ids: Ids, key: ApiKey, version: int, after: bool) -> None:
    with broker.drop(key, after=after, times=1) as fault, Wire(broker.port) as wire:
        wire.send(MAKERS[key](version, ids, ("orders",)), version)
        assert wire.rest() == b""
    assert fault.met == 1


@pytest.mark.parametrize(("key", "version"), EDGES)
def test_truncate(broker: Broker, ids: Ids, key: ApiKey, version: int) -> None:
    request = MAKERS[key](version, ids, ("orders",))
    for size in (None, 3, 7, 10_000_000):
        with broker.truncate(key, size), Wire(broker.port) as wire:
            wire.send(request, version)
            answer = wire.rest()
        assert len(answer) == size or size in (None, 10_000_000)
        assert answer
        if len(answer) >= 4:
            assert len(answer) < 4 + int.from_bytes(answer[:4], "big")


@pytest.mark.parametrize(("key", "version"), EDGES)
def test_delay(broker: Broker, ids: Ids, clock: Clock, key: ApiKey, version: int) -> None:
    make = MAKERS[key]
    before = plain(broker, make(version, ids, ("orders",)), version)
    with broker.delay(key, 3_600_000) as fault:
        after = plain(broker, make(version, ids, ("orders",)), version)
    assert (fault.met, clock.asked.count(3_600_000)) == (1, 1)
    assert codes_of(after) == codes_of(before)


@pytest.mark.parametrize(("key", "version"), EDGES)
def test_throttle(broker: Broker, ids: Ids, clock: Clock, key: ApiKey, version: int) -> None:
    make = MAKERS[key]
    with broker.throttle(key, 7_200_000, times=1) as fault, Wire(broker.port) as wire:
        answer = wire.ask(make(version, ids, ("orders",)), version)
        fields = {field.name: field for field in type(answer).FIELDS}
        if version in fields["throttle_time_ms"].versions:
            assert answer.throttle_time_ms == 7_200_000
        wire.ask(make(version, ids, ("orders",)), version)
    assert (fault.met, clock.asked.count(7_200_000)) == (1, 1)


# ---------------------------------------------------------------------- parts

PARTED = [
    param
    for param in EDGES
    if param.values[0]
    not in {ApiKey.FIND_COORDINATOR, ApiKey.HEARTBEAT, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID}
]


@pytest.mark.parametrize(("key", "version"), PARTED)
def test_only_the_topic_that_is_named_fails(broker: Broker, ids: Ids, key: ApiKey, version: int) -> None:
    make, error = REQUESTS[key]
    request = make(version, ids, ("orders", "clicks"))
    both = plain(broker, request, version)
    with broker.fail(key, error, topic="clicks"):
        answer = plain(broker, request, version)
    assert _shape(answer) == _shape(both)
    assert codes_of(answer).count(ErrorCode[error]) > codes_of(both).count(ErrorCode[error])
    assert len(codes_of(_only(answer, "clicks", ids))) >= 1
    assert ErrorCode[error] in codes_of(_only(answer, "clicks", ids))
    if key != ApiKey.ADD_PARTITIONS_TO_TXN:
        assert codes_of(_only(answer, "orders", ids)) == codes_of(_only(both, "orders", ids))


def _shape(response: Any) -> list[Any]:
    shape = [names.get("topic") or names.get("topic_id") for names in parts(response)]
    # A topic that fails has no partitions in Metadata.
    return list(dict.fromkeys(shape)) if isinstance(response, MetadataResponse) else shape


def _only(response: Any, topic: str, ids: Ids) -> Any:
    met = part(response, lambda names: topic in (names.get("topic"),) or names.get("topic_id") == ids[topic])
    assert met.met is not None
    return met.met


def test_the_work_of_the_rest_is_done(broker: Broker, ids: Ids) -> None:
    def ends() -> list[int]:
        return broker.call(
            lambda app: [
                app.replicas.get(topic, index).log.log_end_offset
                for topic in ("orders", "clicks")
                for index in (0, 1)
            ]
        )

    before = ends()
    with broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=1):
        answer = plain(broker, produce(9, ids, ("orders", "clicks")), 9)
    assert [
        (one.name, part.index, part.error_code)
        for one in answer.responses
        for part in one.partition_responses
    ] == [("orders", 0, 0), ("orders", 1, 6), ("clicks", 0, 0), ("clicks", 1, 0)]
    assert [now - then for now, then in zip(ends(), before, strict=True)] == [1, 0, 1, 1]


# ---------------------------------------------------------------------- acks=0


def test_a_produce_that_wants_no_answer(broker: Broker, ids: Ids) -> None:
    request = produce(9, ids, acks=0)
    metadata = MetadataRequest(topics=[])
    with broker.fail("Produce", "NOT_ENOUGH_REPLICAS"), Wire(broker.port) as wire:
        wire.send(request, 9)
        assert wire.rest() == b""  # all that such a producer can notice, as in Kafka
    with broker.fail("Produce", "NOT_ENOUGH_REPLICAS", partition=1), Wire(broker.port) as wire:
        wire.send(request, 9)
        assert wire.rest() == b""
    for after in (False, True):
        with broker.drop("Produce", after=after), Wire(broker.port) as wire:
            wire.send(request, 9)
            assert wire.rest() == b""
    with broker.truncate("Produce", may_be_unmet=True) as fault, Wire(broker.port) as wire:
        wire.send(request, 9)
        assert wire.ask(metadata, 1).brokers
    assert not fault.met
    assert fault.calls.nearest == ["Produce 9 of client 'test': acks=0, which has no answer"]
    with broker.delay("Produce", 1) as fault, Wire(broker.port) as wire:
        wire.send(request, 9)
        assert wire.ask(metadata, 1).brokers
    assert fault.met
    with broker.throttle("Produce", 1) as fault, Wire(broker.port) as wire:
        wire.send(request, 9)
        assert wire.ask(metadata, 1).brokers
    assert fault.met
    with broker.hang("Produce") as fault, Wire(broker.port) as wire:
        wire.send(request, 9)
        until(lambda: fault.met, "a request that hangs")
        wire.send(metadata, 1)
        assert plain(broker, metadata, 1).brokers
        assert wire.has_nothing()


def test_an_unsupported_version_of_api_versions_is_said_in_version_0(broker: Broker, ids: Ids) -> None:
    for version in SERVED[ApiKey.API_VERSIONS].versions:
        with broker.fail("ApiVersions", "UNSUPPORTED_VERSION"), Wire(broker.port) as wire:
            wire.send(MAKERS[ApiKey.API_VERSIONS](version, ids, ()), version)
            answer = wire.receive(MAKERS[ApiKey.API_VERSIONS](0, ids, ()), 0)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


# ---------------------------------------------------------------------- what is worked on in slices


def large(version: int) -> Any:
    """A Metadata request for so many topics that it is decoded and answered in slices."""
    names = ["orders", *(f"nope-{number}" for number in range(2000)), "clicks"]
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )


def test_a_request_in_slices(broker: Broker, clock: Clock) -> None:
    request = large(9)
    with broker.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="clicks"):
        answer = plain(broker, request, 9)
    assert len(answer.topics) == 2002
    assert [topic.name for topic in answer.topics if topic.error_code != 3] == ["orders", "clicks"]
    assert answer.topics[-1].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    with broker.truncate("Metadata", 100), Wire(broker.port) as wire:
        wire.send(request, 9)
        assert len(wire.rest()) == 100
    for after in (False, True):
        with broker.drop("Metadata", after=after), Wire(broker.port) as wire:
            wire.send(request, 9)
            assert wire.rest() == b""
    with broker.delay("Metadata", 3_600_000):
        assert len(plain(broker, request, 9).topics) == 2002
    with broker.throttle("Metadata", 7_200_000, times=1):
        assert plain(broker, request, 9).throttle_time_ms == 7_200_000
    with broker.hang("Metadata", topic="orders") as fault, Wire(broker.port) as wire:
        wire.send(request, 9)
        until(lambda: fault.met, "a request that hangs")
        assert plain(broker, MetadataRequest(topics=[]), 1).brokers
        assert wire.has_nothing()


def test_a_fetch_that_waits_for_records(broker: Broker, ids: Ids) -> None:
    def waiting() -> Any:
        request = MAKERS[ApiKey.FETCH](4, ids, ("clicks",))
        request.max_wait_ms, request.min_bytes = 600_000, 1_000_000
        return request

    # A failing partition has the others answered at once, as in Kafka.
    with broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="clicks", partition=1):
        codes = [one.error_code for one in plain(broker, waiting(), 4).responses[0].partitions]
    assert codes == [0, 6]
    for say in (broker.drop, broker.truncate):
        with (
            say("Fetch", **({"after": True} if say == broker.drop else {})) as fault,
            Wire(broker.port) as wire,
        ):
            wire.send(waiting(), 4)
            until(lambda: fault.met, "a fetch that waits")
            assert wire.has_nothing()  # the work is not done yet
            plain(broker, produce(9, ids, ("clicks",), acks=1), 9)
            assert wire.has_nothing()
