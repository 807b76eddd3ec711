"""A client that gets nowhere with a partition says so, with the partition and the reason: once, then once a
minute.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from odradek.client import Admin, Consumer, Producer, RawReader, SimpleConsumer, TransactionalWriter
from odradek.client.aio import connection as aio_connection
from odradek.client.core import outages, stuck_partitions
from odradek.client.core.metadata import MetadataCache
from odradek.client.core.outages import AGAIN_MS, ORDINARY_MS
from odradek.client.core.stuck_partitions import FORGOTTEN_MS, StuckPartitions
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, OdradekError
from odradek.wire.api import ApiKey
from odradek.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from waiting import joined, until

from .scripted import ScriptedBroker
from .test_outages import mute

TP = TopicPartition("t", 0)
WHY = "it has no leader (replicas 1, 2, in sync 2, offline 1, 2)"


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "odradek.client" and r.levelno >= level]


# The lines


def test_it_is_told_when_it_lasts_and_once_a_minute_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    stuck = StuckPartitions("mine")
    assert not stuck
    for now_ms in range(0, 150_000, 1_000):
        stuck.failed({TP: "why"}, now_ms)
    assert stuck
    stuck.went_well([TP, TopicPartition("t", 1)], 150_000)
    assert lines(caplog, logging.INFO) == [
        "client mine: no progress with t-0 for 10 s now: why; it is tried again",
        "client mine: no progress with t-0 for 70 s now: why; it is tried again",
        "client mine: no progress with t-0 for 130 s now: why; it is tried again",
        "client mine: over after 150 s: no progress with t-0",
    ]
    assert not stuck


def test_an_election_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    stuck = StuckPartitions("mine")
    for began_ms in (0, 20_000):
        stuck.failed({TP: "why"}, began_ms)
        stuck.failed({TP: "why"}, began_ms + ORDINARY_MS - 1)
        stuck.went_well([TP], began_ms + ORDINARY_MS)
    assert lines(caplog, logging.INFO) == []


def test_what_has_not_failed_for_long_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    stuck = StuckPartitions("mine")
    stuck.failed({TP: "why"}, 0)
    stuck.failed({TP: "why"}, FORGOTTEN_MS + 1)
    assert lines(caplog) == []


def test_many_partitions_take_one_line(caplog: pytest.LogCaptureFixture) -> None:
    stuck = StuckPartitions("mine")
    reasons = {TopicPartition("t", number): "why" for number in range(1_000)}
    for now_ms in (0, ORDINARY_MS, ORDINARY_MS + AGAIN_MS - 1):
        stuck.failed(reasons, now_ms)
    (line,) = lines(caplog)
    assert line.count("why") == 10
    assert "; and 990 more;" in line


def answer(
    broker: ScriptedBroker,
    *,
    leader: int = -1,
    named: int | None = None,
    error: int = 0,
    replicas: Any = (1, 2),
) -> MetadataResponse:
    part = MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader < 0 else 0,
        partition_index=0,
        leader_id=leader,
        replica_nodes=list(replicas),
        isr_nodes=list(replicas[1:]),
        offline_replicas=list(replicas),
    )
    topic = MetadataResponseTopic(name="t", error_code=error, partitions=[] if error else [part])
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=named or 1, host="127.0.0.1", port=broker.port)],
        topics=[topic],
    )


def test_each_reason() -> None:
    class Nowhere:
        port = 1

    cache = MetadataCache()
    assert cache.no_leader(TP) == "the brokers do not name it"
    broker: Any = Nowhere()
    cache.update(answer(broker), replace_all=False)
    assert cache.no_leader(TP) == WHY
    cache.update(answer(broker, replicas=()), replace_all=False)
    assert cache.no_leader(TP) == "it has no leader"
    cache.update(answer(broker, leader=7), replace_all=False)
    assert cache.no_leader(TP) == "its leader, broker 7, is not among the live brokers"
    cache.update(answer(broker, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), replace_all=False)
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message in cache.no_leader(TP)


# The clients


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No failure is ordinary, and each is told."""
    from odradek.client import blocking
    from odradek.client.aio import cluster, offsets

    for module in (outages, stuck_partitions, blocking, cluster, offsets):
        monkeypatch.setattr(module, "ORDINARY_MS", 0.0)
    monkeypatch.setattr(outages, "AGAIN_MS", 0.0)


@contextmanager
def leaderless() -> Iterator[str]:
    """A broker of a cluster in which nobody leads t-0."""
    versions: dict[int, tuple[int, int]] = {
        ApiKey.METADATA: (5, 12),
        ApiKey.PRODUCE: (3, 9),
        ApiKey.FETCH: (4, 12),
        ApiKey.LIST_OFFSETS: (1, 7),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (3, 4),
    }
    broker = ScriptedBroker({}, versions)
    broker.answers[ApiKey.METADATA] = lambda request, version: answer(broker)
    with broker:
        yield broker.at


QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5}
FOR_EVER: dict[str, Any] = {"default_api_timeout_ms": 600_000, **QUICK}


def consume(servers: str, told: Callable[[], bool]) -> None:
    with Consumer(bootstrap_servers=servers, **FOR_EVER) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 5)
        until(lambda: consumer.poll(20) or told(), what="a line in the log")


def consume_from_the_end(servers: str, told: Callable[[], bool]) -> None:
    with Consumer(bootstrap_servers=servers, **FOR_EVER) as consumer:
        consumer.assign([TP])
        until(lambda: consumer.poll(20) or told(), what="a line in the log")


def produce(servers: str, told: Callable[[], bool]) -> None:
    producer = Producer(bootstrap_servers=servers, enable_idempotence=False, **QUICK)
    producer.send("t", b"x", partition=0)
    until(told, what="a line in the log")
    producer.close(timeout=0)


def in_the_background(
    client: Any,
    call: Callable[[], Any],
    told: Callable[[], bool],
    then: Callable[[], None] = lambda: None,
) -> None:
    """Wait for a line while `call` waits; then end it."""

    def run() -> None:
        with suppress(OdradekError, asyncio.CancelledError):
            call()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(told, what="a line in the log")
    finally:
        then()
        client.close()
        joined(thread)


def administer(servers: str, told: Callable[[], bool]) -> None:
    admin = Admin(bootstrap_servers=servers, **FOR_EVER)
    in_the_background(admin, lambda: admin.list_offsets({TP: -1}), told)


def read_raw(servers: str, told: Callable[[], bool]) -> None:
    reader = RawReader(servers, FOR_EVER)
    in_the_background(reader, lambda: list(reader.fetch_columns("t", 0, 0, 5)), told)


def ask_offsets_raw(servers: str, told: Callable[[], bool]) -> None:
    reader = RawReader(servers, FOR_EVER)
    in_the_background(reader, lambda: reader.end_offsets([TP]), told)


CLIENTS = [consume, consume_from_the_end, produce, administer, read_raw, ask_offsets_raw]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_partition_without_a_leader(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with leaderless() as servers:
        # Until the first metadata are there the reason is another one.
        client(servers, lambda: any("t-0" in line and WHY in line for line in lines(caplog)))


# Servers that say nothing


@pytest.fixture
def mute_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.client import blocking

    for module in (blocking, aio_connection):
        monkeypatch.setattr(module, "MUTE_MS", 20.0)


def connect_simply(servers: str, more: dict[str, Any]) -> tuple[Any, Callable[[], Any]]:
    host, port = servers.split(":")
    client = SimpleConsumer(host, int(port), timeout_ms=600_000, **more)
    return client, lambda: client.leaders("t")


def connect_raw(servers: str, more: dict[str, Any]) -> tuple[Any, Callable[[], Any]]:
    reader = RawReader(servers, {"request_timeout_ms": 600_000, **PATIENT, **more})
    return reader, reader.topics


def connect_for_transactions(servers: str, more: dict[str, Any]) -> tuple[Any, Callable[[], Any]]:
    writer = TransactionalWriter(servers, "x", {"request_timeout_ms": 600_000, **PATIENT, **more})
    return writer, writer.init_transactions


def connect_admin(servers: str, more: dict[str, Any]) -> tuple[Any, Callable[[], Any]]:
    admin = Admin(bootstrap_servers=servers, **PATIENT, **more)
    return admin, admin.list_topics


PATIENT: dict[str, Any] = {
    "socket_connection_setup_timeout_ms": 600_000,
    "socket_connection_setup_timeout_max_ms": 600_000,
}
TLS: dict[str, Any] = {"security_protocol": "SSL"}


@pytest.mark.usefixtures("mute_soon")
@pytest.mark.parametrize("more", [{}, TLS], ids=["plain", "TLS"])
@pytest.mark.parametrize("connect", [connect_simply, connect_raw, connect_for_transactions, connect_admin])
def test_a_mute_server_is_told_while_it_is_waited_for(
    connect: Any, more: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as server:
        at = server.enter_context(mute())
        client, call = connect(at, more)
        in_the_background(client, call, lambda: bool(lines(caplog)), server.close)
    line = lines(caplog)[0]
    assert f"{at} cannot be reached: " in line
    assert "within" in line
