"""Folders that Kafka left, clean and killed, under a running broker: it serves what Kafka would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from log.golden_folders import GoldenFolder, expected_records
from odradek.errors.codes import ErrorCode
from odradek.records.batch import Record
from odradek.records.message_sets.message_set import iter_all_records, iter_entries
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.messages.offset_fetch import OffsetFetchRequest
from waiting import until_async

from ..live import Client, append, batch, connect, create_topic, delete_topics, fetch, running
from ..net import run, settle

FOLDERS = [f"kafka-{version}-{how}" for version in ("2.2.2", "3.9.1") for how in ("clean", "killed")]
OLD = ["kafka-0.8.2.2-clean", "kafka-0.10.2.2-clean"]
FOREVER = str(10 * 365 * 24 * 60)


def started(golden: GoldenFolder, tmp_path: Path) -> Any:
    dirs = ",".join(map(str, golden.directories))
    return running(dirs, clock=golden.clock, offsets_retention_minutes=FOREVER)  # type: ignore[arg-type]


async def read_partition(client: Client, topic: str, index: int, start: int, end: int) -> list[Record]:
    found: list[Record] = []
    offset = start
    while offset < end:
        answer = await client.call(fetch(topic, offset, index=index, partition_max_bytes=1 << 20), 12)
        partition = answer.responses[0].partitions[0]
        assert partition.error_code == ErrorCode.NONE
        data = bytes(partition.records or b"")
        if not data:
            break
        found += [one for one in iter_all_records(data) if offset <= one.offset < end]
        offset = max(header.next_offset for header, _ in iter_entries(data))
    return found


async def offset_at(client: Client, topic: str, index: int, timestamp: int) -> Any:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)],
            )
        ],
    )
    return (await client.call(request, 7)).topics[0].partitions[0]


@pytest.mark.parametrize("archive", FOLDERS + OLD)
def test_every_record_offset_and_time_is_served(archive: str, tmp_path: Path) -> None:
    golden = GoldenFolder(archive, tmp_path)

    async def main() -> None:
        async with started(golden, tmp_path) as broker:
            client = await connect(broker)
            metadata = await client.call(MetadataRequest(topics=None), 9)
            served = {(t.name, p.partition_index) for t in metadata.topics for p in t.partitions}
            assert all(p.leader_id == broker.broker_id for t in metadata.topics for p in t.partitions)
            checked = 0
            for name in golden.expected_partitions():
                topic, _, number = name.rpartition("-")
                if not number.isdecimal() or (topic, int(number)) not in served:
                    continue
                index, expected = int(number), golden.expected(name)
                first = (await offset_at(client, topic, index, -2)).offset
                end = (await offset_at(client, topic, index, -1)).offset
                view = expected.get("broker_view")
                if view:
                    assert (first, end) == (view["earliest"], view["latest"])
                records = expected_records(expected, first, end)
                assert await read_partition(client, topic, index, first, end) == records
                for asked in view["by_time"] if view and "error" not in str(view["by_time"]) else ():
                    if asked["ask"] < 0:
                        continue
                    found = await offset_at(client, topic, index, asked["ask"])
                    newer = ((r.offset, r.timestamp) for r in records if r.timestamp >= asked["ask"])
                    # Behind an empty segment that compaction left, Kafka finds nothing by time; we do.
                    assert (found.offset, found.timestamp) in (
                        (asked["offset"], asked["timestamp"]),
                        next(newer, None),
                    )
                checked += 1
            assert checked >= 5
            # It can be written to, and goes on where Kafka ended.
            topic, index = min(one for one in served if not one[0].startswith("_"))
            end = (await offset_at(client, topic, index, -1)).offset
            written = await append(
                client, topic, batch(timestamp=golden.clock.now_ms(), keys=[b"k"]), index=index
            )
            assert (written.error_code, written.base_offset) == (ErrorCode.NONE, end)
            client.close()

    run(main)


@pytest.mark.parametrize("archive", FOLDERS)
def test_groups_have_their_offsets(archive: str, tmp_path: Path) -> None:
    golden = GoldenFolder(archive, tmp_path)
    groups = golden.about["groups"]
    assert len(groups) > 3

    async def main() -> None:
        async with started(golden, tmp_path) as broker:
            client = await connect(broker)
            runtime = broker.groups.coordinator.runtime
            await settle(lambda: len(runtime.partitions()) == 3, "for the groups")
            for group in groups:
                request = OffsetFetchRequest(group_id=group["group"], topics=None)
                answer = await until_async(
                    lambda request=request: client.call(request, 5),
                    f"the offsets of {group['group']}",
                    holds=lambda answer: answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                )
                assert answer.error_code == ErrorCode.NONE
                found = {
                    f"{topic.name}-{one.partition_index}": (one.committed_offset, one.metadata or "")
                    for topic in answer.topics
                    for one in topic.partitions
                }
                expected = {name: (one["offset"], one["metadata"]) for name, one in group["offsets"].items()}
                assert found == expected, group["group"]
            client.close()

    run(main)


@pytest.mark.parametrize("archive", FOLDERS)
def test_producers_go_on(archive: str, tmp_path: Path) -> None:
    golden = GoldenFolder(archive, tmp_path)

    async def main() -> None:
        async with started(golden, tmp_path) as broker:
            client = await connect(broker)
            checked = highest = 0
            for partition in list(broker.replicas):
                for entry in list(partition.log.producers.entries.values()):
                    highest = max(highest, entry.producer_id)
                    last = entry.last_batch
                    if last is None or entry.txn_first_offset >= 0 or partition.topic.startswith("_"):
                        continue
                    if partition.topic.startswith(("txn", "compact-txn")) or partition.log.config.compact:
                        continue

                    def sent(sequence: int, entry: Any = entry) -> bytes:
                        return batch(
                            timestamp=golden.clock.now_ms(),
                            producer_id=entry.producer_id,
                            producer_epoch=entry.epoch,
                            base_sequence=sequence,
                        )

                    gap = await append(
                        client, partition.topic, sent(entry.last_sequence + 5), index=partition.index
                    )
                    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                    end = partition.log.log_end_offset
                    following = await append(
                        client, partition.topic, sent(entry.last_sequence + 1), index=partition.index
                    )
                    assert (following.error_code, following.base_offset) == (ErrorCode.NONE, end)
                    checked += 1
            assert checked >= 1
            # Nobody gets the id of a producer whose sequences are here.
            fresh = await client.call(InitProducerIdRequest(transactional_id=None), 4)
            assert fresh.producer_id > highest
            client.close()

    run(main)


def test_topics_stay_as_they_were_adopted(tmp_path: Path) -> None:
    golden = GoldenFolder("kafka-3.9.1-clean", tmp_path)

    async def main() -> None:
        async with started(golden, tmp_path) as broker:
            before = broker.image.topics
            ids = {one.topic: one.topic_id for one in broker.logs.all() if one.topic_id is not None}
            assert {name: before[name].topic_id for name in ids} == ids
            assert broker.image.topic_config("__consumer_offsets")["cleanup.policy"] == "compact"
            assert broker.image.topic_config("g-one") == {"retention.ms": "-1", "retention.bytes": "-1"}
            await delete_topics(broker, ["g-one"])
        async with started(golden, tmp_path) as broker:
            assert broker.image.topics.keys() == before.keys() - {"g-one"}
            assert broker.cluster_id == broker.logs.identity.stored_cluster_id()

    run(main)


def test_a_topic_of_which_a_part_is_missing_is_left_alone(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            for name, count in (("whole", 2), ("part", 3)):
                await create_topic(broker, name, count)
        (tmp_path / "metadata.sqlite").unlink()
        kept = tmp_path.parent / f"{tmp_path.name}-kept"
        (tmp_path / "part-1").rename(kept)
        async with running(tmp_path) as broker:
            assert set(broker.image.topics) == {"whole"}
        assert (tmp_path / "part-0").is_dir()

    run(main)
