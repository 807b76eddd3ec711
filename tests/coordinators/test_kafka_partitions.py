"""Partitions of `__consumer_offsets` that Kafka wrote: read as Kafka reads them, written byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.coordinators.groups.classic_group import ClassicGroup
from odradek.coordinators.groups.offset_store import OffsetEntry
from odradek.coordinators.groups.records import group_record, group_value, offset_record
from odradek.coordinators.groups.states import GroupState
from odradek.coordinators.partitioner import partition_for
from odradek.records.batch import Record, batch_records, iter_batches, iter_records
from odradek.records.control import ControlType, parse_control_type
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.schemas.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

from .harness import World
from .memory_log import MemoryRecordLog

GOLDEN = Path(__file__).parent.parent / "golden" / "coordinators"
RELEASES = ["3.9.1", "2.2.2"]


def partition_bytes(release: str, partition: int) -> bytes:
    return (GOLDEN / f"kafka-{release}" / f"__consumer_offsets-{partition}.log").read_bytes()


def records_of(release: str) -> list[Record]:
    return [record for p in range(3) for record in iter_records(partition_bytes(release, p))]


def load(release: str) -> tuple[World, dict[str, dict]]:
    log = MemoryRecordLog()
    for partition in range(3):
        log.batches[partition] = [partition_bytes(release, partition)]
    about = json.loads((GOLDEN / f"kafka-{release}" / "about.json").read_text(encoding="utf-8"))
    world = World(3, log, offsets_retention_minutes=10_000_000)
    world.timers.advance(0)
    return world, {group["group"]: group for group in about["groups"]}


@pytest.mark.parametrize("release", RELEASES)
def test_groups_and_offsets_are_what_kafka_saw(release: str) -> None:
    world, expected = load(release)
    coordinator = world.coordinator
    error, listed = coordinator.list_groups()
    assert error == 0
    assert {group.group_id for group in listed} == set(expected)
    for group_id, about in expected.items():
        shard = coordinator.runtime.shard(coordinator.partition_of(group_id))
        group = shard.groups[group_id]
        if group_id == "cooperative":
            # Its members ran out of their sessions between the look at the groups and the broker's stop.
            assert (group.state.value, group.generation) == ("Empty", 2)
        else:
            assert group.state.value == about["state"]
            assert (group.protocol or "") == about["assignor"]
        found = {
            f"{topic}-{partition}": (entry.offset, entry.metadata, entry.leader_epoch)
            for topic, partitions in shard.offsets.of_group(group_id).items()
            for partition, entry in partitions.items()
        }
        wanted = {
            where: (o["offset"], o["metadata"], o.get("leader_epoch", -1))
            for where, o in about["offsets"].items()
        }
        assert found == wanted, group_id


@pytest.mark.parametrize("release", RELEASES)
def test_every_record_lies_where_the_hash_says(release: str) -> None:
    for partition in range(3):
        for record in iter_records(partition_bytes(release, partition)):
            assert record.key is not None
            kind = OffsetCommitKey if record.key[:2] == b"\x00\x01" else GroupMetadataKey
            assert partition_for(kind.decode_prefixed(record.key).group, 3) == partition


def test_our_group_records_have_kafkas_bytes() -> None:
    count = 0
    for record in records_of("3.9.1"):
        assert record.key is not None
        if record.key[:2] != b"\x00\x02":
            continue
        group_id = GroupMetadataKey.decode_prefixed(record.key).group
        if record.value is None:
            assert group_record(group_id, None).encode() == (record.key, None)
            continue
        group = ClassicGroup.from_record(group_id, GroupMetadataValue.decode_prefixed(record.value))
        assert group.state is (GroupState.STABLE if group.members else GroupState.EMPTY)
        assignments = {member.member_id: member.assignment for member in group.members.values()}
        value = group_value(group, group.members.values(), assignments)
        assert group_record(group_id, value).encode() == (record.key, record.value)
        count += 1
    assert count == 9


@pytest.mark.parametrize("release", RELEASES)
def test_our_offset_records_have_kafkas_bytes(release: str) -> None:
    count = 0
    for record in records_of(release):
        assert record.key is not None
        if record.key[:2] != b"\x00\x01":
            continue
        key = OffsetCommitKey.decode_prefixed(record.key)
        entry = None
        if record.value is not None:
            entry = OffsetEntry.from_record(record.offset, OffsetCommitValue.decode_prefixed(record.value))
        ours = offset_record(key.group, key.topic, key.partition, entry).encode()
        assert ours == (record.key, record.value)
        count += 1
    assert count >= 20


@pytest.mark.parametrize("release", RELEASES)
def test_our_transactional_batches_have_kafkas_bytes(release: str) -> None:
    """Every offset that Kafka wrote within a transaction, committed here at the same time, and its marker."""
    compared = 0
    for partition in (0, 1):
        world = World(3)
        for header, batch in iter_batches(partition_bytes(release, partition)):
            if not header.is_transactional:
                continue
            (record,) = batch_records(header, batch)
            if header.is_control:
                commit = parse_control_type(record.key) is ControlType.COMMIT
                world.end_transaction(partition, header.producer_id, header.producer_epoch, commit=commit)
                continue
            assert record.key is not None and record.value is not None
            key = OffsetCommitKey.decode_prefixed(record.key)
            value = OffsetCommitValue.decode_prefixed(record.value)
            world.clock.advance(value.commit_timestamp - world.clock.now_ms())
            codes: list[int] = []
            world.coordinator.commit_offsets_in_transaction(
                TxnOffsetCommitRequest(
                    transactional_id="x",
                    group_id=key.group,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    topics=[
                        TxnOffsetCommitRequestTopic(
                            name=key.topic,
                            partitions=[
                                TxnOffsetCommitRequestPartition(
                                    partition_index=key.partition,
                                    committed_offset=value.offset,
                                    committed_leader_epoch=value.leader_epoch,
                                    committed_metadata=value.metadata,
                                )
                            ],
                        )
                    ],
                ),
                lambda response, codes=codes: codes.append(response.topics[0].partitions[0].error_code),
            )
            assert codes == [0]
            ours, theirs = world.log.batches[partition][-1], bytes(batch)
            # All but what the log gives; Kafka reads the clock again for the batch, so without its times.
            assert ours[8:12] == theirs[8:12]
            assert ours[21:27] + ours[43:] == theirs[21:27] + theirs[43:]
            if value.commit_timestamp == record.timestamp:
                assert ours[16:] == theirs[16:]
            compared += 1
        shard = world.coordinator.runtime.shard(partition)
        about = json.loads((GOLDEN / f"kafka-{release}" / "about.json").read_text(encoding="utf-8"))
        for group in about["groups"]:
            if group["group"].startswith("txn") and shard.offsets.of_group(group["group"]):
                found = {
                    f"{topic}-{index}": entry.offset
                    for topic, entries in shard.offsets.of_group(group["group"]).items()
                    for index, entry in entries.items()
                }
                assert found == {where: one["offset"] for where, one in group["offsets"].items()}
    assert compared >= 3


def test_members_of_a_loaded_group_go_on_and_time_out() -> None:
    world, _ = load("3.9.1")
    shard = world.coordinator.runtime.shard(world.coordinator.partition_of("static"))
    group = shard.groups["static"]
    assert group.static_members and set(group.static_members.values()) == set(group.members)
    generation = group.generation
    longest = max(member.session_timeout_ms for member in group.members.values())
    world.advance(longest + 1)
    # All sessions end at the same time: the group becomes Empty in its next generation.
    world.advance(
        max(member.rebalance_timeout_ms for member in group.members.values()) if group.members else 0
    )
    assert shard.groups["static"].state is GroupState.EMPTY
    assert shard.groups["static"].generation == generation + 1
