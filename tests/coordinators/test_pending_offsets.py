"""Offsets within transactions, compared with a model that only looks at the whole history.

The model: an offset counts if nobody removed its partition's offset behind it in the log, and if it is part
of no transaction or of one whose next marker commits it. Of those that count, the last one in the log is the
group's offset. One whose transaction has no marker yet makes the partition unstable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.coordinators.runtime import ShardState
from odradek.errors import ErrorCode, InvalidProducerEpochError, NotLeaderOrFollowerError
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .harness import World

pytestmark = pytest.mark.model

GROUPS = ("g", "h")
PARTITIONS = (0, 1)
PRODUCERS = (7, 8, 9)

groups = st.sampled_from(GROUPS)
partitions = st.sampled_from(PARTITIONS)
producers = st.sampled_from(PRODUCERS)


class Written(NamedTuple):
    """An offset in the log; `offset` None: a tombstone."""

    group: str
    partition: int
    offset: int | None
    producer: int | None = None


class Ended(NamedTuple):
    """A marker in the log."""

    producer: int
    commit: bool


def expected(history: list[Written | Ended], group: str, partition: int, *, stable: bool) -> tuple[int, int]:
    """(error, offset) of a fetch."""
    found, unstable = -1, False
    for position, one in enumerate(history):
        if not isinstance(one, Written) or (one.group, one.partition) != (group, partition):
            continue
        later = history[position + 1 :]
        if one.offset is None or Written(group, partition, None) in later:
            continue
        if one.producer is not None:
            marker = next((m for m in later if isinstance(m, Ended) and m.producer == one.producer), None)
            if marker is None:
                unstable = True
            if marker is None or not marker.commit:
                continue
        found = one.offset
    return (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1) if stable and unstable else (0, found)


class PendingOffsets(RuleBasedStateMachine):
    """Commits, transactional commits, markers, removals, restarts."""

    @initialize()
    def start(self) -> None:
        self.world = World()
        self.history: list[Written | Ended] = []
        self.next_offset = 0

    def offset(self) -> int:
        self.next_offset += 1
        return self.next_offset

    @rule(group=groups, partition=partitions)
    def commit(self, group: str, partition: int) -> None:
        offset, codes = self.offset(), list[int]()
        self.world.coordinator.commit_offsets(
            8,
            OffsetCommitRequest(
                group_id=group,
                topics=[
                    OffsetCommitRequestTopic(
                        name="t",
                        partitions=[
                            OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
                        ],
                    )
                ],
            ),
            lambda response: codes.append(response.topics[0].partitions[0].error_code),
        )
        assert codes == [0]
        self.history.append(Written(group, partition, offset))

    def send_transactional(self, group: str, wanted: list[int], producer: int) -> tuple[list[int], list[int]]:
        offsets, codes = [self.offset() for _ in wanted], list[int]()
        self.world.coordinator.commit_offsets_in_transaction(
            TxnOffsetCommitRequest(
                transactional_id=f"x-{producer}",
                group_id=group,
                producer_id=producer,
                producer_epoch=0,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name="t",
                        partitions=[
                            TxnOffsetCommitRequestPartition(partition_index=p, committed_offset=offset)
                            for p, offset in zip(wanted, offsets, strict=True)
                        ],
                    )
                ],
            ),
            lambda response: codes.extend(p.error_code for t in response.topics for p in t.partitions),
        )
        return codes, offsets

    @rule(group=groups, wanted=st.lists(partitions, min_size=1, unique=True), producer=producers)
    def commit_in_transaction(self, group: str, wanted: list[int], producer: int) -> None:
        codes, offsets = self.send_transactional(group, wanted, producer)
        assert codes == [0] * len(wanted)
        self.history += [
            Written(group, partition, offset, producer)
            for partition, offset in zip(wanted, offsets, strict=True)
        ]

    @rule(group=groups, partition=partitions, producer=producers, fenced=st.booleans())
    def fail_to_commit_in_transaction(self, group: str, partition: int, producer: int, fenced: bool) -> None:
        self.world.log.failure = InvalidProducerEpochError() if fenced else NotLeaderOrFollowerError()
        codes, _ = self.send_transactional(group, [partition], producer)
        self.world.log.failure = None
        assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH if fenced else ErrorCode.NOT_COORDINATOR]

    @rule(producer=producers, commit=st.booleans())
    def end(self, producer: int, commit: bool) -> None:
        self.world.end_transaction(0, producer, 0, commit=commit)
        self.history.append(Ended(producer, commit))

    @rule(group=groups, partition=partitions)
    def remove(self, group: str, partition: int) -> None:
        self.world.coordinator.delete_offsets(
            OffsetDeleteRequest(
                group_id=group,
                topics=[
                    OffsetDeleteRequestTopic(
                        name="t", partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
                    )
                ],
            ),
            lambda response: None,
        )
        self.history.append(Written(group, partition, None))

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        self.world.coordinator.delete_groups([group], lambda results: None)
        self.history += [Written(group, partition, None) for partition in PARTITIONS]

    @rule(graceful=st.booleans())
    def restart(self, graceful: bool) -> None:
        self.world.restart(graceful=graceful)

    @rule(producer=producers, commit=st.booleans())
    def end_while_loading(self, producer: int, commit: bool) -> None:
        """The marker comes behind what is being loaded; the coordinator only hears of it."""
        world = self.world
        world.coordinator.runtime.unload_all()
        world.coordinator = world.start()
        assert (world.coordinator.runtime.state(0) is ShardState.LOADING) == bool(world.log.batches)
        self.end(producer, commit)
        world.timers.advance(0)

    def fetched(self, group: str, *, stable: bool) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}

        def deliver(response: Any) -> None:
            for topic in response.topics:
                found.update(
                    (p.partition_index, (p.error_code, p.committed_offset)) for p in topic.partitions
                )

        self.world.coordinator.fetch_offsets(
            OffsetFetchRequestGroup(
                group_id=group,
                topics=[OffsetFetchRequestTopics(name="t", partition_indexes=list(PARTITIONS))],
            ),
            deliver,
            require_stable=stable,
        )
        return found

    @invariant()
    def fetches_are_the_models(self) -> None:
        for group in GROUPS:
            for stable in (False, True):
                model = {p: expected(self.history, group, p, stable=stable) for p in PARTITIONS}
                assert self.fetched(group, stable=stable) == model

    @invariant()
    def nothing_is_kept_of_ended_transactions(self) -> None:
        offsets = self.world.coordinator.runtime.shard(0).offsets
        is_open = {one.producer for one in self.history if isinstance(one, Written) and one.producer}
        for producer in PRODUCERS:
            last = next((m for m in reversed(self.history) if m.producer == producer), None)
            if producer not in is_open or isinstance(last, Ended):
                assert producer not in offsets._pending
                assert all(producer not in ids for ids in offsets._open_transactions.values())


PendingOffsets.TestCase.settings = settings(stateful_step_count=30)
test_pending_offsets = PendingOffsets.TestCase
