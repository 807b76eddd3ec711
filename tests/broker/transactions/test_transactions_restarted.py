"""A broker that is restarted, in good order or by kill -9, between any two steps of a transaction.

For the kill the data folder is copied while the broker stands still: what a dead process leaves is what the
system has been given so far. The broker on the copy has to bring every decided transaction to its end without
being asked, and to let an open one go on or be aborted.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.coordinators.transactions.markers import TransactionMarkers
from odradek.coordinators.transactions.states import TransactionState
from odradek.coordinators.transactions.transaction import MAX_EPOCH
from odradek.errors.codes import ErrorCode
from odradek.util.clock import ManualClock, SystemClock
from odradek.util.timers import ManualTimers
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from waiting import until_async

from ..live import create_topic, delete_topics
from ..transactional import Arena, Transactional, arena, latest, state_of, until_state, values

CLEAN, KILLED = "clean", "killed"
ENDS = [pytest.param(True, id="commit"), pytest.param(False, id="abort")]


@asynccontextmanager
async def before_and_after(
    tmp_path: Path, how: str, first: Callable[[Arena], Any], **config: Any
) -> AsyncIterator[tuple[Arena, Any]]:
    """The broker after a restart, and what `first` returned of the life before it."""
    if how == CLEAN:
        async with arena(tmp_path / "data", **config) as here:
            found = await first(here)
    else:
        async with arena(tmp_path / "data", **config) as here:
            found = await first(here)
            shutil.copytree(tmp_path / "data", tmp_path / "killed")
        shutil.rmtree(tmp_path / "data")
        (tmp_path / "killed").rename(tmp_path / "data")
    async with arena(tmp_path / "data", **config) as here:
        yield here, found


def hold_markers(broker: Broker, *, write: int = 0) -> None:
    """Have the markers of a decided transaction go to that many partitions, and no answer come back."""

    def send(broker_id: int, markers: TransactionMarkers, deliver: Callable[[Any], None]) -> None:
        broker.transactions.writer.write(
            markers.producer_id,
            markers.producer_epoch,
            sorted(markers.partitions)[:write],
            coordinator_epoch=markers.coordinator_epoch,
            commit=markers.commit,
            deliver=lambda errors: None,
        )

    broker.transactions.send_markers = send


async def two_partitions(here: Arena) -> Transactional:
    """A transaction open in two partitions, with a committed one before it."""
    await create_topic(here.broker, "t", 2)
    producer = await here.producer("id")
    await producer.write("t", [b"before"], commit=True)
    await until_state(producer.client, "id", "CompleteCommit")
    assert await producer.add("t", 0, 1) == ErrorCode.NONE
    for index in (0, 1):
        assert await producer.send("t", [b"x", b"y"], index) == ErrorCode.NONE
    return producer


@pytest.mark.parametrize("how", [CLEAN, KILLED])
@pytest.mark.parametrize("version", [3, 5], ids=["V1", "V2"])
@pytest.mark.parametrize("written", [0, 1, 2])
@pytest.mark.parametrize("commit", ENDS)
def test_what_is_decided_is_completed(
    tmp_path: Path, how: str, version: int, written: int, commit: bool
) -> None:
    async def first(here: Arena) -> tuple[Transactional, int]:
        producer = await two_partitions(here)
        hold_markers(here.broker, write=written)
        epoch = producer.epoch
        assert await producer.end(commit=commit, version=version) == ErrorCode.NONE
        await until_state(producer.client, "id", "PrepareCommit" if commit else "PrepareAbort")
        # Two transactions have written three records here; the first one has its marker.
        await until_async(
            lambda: here.broker.replicas.get("t", 0).log.log_end_offset,
            "the records of both transactions",
            holds=lambda end: end >= (5 if written else 4),
            every_s=0,
        )
        return producer, epoch

    async def run() -> None:
        async with before_and_after(tmp_path, how, first) as (here, (producer, epoch)):
            client = await here.client()
            await until_state(client, "id", "CompleteCommit" if commit else "CompleteAbort")
            assert await values(client, "t") == [b"before", *([b"x", b"y"] if commit else [])]
            assert await values(client, "t", index=1) == ([b"x", b"y"] if commit else [])
            for index in (0, 1):
                stable = await latest(client, "t", isolation_level=1, index=index)
                assert stable == await latest(client, "t", isolation_level=0, index=index)
            # Its answer was lost, perhaps: asked again the producer hears the same, and goes on.
            goes_on = producer.epoch
            producer.client, producer.epoch = client, epoch
            assert await producer.end(commit=commit, version=version) == ErrorCode.NONE
            assert producer.epoch == goes_on

    asyncio.run(run())


@pytest.mark.parametrize("how", [CLEAN, KILLED])
@pytest.mark.parametrize("commit", ENDS)
def test_an_open_transaction_goes_on(tmp_path: Path, how: str, commit: bool) -> None:
    async def first(here: Arena) -> Transactional:
        return await two_partitions(here)

    async def run() -> None:
        async with before_and_after(tmp_path, how, first) as (here, producer):
            producer.client = await here.client()
            await until_state(producer.client, "id", "Ongoing")
            assert await values(producer.client, "t") == [b"before"]
            assert await producer.send("t", [b"z"], 1) == ErrorCode.NONE
            assert await producer.end(commit=commit) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit" if commit else "CompleteAbort")
            assert await values(producer.client, "t", index=1) == ([b"x", b"y", b"z"] if commit else [])

    asyncio.run(run())


@pytest.mark.parametrize("how", [CLEAN, KILLED])
def test_an_open_transaction_is_aborted_by_the_next_owner(tmp_path: Path, how: str) -> None:
    async def first(here: Arena) -> Transactional:
        return await two_partitions(here)

    async def run() -> None:
        async with before_and_after(tmp_path, how, first) as (here, former):
            owner = await here.producer("id")
            former.client = owner.client
            assert await former.send("t", [b"late"]) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await former.end(commit=True) == ErrorCode.PRODUCER_FENCED
            await owner.write("t", [b"own"], commit=True, index=1)
            await until_state(owner.client, "id", "CompleteCommit")
            assert await values(owner.client, "t", index=1) == [b"own"]

    asyncio.run(run())


@pytest.mark.parametrize("how", [CLEAN, KILLED])
@pytest.mark.parametrize("began", [False, True], ids=["Empty", "added, nothing written"])
def test_before_anything_is_written(tmp_path: Path, how: str, began: bool) -> None:
    async def first(here: Arena) -> Transactional:
        await create_topic(here.broker, "t")
        producer = await here.producer("id")
        if began:
            assert await producer.add("t") == ErrorCode.NONE
        return producer

    async def run() -> None:
        async with before_and_after(tmp_path, how, first) as (here, producer):
            producer.client = await here.client()
            await until_state(producer.client, "id", "Ongoing" if began else "Empty")
            if not began:
                assert await producer.add("t") == ErrorCode.NONE
            assert await producer.send("t", [b"a"]) == ErrorCode.NONE
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            assert await values(producer.client, "t") == [b"a"]

    asyncio.run(run())


async def advance(timers: ManualTimers, ms: float) -> None:
    """Let time pass, and what was waiting for it happen."""
    timers.advance(ms)
    for _ in range(10):
        await asyncio.sleep(0)
        timers.advance(0)


@pytest.mark.parametrize("how", [CLEAN, KILLED])
def test_time_outs_count_from_the_beginning_of_the_transaction(tmp_path: Path, how: str) -> None:
    clock = ManualClock(SystemClock().now_ms())
    timers = ManualTimers(clock)

    async def first(here: Arena) -> Transactional:
        await create_topic(here.broker, "t")
        timers.advance(0)
        producer = await here.producer("id", timeout_ms=25_000)
        await producer.write("t", [b"x"], commit=None)
        await advance(timers, 15_001)
        assert (await state_of(producer.client, "id")).transaction_state == "Ongoing"
        return producer

    async def run() -> None:
        at = {"clock": clock, "timers": timers}
        # The folder is copied while the broker runs: nothing is to be written then.
        at["replica_high_watermark_checkpoint_interval_ms"] = 2**40
        async with before_and_after(tmp_path, how, first, **at) as (here, producer):
            producer.client = await here.client()
            await advance(timers, 0)
            # 25 s are over, and at the next round of `transaction.abort.timed.out…interval.ms` it is noticed.
            await advance(timers, 10_001)
            found = await state_of(producer.client, "id")
            while found.transaction_state == "PrepareAbort":
                await advance(timers, 0)
                found = await state_of(producer.client, "id")
            assert (found.transaction_state, found.producer_epoch) == ("CompleteAbort", producer.epoch + 1)
            assert await producer.end(commit=True) == ErrorCode.PRODUCER_FENCED
            assert await producer.send("t", [b"late"]) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await values(producer.client, "t") == []
            assert await latest(producer.client, "t", isolation_level=1) == 2

    asyncio.run(run())


def test_a_time_out_that_needs_a_producer_id(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now_ms())
    timers = ManualTimers(clock)

    async def run() -> None:
        async with arena(tmp_path, clock=clock, timers=timers) as here:
            producer = await here.producer("id")
            broker = here.broker
            coordinator = broker.transactions.coordinator
            aged = replace(
                coordinator.describe("id"), state=TransactionState.ONGOING, epoch=MAX_EPOCH - 1, start_ms=0
            )
            partition = coordinator.partition_of("id")
            coordinator.runtime.run(partition, "age", lambda shard: shard.write(aged))
            while not broker.producer_ids.is_exhausted:
                broker.producer_ids.next()
            # Noticed, but without an id; there is one at the next round.
            await advance(timers, 10_001)
            assert (await state_of(producer.client, "id")).transaction_state == "Ongoing"
            await until_async(lambda: not broker.producer_ids.is_exhausted, "a new block of ids", every_s=0)
            await advance(timers, 10_001)
            found = await state_of(producer.client, "id")
            assert (found.transaction_state, found.producer_epoch) == ("CompleteAbort", 0)
            assert found.producer_id > producer.producer_id

    asyncio.run(run())


def test_ids_at_rest_expire_for_good(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now_ms())
    timers = ManualTimers(clock)
    at = {"clock": clock, "timers": timers, "transactional_id_expiration_ms": 3_600_000}
    at["connections_max_idle_ms"] = -1  # they would be closed in these hours

    async def run() -> None:
        async with arena(tmp_path, **at) as here:
            await create_topic(here.broker, "t")
            quiet = await here.producer("quiet")
            open_one = await here.producer("open", timeout_ms=900_000)
            await advance(timers, 3_600_000 - 1)
            await open_one.write("t", [b"x"], commit=None)
            await advance(timers, 3_600_001)
            error = (await state_of(quiet.client, "quiet")).error_code
            assert error == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            assert await quiet.add("t") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
            # Its transaction was aborted in the meantime, which is news.
            assert (await state_of(quiet.client, "open")).error_code == ErrorCode.NONE
        async with arena(tmp_path, **at) as here:
            client = await here.client()
            await advance(timers, 0)
            error = (await state_of(client, "quiet")).error_code
            assert error == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    asyncio.run(run())


def test_metrics(tmp_path: Path) -> None:
    async def run() -> None:
        async with arena(tmp_path) as here:
            await create_topic(here.broker, "t")
            producer = await here.producer("id")
            kind = "kafka.coordinator.transaction:TransactionMarkerChannelManager"
            load = "kafka.server:transaction-coordinator-metrics"

            def read(kind: str, name: str) -> float:
                return here.broker.metrics.snapshot()[(kind, name, ())]

            assert len(here.broker.transactions.coordinator.load_times) == 3
            assert read(load, "partition-load-time-max") >= read(load, "partition-load-time-avg") >= 0
            assert read(kind, "UnknownDestinationQueueSize") == 0
            assert read(kind, "LogAppendRetryQueueSize") == 0
            await producer.write("t", [b"x"], commit=None)
            leaderless: list[tuple[str, int]] = [("t", 0)]
            leader_of = here.broker.transactions.leader_of
            here.broker.transactions.leader_of = lambda key: -1 if key in leaderless else leader_of(key)
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_async(
                lambda: read(kind, "UnknownDestinationQueueSize"),
                "a marker without a destination",
                holds=lambda size: size == 1,
                every_s=0,
            )
            leaderless.clear()
            await until_state(producer.client, "id", "CompleteCommit")
            assert read(kind, "UnknownDestinationQueueSize") == 0

    asyncio.run(run())


def test_partitions_that_go_are_not_waited_for(tmp_path: Path) -> None:
    async def run() -> None:
        async with arena(tmp_path) as here:
            producer = await two_partitions(here)
            await create_topic(here.broker, "u")
            assert await producer.add("u") == ErrorCode.NONE
            assert await producer.send("u", [b"u"]) == ErrorCode.NONE
            send_markers = here.broker.transactions.send_markers
            here.broker.transactions.send_markers = lambda broker_id, markers, deliver: deliver({})
            assert await producer.end(commit=True) == ErrorCode.NONE
            await until_state(producer.client, "id", "PrepareCommit")
            await delete_topics(here.broker, ["t"])
            here.broker.transactions.send_markers = send_markers
            await until_state(producer.client, "id", "CompleteCommit")
            assert await values(producer.client, "u") == [b"u"]

    asyncio.run(run())


def test_what_becomes_of_markers_by_hand(tmp_path: Path) -> None:
    """As an administrator sends them to end what hangs; each partition answers for itself."""

    async def run() -> None:
        async with arena(tmp_path, inter_broker_protocol_version="2.2") as here:
            await create_topic(here.broker, "t", 2)
            await create_topic(here.broker, "old", 1, {"message.format.version": "0.10.2"})
            producer = await here.producer("id")
            await producer.write("t", [b"x"], commit=None)
            marker = WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                coordinator_epoch=7,
                transaction_result=False,
                topics=[
                    WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1, 2]),
                    WritableTxnMarkerTopic(name="old", partition_indexes=[0]),
                    WritableTxnMarkerTopic(name="none", partition_indexes=[0]),
                ],
            )
            impossible = WritableTxnMarker(
                producer_id=-1,
                producer_epoch=0,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            )

            async def errors(*markers: WritableTxnMarker) -> dict[tuple[int, str, int], int]:
                answer = await producer.client.call(WriteTxnMarkersRequest(markers=list(markers)), 1)
                return {
                    (one.producer_id, topic.name, partition.partition_index): partition.error_code
                    for one in answer.markers
                    for topic in one.topics
                    for partition in topic.partitions
                }

            who = producer.producer_id
            assert await errors(marker, impossible) == {
                (who, "t", 0): ErrorCode.NONE,
                (who, "t", 1): ErrorCode.NONE,
                (who, "t", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                (who, "old", 0): ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                (who, "none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                (-1, "t", 0): ErrorCode.INVALID_REQUEST,
            }
            assert await values(producer.client, "t") == []
            assert await latest(producer.client, "t", isolation_level=1) == 2
            marker.coordinator_epoch, marker.topics = 6, marker.topics[:1]
            fenced = (await errors(marker))[who, "t", 0]
            assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
            assert await errors() == {}

    asyncio.run(run())


def test_a_marker_with_its_own_epoch_that_comes_late(tmp_path: Path) -> None:
    """KIP-1228: it does not end the next transaction, and may come twice."""

    async def run() -> None:
        async with arena(tmp_path) as here:
            await create_topic(here.broker, "t")
            producer = await here.producer("id")
            assert await producer.send("t", [b"a"], version=12) == ErrorCode.NONE
            assert await producer.end(commit=True, version=5) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            late = WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transaction_result=False,
                transaction_version=2,
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            )

            async def error(version: int) -> int:
                request = WriteTxnMarkersRequest(markers=[late])
                answer = await producer.client.call(request, version)
                code: int = answer.markers[0].topics[0].partitions[0].error_code
                return code

            assert await error(2) == ErrorCode.NONE
            assert await producer.send("t", [b"b"], version=12) == ErrorCode.NONE
            assert await error(2) == ErrorCode.INVALID_PRODUCER_EPOCH
            assert await producer.end(commit=True, version=5) == ErrorCode.NONE
            await until_state(producer.client, "id", "CompleteCommit")
            assert await values(producer.client, "t") == [b"a", b"b"]

    asyncio.run(run())
