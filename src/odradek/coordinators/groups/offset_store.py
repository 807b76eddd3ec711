"""Committed offsets, and those of transactions that are still open.

Only `replay…` changes anything here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.util.topic_partition import TopicPartition
from odradek.wire.schemas.consumer_offsets import OffsetCommitValue

TopicOffsets = dict[str, dict[int, "OffsetEntry"]]
"""Entries by topic, then partition."""


class OffsetEntry(NamedTuple):
    """One committed offset.

    Attributes:
        offset: the next offset to be read.
        leader_epoch: of the last record read, -1 when the client did not say.
        metadata: the client's own note.
        commit_timestamp_ms: when it was committed, epoch ms.
        expire_timestamp_ms: when it expires, for clients that said so themselves (OffsetCommit 2–4).
        record_offset: where in the coordinator's partition it is written, -1 before it is.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    record_offset: int = -1

    @classmethod
    def from_record(cls, record_offset: int, value: OffsetCommitValue) -> OffsetEntry:
        """The entry that a record of the log describes."""
        expires = value.expire_timestamp
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            None if expires == -1 else expires,
            record_offset,
        )


class OffsetStore:
    """The offsets of one shard's groups."""

    def __init__(self) -> None:
        # By group id. No group, and no topic of a group, stands here without an offset.
        self._committed: dict[str, TopicOffsets] = {}
        # By producer id, what its transaction commits when it ends.
        self._pending: dict[int, dict[str, TopicOffsets]] = {}
        # By group id, the producers whose open transactions have had offsets of it. Each is a key of
        # `_pending`, also when a tombstone has taken out what it had there: the group lives until the end.
        self._open_transactions: dict[str, set[int]] = {}

    # Replay

    def replay(
        self,
        record_offset: int,
        producer_id: int,
        group_id: str,
        topic: str,
        partition: int,
        value: OffsetCommitValue | None,
    ) -> None:
        """Apply one offset record.

        Args:
            record_offset: its offset in the coordinator's partition.
            producer_id: of the transaction that it is part of, -1 outside of transactions.
            group_id: whose offset.
            topic: of which topic.
            partition: of which partition.
            value: the offset; `None` removes it, committed or pending.
        """
        if value is None:
            _remove(self._committed, group_id, topic, partition)
            for open_id in self._open_transactions.get(group_id, ()):
                _remove(self._pending[open_id], group_id, topic, partition)
            return
        entry = OffsetEntry.from_record(record_offset, value)
        if producer_id == -1:
            _put(self._committed, group_id, topic, partition, entry)
        else:
            _put(self._pending.setdefault(producer_id, {}), group_id, topic, partition, entry)
            self._open_transactions.setdefault(group_id, set()).add(producer_id)

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a control record: the producer's pending offsets count from now on, or are dropped."""
        self._pending_groups_done(producer_id)
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            if not committed:
                continue
            for topic, partitions in topics.items():
                for partition, entry in partitions.items():
                    present = self.get(group_id, topic, partition)
                    # A plain commit that was written later than the transactional one stays.
                    if present is None or entry.record_offset > present.record_offset:
                        _put(self._committed, group_id, topic, partition, entry)

    def _pending_groups_done(self, producer_id: int) -> None:
        for group_id in [g for g, ids in self._open_transactions.items() if producer_id in ids]:
            ids = self._open_transactions[group_id]
            ids.discard(producer_id)
            if not ids:
                del self._open_transactions[group_id]

    # Reading

    def get(self, group_id: str, topic: str, partition: int) -> OffsetEntry | None:
        """The committed offset, if there is one."""
        topics = self._committed.get(group_id)
        if topics is None:
            return None
        partitions = topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group_id: str) -> TopicOffsets:
        """All committed offsets of a group; not to be changed."""
        return self._committed.get(group_id, {})

    def group_ids(self) -> set[str]:
        """Groups with committed or pending offsets."""
        return self._committed.keys() | self._open_transactions.keys()

    def has_open_transactions(self, group_id: str) -> bool:
        """Return whether a transaction with offsets of this group is open."""
        return group_id in self._open_transactions

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction holds an offset for this partition."""
        return any(
            partition in self._pending[producer_id].get(group_id, {}).get(topic, {})
            for producer_id in self._open_transactions.get(group_id, ())
        )

    def keys_of_group(self, group_id: str) -> Iterator[TopicPartition]:
        """Topic and partition of every committed or pending offset of a group, each once."""
        seen: set[TopicPartition] = set()
        stores = [self._committed]
        stores += [self._pending[producer_id] for producer_id in self._open_transactions.get(group_id, ())]
        for store in stores:
            for topic, partitions in store.get(group_id, {}).items():
                for partition in partitions:
                    if (topic, partition) not in seen:
                        seen.add((topic, partition))
                        yield topic, partition

    def snapshot(self) -> dict[tuple[str, str, int], OffsetEntry]:
        """Every committed offset by (group, topic, partition); for tests and tools."""
        return {
            (group_id, topic, partition): entry
            for group_id, topics in self._committed.items()
            for topic, partitions in topics.items()
            for partition, entry in partitions.items()
        }


def _put(
    store: dict[str, TopicOffsets], group_id: str, topic: str, partition: int, entry: OffsetEntry
) -> None:
    store.setdefault(group_id, {}).setdefault(topic, {})[partition] = entry


def _remove(store: dict[str, TopicOffsets], group_id: str, topic: str, partition: int) -> None:
    topics = store.get(group_id)
    partitions = None if topics is None else topics.get(topic)
    if topics is None or partitions is None:
        return
    partitions.pop(partition, None)
    if not partitions:
        del topics[topic]
        if not topics:
            del store[group_id]
