"""What readers see of transactions: up to the last stable offset, and woken when it moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.log.producers.producer_state import Origin
from odradek.records.batch import iter_batches
from odradek.records.control import ControlType, end_marker_batch
from odradek.records.message_sets.message_set import iter_entries
from odradek.wire.messages.fetch import AbortedTransaction, FetchRequest
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from ..live import Client, batch, connect, create_topic, fetch, running
from ..net import run

READ_COMMITTED = 1
LONG_MS = 20_000


@asynccontextmanager
async def serving(data: Path) -> AsyncIterator[tuple[Broker, Client]]:
    """A broker and a client of it."""
    async with running(data) as broker:
        client = await connect(broker)
        try:
            yield broker, client
        finally:
            client.close()


def write(broker: Broker, producer_id: int = -1, *, values: list[bytes] | None = None, **fields: Any) -> int:
    """Append a batch, transactional if it has a producer; its base offset."""
    partition = broker.replicas.get("t", 0)
    if producer_id >= 0:
        entry = partition.log.producers.entries.get(producer_id)
        fields = {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": 0 if entry is None else entry.last_sequence + 1,
            "transactional": True,
            **fields,
        }
    info = partition.append(
        batch(values or [b"value"], **fields), required_acks=1, now_ms=broker.clock.now_ms()
    )
    return info.first_offset


def end(broker: Broker, producer_id: int, *, commit: bool) -> int:
    """Append a marker; its offset."""
    marker = end_marker_batch(
        ControlType.COMMIT if commit else ControlType.ABORT,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=broker.clock.now_ms(),
    )
    partition = broker.replicas.get("t", 0)
    return partition.append(
        marker, required_acks=-1, now_ms=broker.clock.now_ms(), origin=Origin.COORDINATOR
    ).first_offset


def request(topic_id: bytes, version: int, offset: int = 0, **fields: Any) -> FetchRequest:
    """A read_committed fetch."""
    by_id = version >= 13
    return fetch(
        "" if by_id else "t",
        offset,
        topic_id=topic_id if by_id else bytes(16),
        isolation_level=READ_COMMITTED,
        **fields,
    )


def offsets_in(records: Any) -> list[int]:
    return [header.base_offset for header, _ in iter_batches(bytes(records or b""))]


async def read(client: Client, topic_id: bytes, version: int = 12, offset: int = 0, **fields: Any) -> Any:
    """The partition's part of the answer."""
    answer = await client.call(request(topic_id, version, offset, **fields), version)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == 0
    return partition


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_stops_at_the_last_stable_offset(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, client):
            topic_id = await create_topic(broker, "t")
            write(broker)
            write(broker, 7)
            write(broker)
            found = await read(client, topic_id, version)
            assert (found.last_stable_offset, found.high_watermark) == (1, 3)
            assert offsets_in(found.records) == [0]
            # As Kafka: a list that is empty, not null.
            assert found.aborted_transactions == []
            write(broker, 8)
            end(broker, 7, commit=False)
            found = await read(client, topic_id, version)
            assert (found.last_stable_offset, found.high_watermark) == (3, 5)
            assert offsets_in(found.records) == [0, 1, 2]
            assert found.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=1)]
            end(broker, 8, commit=True)
            found = await read(client, topic_id, version, 2)
            assert (found.last_stable_offset, found.high_watermark) == (6, 6)
            assert offsets_in(found.records) == [2, 3, 4, 5]
            # The marker that ends it comes behind offset 2: the reader must know what it ends.
            assert found.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=1)]

    run(main)


def test_only_the_aborted_transactions_of_what_is_sent_are_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, client):
            topic_id = await create_topic(broker, "t")
            for producer_id in range(7, 17):
                write(broker, producer_id, values=[b"x" * 5_000])
                end(broker, producer_id, commit=False)
            found = await read(client, topic_id, 12, partition_max_bytes=6_000)
            assert offsets_in(found.records) == [0, 1]
            assert found.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]
            found = await read(client, topic_id, 12, 5, partition_max_bytes=6_000)
            assert offsets_in(found.records) == [5, 6, 7]
            assert [one.producer_id for one in found.aborted_transactions] == [9, 10]

    run(main)


async def wait(client: Client, topic_id: bytes, way: str, **fields: Any) -> None:
    """Have a fetch wait at the broker, in one of the ways that it takes there."""
    fields["max_wait_ms"] = LONG_MS
    if way == "ordinary":
        # A fetch that says which epoch it has seen last is never short-cut.
        fields["last_fetched_epoch"] = 0
    if way == "session":
        opened = await client.call(request(topic_id, 12, session_epoch=0), 12)
        fields |= {"session_id": opened.session_id, "session_epoch": 1}
    client.send(request(topic_id, 12, **fields), 12)
    assert await client.silent()


@pytest.mark.parametrize("way", ["fast", "session", "ordinary"])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("min_bytes", [1, 5_000])
def test_a_waiting_reader_is_woken_by_the_marker(
    tmp_path: Path, way: str, commit: bool, min_bytes: int
) -> None:
    """Also if it waits for more bytes than the marker has: those before it become readable with it."""

    async def main() -> None:
        async with serving(tmp_path) as (broker, client):
            topic_id = await create_topic(broker, "t")
            write(broker, 7, values=[b"x" * 10_000])
            await wait(client, topic_id, way, min_bytes=min_bytes)
            assert len(broker.purgatory) == 1
            end(broker, 7, commit=commit)
            answer = await client.receive()
            (found,) = answer.responses[0].partitions
            assert offsets_in(found.records) == [0, 1]
            assert len(found.aborted_transactions or ()) == (0 if commit else 1)

    run(main)


@pytest.mark.parametrize("way", ["fast", "session", "ordinary"])
def test_what_is_not_stable_wakes_nobody(tmp_path: Path, way: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, client):
            topic_id = await create_topic(broker, "t")
            write(broker, 7)
            await wait(client, topic_id, way)
            write(broker)
            write(broker, 8)
            end(broker, 8, commit=True)
            assert await client.silent()
            end(broker, 7, commit=True)
            (found,) = (await client.receive()).responses[0].partitions
            assert offsets_in(found.records) == [0, 1, 2, 3, 4]

    run(main)


def test_a_plain_topic_still_waits_for_min_bytes(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, client):
            topic_id = await create_topic(broker, "t")
            client.send(request(topic_id, 12, max_wait_ms=LONG_MS, min_bytes=5_000), 12)
            assert await client.silent()
            write(broker, values=[b"x" * 3_000])
            assert await client.silent()
            write(broker, values=[b"x" * 3_000])
            (found,) = (await client.receive()).responses[0].partitions
            assert offsets_in(found.records) == [0, 1]

    run(main)


async def list_offset(client: Client, timestamp: int, isolation_level: int, version: int = 7) -> int:
    answer = await client.call(
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(
                    name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
                )
            ],
        ),
        version,
    )
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == 0
    offset: int = partition.offset
    return offset


def test_offsets_are_listed_by_isolation_level(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, client):
            await create_topic(broker, "t")
            now_ms = broker.clock.now_ms()
            write(broker, timestamp=now_ms - 1_000)
            write(broker, 7, timestamp=now_ms - 500)
            for version in range(2, 12):
                assert await list_offset(client, -1, 0, version) == 2
                assert await list_offset(client, -1, 1, version) == 1
                assert await list_offset(client, -2, 1, version) == 0
            # By time, too, nothing behind the last stable offset.
            assert await list_offset(client, now_ms - 700, 0) == 1
            assert await list_offset(client, now_ms - 700, 1) == -1
            assert await list_offset(client, now_ms - 1_000, 1) == 0
            assert await list_offset(client, -3, 0) == 1
            assert await list_offset(client, -3, 1) == -1
            # A level that does not exist is no way to see what is not replicated.
            assert await list_offset(client, -1, 2) == 2
            end(broker, 7, commit=True)
            assert await list_offset(client, -1, 1) == 3
            assert await list_offset(client, now_ms - 700, 1) == 1

    run(main)


@pytest.mark.parametrize("version", range(4))
def test_old_consumers_get_no_markers(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with serving(tmp_path) as (broker, client):
            await create_topic(broker, "t")
            write(broker, 7)
            end(broker, 7, commit=False)
            write(broker)
            write(broker, 7)

            async def offsets(start: int) -> list[int]:
                answer = await client.call(fetch("t", start), version)
                (found,) = answer.responses[0].partitions
                assert found.error_code == 0
                return [
                    header.offset
                    for header, _ in iter_entries(bytes(found.records))
                    if header.size <= len(found.records)
                ]

            # They know of no transactions: everything is theirs, but for what is no record of anybody.
            assert await offsets(0) == [0, 2, 3]
            # At the marker alone they must be able to go on.
            assert await offsets(1) == [2, 3]

    run(main)
