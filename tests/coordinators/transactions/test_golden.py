"""Partitions of `__transaction_state` that Kafka wrote, and what its admin client saw in them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from odradek.coordinators.outcome import CoordinatorRecord
from odradek.coordinators.partitioner import partition_for
from odradek.coordinators.transactions.records import read_transaction, transaction_record
from odradek.records.batch import Record, iter_records
from odradek.wire.schemas.transaction_state import TransactionLogKey, TransactionLogValue

from .world import World

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "log"


def segments(archive: Path) -> dict[int, bytes]:
    """By partition, the bytes of all segments in order."""
    found: dict[int, bytes] = {}
    with tarfile.open(archive) as tar:
        for name in sorted(n for n in tar.getnames() if "/__transaction_state-" in n and n.endswith(".log")):
            member = tar.extractfile(name)
            assert member is not None
            partition = int(name.split("__transaction_state-")[1].split("/")[0])
            found[partition] = found.get(partition, b"") + member.read()
    return found


def clean(release: str) -> Path:
    return GOLDEN / f"kafka-{release}-clean.tar.gz"


def records(archive: Path) -> list[Record]:
    found: list[Record] = []
    for data in segments(archive).values():
        found += iter_records(data)
    return found


@pytest.mark.parametrize("release", ["2.2.2", "3.9.1"])
def test_each_record_is_written_as_kafka_wrote_it(release: str) -> None:
    seen = 0
    for record in records(clean(release)):
        assert record.key is not None
        key, _ = TransactionLogKey.decode_from(record.key, 0, 2)
        assert key.encode_prefixed(0) == record.key
        if record.value is None:
            continue
        version = int.from_bytes(record.value[:2], "big")
        value = TransactionLogValue.decode_prefixed(record.value)
        assert value.encode_prefixed(version) == record.value
        transaction = read_transaction(key.transactional_id, value)
        ours: CoordinatorRecord = transaction_record(transaction, version)
        assert ours.value is not None
        again = ours.value
        assert isinstance(again, TransactionLogValue)
        # Sets have no order: what Kafka happened to write first is the only difference there may be.
        for each in (again, value):
            for topic in each.transaction_partitions or []:
                topic.partition_ids.sort()
            if each.transaction_partitions is not None:
                each.transaction_partitions.sort(key=lambda topic: topic.topic)
        assert ours.encode() == (record.key, value.encode_prefixed(version))
        seen += 1
    assert seen > 5


@pytest.mark.parametrize("release", ["2.2.2", "3.9.1"])
def test_every_id_is_in_its_partition(release: str) -> None:
    logs = segments(clean(release))
    assert len(logs) > 1
    for partition, data in logs.items():
        for record in iter_records(data):
            assert record.key is not None
            key, _ = TransactionLogKey.decode_from(record.key, 0, 2)
            assert partition_for(key.transactional_id, len(logs)) == partition


def test_loaded_ids_are_what_the_admin_client_saw() -> None:
    # Kafka 2.2.2 could not tell.
    with tarfile.open(clean("3.9.1")) as tar:
        member = tar.extractfile("about.json")
        assert member is not None
        expected = json.load(member)["transactions"]
    world = World()
    world.log.batches[0] = [data for data in segments(clean("3.9.1")).values() if data]
    world.restart()
    assert {
        (t.transactional_id, t.producer_id, t.state.title) for t in world.coordinator.list().transactions
    } == {(entry["id"], entry["producer_id"], entry["state"]) for entry in expected}
