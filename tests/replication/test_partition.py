"""A partition over a real log: leadership, high watermark, epochs, looking up, deleting."""

from __future__ import annotations

import pytest

from odradek.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownLeaderEpochError,
)
from odradek.errors.codes import ErrorCode
from odradek.log.config import LogConfig
from odradek.replication.lookups import OffsetLookup, look_up

from .replicas import ME, NOW, SECOND, THIRD, append, follow, lead, make


def test_alone_what_is_appended_is_committed() -> None:
    partition, progress = make()
    assert lead(partition)
    progress.clear()
    assert append(partition, 3, acks=-1) == 2
    assert partition.log.high_watermark == 3
    assert partition.committed(3) == (True, ErrorCode.NONE)
    assert partition.committed(4) == (False, ErrorCode.NONE)
    assert progress == [partition.key]


def test_only_the_leader_appends() -> None:
    partition, _ = make()
    with pytest.raises(NotLeaderOrFollowerError):
        append(partition)
    lead(partition)
    append(partition)
    partition.make_follower(SECOND, 1, replicas=(ME, SECOND), isr=(SECOND,), partition_epoch=1)
    with pytest.raises(NotLeaderOrFollowerError):
        append(partition)
    assert partition.committed(1) == (True, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert partition.log.log_end_offset == 1


def test_an_older_epoch_changes_nothing() -> None:
    partition, _ = make()
    lead(partition, epoch=5)
    assert not lead(partition, epoch=4)
    assert not partition.make_follower(SECOND, 4, replicas=(ME, SECOND), isr=(SECOND,), partition_epoch=9)
    assert (partition.leader_id, partition.leader_epoch) == (ME, 5)
    # The same epoch again is no new leadership, but may bring a new ISR.
    assert not lead(partition, epoch=5, replicas=(ME, SECOND), isr=(ME,))
    assert partition.isr == (ME,)


def test_the_high_watermark_is_the_least_of_the_isr() -> None:
    partition, progress = make()
    lead(partition, replicas=(ME, SECOND, THIRD))
    append(partition, 10)
    assert partition.log.high_watermark == 0
    follow(partition, SECOND, 10)
    assert partition.log.high_watermark == 0
    progress.clear()
    follow(partition, THIRD, 4)
    assert partition.log.high_watermark == 4
    assert progress == [partition.key]
    assert partition.committed(4)[0]
    assert not partition.committed(5)[0]
    # It does not go back when a follower does.
    follow(partition, THIRD, 2)
    assert partition.log.high_watermark == 4


def test_one_outside_the_isr_is_waited_for_while_it_keeps_up() -> None:
    partition, _ = make()
    lead(partition, replicas=(ME, SECOND), isr=(ME,))
    # Nobody knows whether it is alive.
    append(partition, 5)
    assert partition.log.high_watermark == 5
    # From here on it could get into the ISR.
    follow(partition, SECOND, 5)
    append(partition, 5)
    assert partition.log.high_watermark == 5
    assert partition.advance_high_watermark(NOW + 30_001)
    assert partition.log.high_watermark == 10


def test_a_stranger_does_not_follow() -> None:
    partition, _ = make()
    lead(partition, replicas=(ME, SECOND))
    with pytest.raises(NotLeaderOrFollowerError):
        follow(partition, 9, 0)


def test_acks_all_wants_min_insync_replicas() -> None:
    partition, _ = make(LogConfig(min_insync_replicas=2))
    lead(partition, replicas=(ME, SECOND), isr=(ME,))
    with pytest.raises(NotEnoughReplicasError):
        append(partition, acks=-1)
    assert partition.log.log_end_offset == 0
    assert append(partition, acks=1) == 0
    # Below min.insync.replicas the high watermark stands still.
    assert partition.log.high_watermark == 0


def test_an_isr_that_shrinks_after_the_append_is_told() -> None:
    partition, _ = make(LogConfig(min_insync_replicas=2))
    lead(partition, replicas=(ME, SECOND))
    append(partition, acks=-1)
    follow(partition, SECOND, 1)
    lead(partition, replicas=(ME, SECOND), isr=(ME,))
    assert partition.committed(1) == (True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def test_min_insync_replicas_beyond_the_replicas_is_their_number() -> None:
    partition, _ = make(LogConfig(min_insync_replicas=3))
    lead(partition)
    assert append(partition, acks=-1) == 0
    assert partition.log.high_watermark == 1


@pytest.mark.parametrize(
    ("claimed", "error"), [(-1, None), (3, None), (2, FencedLeaderEpochError), (4, UnknownLeaderEpochError)]
)
def test_leader_epochs_are_compared(claimed: int, error: type[Exception] | None) -> None:
    partition, _ = make()
    lead(partition, epoch=3)
    if error is None:
        partition.check_leader_epoch(claimed)
    else:
        with pytest.raises(error):
            partition.check_leader_epoch(claimed)


def test_where_an_epoch_ended() -> None:
    partition, _ = make()
    lead(partition, epoch=1)
    append(partition, 5)
    lead(partition, epoch=3)
    assert partition.end_offset_for_epoch(1) == (1, 5)
    assert partition.end_offset_for_epoch(2) == (1, 5)
    assert partition.end_offset_for_epoch(3) == (3, 5)
    assert partition.end_offset_for_epoch(9) == (-1, -1)
    assert partition.end_offset_for_epoch(0) == (0, 0)


LOOKUPS = [
    (-1, OffsetLookup(6, -1, 2)),
    (-2, OffsetLookup(0, -1, 2)),
    (-3, OffsetLookup(5, NOW + 5, 2)),
    (-4, OffsetLookup(0, -1, 2)),
    (-5, OffsetLookup(-1, -1, -1)),
    (-6, OffsetLookup(-1, -1, -1)),
    (NOW + 3, OffsetLookup(3, NOW + 3, 2)),
    (0, OffsetLookup(0, NOW, 2)),
    (NOW + 6, OffsetLookup(-1, -1, -1)),
]


@pytest.mark.parametrize(("timestamp", "found"), LOOKUPS)
def test_offsets_by_time(timestamp: int, found: OffsetLookup) -> None:
    partition, _ = make()
    lead(partition, epoch=2)
    append(partition, 6)
    assert look_up(partition, timestamp, isolation=0) == found


def test_offsets_are_not_told_while_the_high_watermark_lags_behind_the_leadership() -> None:
    partition, _ = make()
    lead(partition, epoch=0, replicas=(ME, SECOND))
    append(partition, 6)
    follow(partition, SECOND, 2)
    lead(partition, epoch=1, replicas=(ME, SECOND))
    with pytest.raises(OffsetNotAvailableError):
        look_up(partition, -1, isolation=0)
    with pytest.raises(OffsetNotAvailableError):
        look_up(partition, NOW + 3, isolation=0)
    assert look_up(partition, NOW + 1, isolation=0).offset == 1
    assert look_up(partition, -2, isolation=0).offset == 0
    assert look_up(partition, -1, isolation=None).offset == 6
    follow(partition, SECOND, 6)
    assert look_up(partition, -1, isolation=0).offset == 6


def test_deleting_records() -> None:
    partition, progress = make()
    lead(partition)
    append(partition, 6)
    progress.clear()
    assert partition.delete_records_before(4) == 4
    assert (partition.low_watermark, progress) == (4, [partition.key])
    assert partition.delete_records_before(-1) == 6
    with pytest.raises(OffsetOutOfRangeError):
        partition.delete_records_before(7)
    with pytest.raises(OffsetOutOfRangeError):
        partition.delete_records_before(-2)
    assert partition.log.log_start_offset == 6


def test_a_compacted_topic_does_not_delete_records() -> None:
    partition, _ = make(LogConfig(cleanup_policy=("compact",)))
    lead(partition)
    append(partition, 3)
    with pytest.raises(PolicyViolationError):
        partition.delete_records_before(1)


def test_topic_ids_are_compared_when_both_sides_have_one() -> None:
    partition, _ = make()
    lead(partition)
    partition.require_topic_id(b"x" * 16)
    partition.log.set_topic_id(b"a" * 16)
    partition.require_topic_id(bytes(16))
    partition.require_topic_id(b"a" * 16)
    with pytest.raises(InconsistentTopicIdError):
        partition.require_topic_id(b"b" * 16)
