"""Compaction by a running broker of a topic that transactions write to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek import Admin, NewTopic
from odradek.broker.app import Broker as App
from odradek.log.producers.producer_state import Origin
from odradek.records.control import ControlType, end_marker_batch
from odradek.replication.reading import read_partition, reader_of
from odradek.testing import Broker
from odradek.wire.messages.fetch import FetchPartition

from ..live import batch
from ..transactional import visible
from .test_cleaning import COMPACTED, QUICK, active_base, checkpoint, eventually


class Writer:
    """Appends transactional batches and markers to partition 0 of `state`, within the broker's loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sequences: dict[int, int] = {}

    def put(self, producer_id: int, key: bytes, value: bytes) -> int:
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + 1
        records = batch(
            [value],
            keys=[key],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        return self._append(records, Origin.CLIENT)

    def end(self, producer_id: int, *, commit: bool) -> None:
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        marker = end_marker_batch(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=1
        )
        self._append(marker, Origin.COORDINATOR)

    def _append(self, records: bytes, origin: Origin) -> int:
        def append(app: App) -> int:
            partition = app.replicas.get("state", 0)
            info = partition.append(records, required_acks=-1, now_ms=app.clock.now_ms(), origin=origin)
            return info.first_offset

        return self._broker.call(append)


def read_committed(broker: Broker) -> list[tuple[int, Any]]:
    """What a consumer sees, read in pieces."""

    def read(app: App) -> list[tuple[int, Any]]:
        from odradek.records.batch import iter_batches

        partition = app.replicas.get("state", 0)
        found: list[tuple[int, Any]] = []
        offset = partition.log.log_start_offset
        while offset < partition.log.last_stable_offset:
            result = read_partition(
                partition,
                FetchPartition(fetch_offset=offset),
                reader_of(-1, 1, 12),
                3_000,
                min_one_batch=True,
            )
            records = bytes(result.records)
            aborted = sorted(result.aborted_transactions, key=lambda one: one.first_offset)
            found += [one for one in visible(records, aborted) if one[0] >= offset]
            offset = max(header.next_offset for header, _ in iter_batches(records))
        return found

    return broker.call(read)


def test_open_aborted_and_committed_transactions_in_a_compacted_topic(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", **QUICK) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("state", 1, configs=COMPACTED)])
        writer = Writer(broker)
        newest: dict[bytes, tuple[int, bytes]] = {}
        for number in range(200):
            key, value = b"key-%d" % (number % 7), b"%d" % number * 10
            commit = number % 3 > 0
            producer_id = 100 + number % 2
            offset = writer.put(producer_id, key, value)
            writer.end(producer_id, commit=commit)
            if commit:
                newest[key] = (offset, value)
        first_open = writer.put(7, b"key-0", b"open")
        before = dict(newest)
        for number in range(200):
            offset = writer.put(101, b"key-%d" % (number % 7), b"later %d" % number * 10)
            writer.end(101, commit=True)
            newest[b"key-%d" % (number % 7)] = (offset, b"later %d" % number * 10)

        # The open transaction holds the cleaner: nothing behind its beginning is looked at.
        data = tmp_path / "data"
        eventually(lambda: checkpoint(data).get(("state", 0), 0) > 0, "a first pass")
        assert checkpoint(data)["state", 0] <= first_open
        assert broker.call(lambda app: app.logs.get("state", 0).last_stable_offset) == first_open
        seen = read_committed(broker)
        assert {offset for offset, _ in before.values()} <= {offset for offset, _ in seen}
        assert all(offset < first_open for offset, _ in seen)

        broker.restart()
        assert read_committed(broker) == seen
        writer.end(7, commit=False)
        eventually(lambda: checkpoint(data)["state", 0] == active_base(broker, "state"), "a second pass")
        clean_to = active_base(broker, "state")
        found = read_committed(broker)
        # Nothing of an aborted transaction, and every newest record of the committed ones.
        assert all(value != b"open" for _, value in found)
        assert set(newest.values()) <= set(found)
        assert len([offset for offset, _ in found if offset < clean_to]) <= 7
        broker.restart()
        assert read_committed(broker) == found
        # What was open before is known to have ended.
        assert broker.call(lambda app: not app.logs.get("state", 0).producers.in_transaction(7))
