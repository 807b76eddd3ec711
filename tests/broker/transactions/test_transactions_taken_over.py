"""Folders in which Kafka's producers left transactions: committed, aborted, open, fenced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from log.golden_folders import GoldenFolder
from odradek.errors.codes import ErrorCode
from odradek.records.message_sets.message_set import iter_entries
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from waiting import until_async

from ..live import Client, connect, fetch, running
from ..net import run
from ..transactional import latest, state_of, until_state, visible

FOLDERS = [f"kafka-{version}-{how}" for version in ("2.2.2", "3.9.1") for how in ("clean", "killed")]
FOREVER = str(10 * 365 * 24 * 60)
TOPICS = ("txn-a", "txn-b")


def started(golden: GoldenFolder) -> Any:
    return running(
        ",".join(map(str, golden.directories)),  # type: ignore[arg-type]
        clock=golden.clock,
        offsets_retention_minutes=FOREVER,
        # Kafka's transaction is to be ended by the test, however long ago it began.
        transaction_abort_timed_out_transaction_cleanup_interval_ms=1 << 30,
    )


async def seen(client: Client, topic: str, isolation_level: int, max_bytes: int) -> list[int]:
    """The offsets of all records that a consumer gives out, fetched in pieces."""
    offsets: list[int] = []
    offset, end = 0, await latest(client, topic, isolation_level=isolation_level)
    while offset < end:
        answer = await client.call(
            fetch(topic, offset, isolation_level=isolation_level, partition_max_bytes=max_bytes), 11
        )
        (found,) = answer.responses[0].partitions
        assert found.error_code == 0
        data = bytes(found.records or b"")
        aborted = sorted(found.aborted_transactions or (), key=lambda one: one.first_offset)
        offsets += [at for at, _ in visible(data, aborted) if at >= offset]
        offset = max(header.next_offset for header, _ in iter_entries(data))
    return offsets


@pytest.mark.parametrize("max_bytes", [1, 2_000, 1 << 20])
@pytest.mark.parametrize("archive", FOLDERS)
def test_readers_see_what_kafkas_readers_saw(archive: str, max_bytes: int, tmp_path: Path) -> None:
    golden = GoldenFolder(archive, tmp_path)

    async def main() -> None:
        async with started(golden) as broker:
            client = await connect(broker)
            compared = 0
            for topic in TOPICS:
                view = golden.expected(f"{topic}-0").get("broker_view")
                if view is None:
                    continue
                assert await latest(client, topic, isolation_level=0) == view["latest"]
                assert await latest(client, topic, isolation_level=1) == view["last_stable"]
                for level, name in enumerate(("read_uncommitted", "read_committed")):
                    wanted = view.get("visible_offsets", {}).get(name)
                    if wanted is not None:
                        assert await seen(client, topic, level, max_bytes) == wanted
                        compared += 1
            assert compared == 4 or "visible_offsets" not in str(golden.expected("txn-a-0"))
            client.close()

    run(main)


@pytest.mark.parametrize("archive", [name for name in FOLDERS if "3.9" in name])
def test_producers_are_described_as_kafka_describes_them(archive: str, tmp_path: Path) -> None:
    golden = GoldenFolder(archive, tmp_path)

    async def main() -> None:
        async with started(golden) as broker:
            client = await connect(broker)
            for topic in TOPICS:
                answer = await client.call(
                    DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])]), 0
                )
                (partition,) = answer.topics[0].partitions
                ours = sorted(
                    (
                        one.producer_id,
                        one.producer_epoch,
                        one.last_sequence,
                        one.last_timestamp,
                        one.coordinator_epoch,
                        one.current_txn_start_offset,
                    )
                    for one in partition.active_producers
                )
                theirs = sorted(
                    (
                        one["producer_id"],
                        one["epoch"],
                        one["last_sequence"],
                        one["last_timestamp"],
                        one.get("coordinator_epoch", -1),
                        one.get("txn_start", -1),
                    )
                    for one in golden.expected(f"{topic}-0")["broker_view"]["producers"]
                )
                assert ours == theirs
                assert any(one[-1] >= 0 for one in ours)
            client.close()

    run(main)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("archive", [name for name in FOLDERS if "3.9" in name])
def test_a_transaction_of_kafkas_is_ended_here(archive: str, commit: bool, tmp_path: Path) -> None:
    """One that its coordinator still knows as ongoing."""
    golden = GoldenFolder(archive, tmp_path)

    async def main() -> None:
        async with started(golden) as broker:
            client = await connect(broker)
            _ = broker.groups, broker.transactions
            found = await until_async(
                lambda: state_of(client, "ship"),
                "the transactions to be loaded",
                holds=lambda found: found.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                every_s=0.001,
            )
            assert (found.error_code, found.transaction_state) == (0, "Ongoing")
            partitions = [(one.topic, index) for one in found.topics for index in one.partitions]
            assert partitions
            logs = [broker.replicas.get(*one).log for one in partitions]
            starts = [log.producers.entries[found.producer_id].txn_first_offset for log in logs]
            assert min(starts) >= 0
            ended = await client.call(
                EndTxnRequest(
                    transactional_id="ship",
                    producer_id=found.producer_id,
                    producer_epoch=found.producer_epoch,
                    committed=commit,
                ),
                3,
            )
            assert ended.error_code == 0
            await until_state(client, "ship", "CompleteCommit" if commit else "CompleteAbort")
            for log, start in zip(logs, starts, strict=True):
                assert log.last_stable_offset > start
                assert not log.producers.in_transaction(found.producer_id)
                aborted = log.aborted_transactions(start, log.log_end_offset)
                assert any(one.producer_id == found.producer_id for one in aborted) is not commit
            client.close()

    run(main)
