"""What a follower appends, refuses and cuts: the divergences of KIP-101 and KIP-279 among real logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.errors import CorruptRecordError, FencedLeaderEpochError
from odradek.log.config import LogConfig
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.replication.following import Truncation, pieces_of, truncation_for
from odradek.replication.partition import Partition
from odradek.replication.reading import note_follower, read_partition, readable_end, reader_of
from odradek.util.clock import ManualClock
from odradek.wire.messages.fetch import FetchPartition

from .replicas import NOW, batch

A, B, C = 1, 2, 3
ALL = (A, B, C)


def replica(broker_id: int) -> Partition:
    clock = ManualClock(NOW)
    log = open_partition_log(Path("/data/t-0"), "t", 0, LogConfig(), MemoryFileSystem(), clock)
    return Partition(log, topic="t", index=0, broker_id=broker_id)


def lead(one: Partition, epoch: int, replicas: tuple[int, ...] = ALL) -> None:
    one.make_leader(epoch, replicas=replicas, isr=(one.broker_id,), partition_epoch=epoch, now_ms=NOW)


def follow(one: Partition, leader: Partition, epoch: int) -> None:
    one.make_follower(leader.broker_id, epoch, replicas=ALL, isr=ALL, partition_epoch=epoch)


def write(leader: Partition, key: int, count: int = 1) -> None:
    leader.append(batch(count, NOW + key), required_acks=1, now_ms=NOW)


def stored(one: Partition) -> bytes:
    log = one.log
    return log.read(log.log_start_offset, 10**6, upper_bound=log.log_end_offset, min_one_batch=True).records


def copy(follower: Partition, leader: Partition, *, high_watermark: int | None = None) -> None:
    """One fetch without a look at epochs, as after a truncation."""
    log = leader.log
    records = log.read(
        follower.log_end_offset, 10**6, upper_bound=log.log_end_offset, min_one_batch=True
    ).records
    follower.append_from_leader(
        records,
        leader_epoch=leader.leader_epoch,
        leader_high_watermark=log.high_watermark if high_watermark is None else high_watermark,
        leader_log_start_offset=log.log_start_offset,
        now_ms=NOW,
    )


def reconcile(follower: Partition, leader: Partition) -> int:
    """Ask and cut until the logs agree; returns how often it was asked."""
    for asked in range(1, 10):
        if follower.truncate_by_epoch(*leader.end_offset_for_epoch(follower.latest_epoch)):
            return asked
    raise AssertionError("it never ends")


def by_high_watermark(self: Partition, leader_epoch: int, leader_end: int) -> bool:
    """How followers cut their logs before KIP-101."""
    self.truncate_without_epochs()
    return True


def by_end_alone(self: Partition, leader_epoch: int, leader_end: int) -> bool:
    """How they did it before KIP-279: whichever epoch the leader answers with."""
    if leader_end >= 0:
        self.truncate_to_leader_end(min(leader_end, self.log_end_offset))
    return True


@pytest.mark.parametrize("rule", [by_high_watermark, by_end_alone])
def test_the_older_rules_do_not_do(rule: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """What KIP-101 and KIP-279 tell of happens with the rules of before."""
    scenarios = [
        TestKip101().test_a_follower_that_restarts_and_then_leads_keeps_what_was_committed,
        TestKip101().test_two_logs_of_the_same_length_do_not_stay_different,
        test_kip_279_logs_that_have_parted_twice_become_equal,
    ]
    monkeypatch.setattr(Partition, "truncate_by_epoch", rule)
    broken = scenarios if rule is by_high_watermark else scenarios[2:]
    for scenario in broken:
        with pytest.raises(AssertionError):
            scenario()


class TestKip101:
    def test_a_follower_that_restarts_and_then_leads_keeps_what_was_committed(self) -> None:
        leader, follower = replica(A), replica(B)
        lead(leader, 0)
        follow(follower, leader, 0)
        write(leader, 0)
        copy(follower, leader)
        write(leader, 1)
        copy(follower, leader, high_watermark=1)  # the leader knows 2 to be committed, the follower not yet
        leader.log.update_high_watermark(2)
        committed = stored(leader)

        # The follower starts again: cutting to the high watermark would lose the record at 1.
        assert (follower.log.high_watermark, follower.log_end_offset) == (1, 2)
        reconcile(follower, leader)
        lead(follower, 1)
        follow(leader, follower, 1)
        reconcile(leader, follower)

        assert stored(follower) == stored(leader) == committed

    def test_two_logs_of_the_same_length_do_not_stay_different(self) -> None:
        first, second = replica(A), replica(B)
        lead(first, 0)
        follow(second, first, 0)
        write(first, 0)
        copy(second, first)
        write(first, 1)  # only here; then both lose power, and the other one comes back first
        lead(second, 1)
        write(second, 2)
        follow(first, second, 1)
        assert first.log_end_offset == second.log_end_offset
        assert stored(first) != stored(second)

        reconcile(first, second)
        copy(first, second)

        assert stored(first) == stored(second)
        assert first.log.epochs.entries == second.log.epochs.entries


def test_kip_279_logs_that_have_parted_twice_become_equal() -> None:
    first, second = parted_twice()
    reconcile(second, first)
    copy(second, first)
    assert stored(first) == stored(second)


def parted_twice() -> tuple[Partition, Partition]:
    """A leader and its follower, each with an epoch that the other one never saw."""
    first, second = replica(A), replica(B)
    for one in (first, second):
        one.log.append(batch(10), leader_epoch=0, now_ms=NOW)
    # Batches of one record each: where the logs part no batch begins in one that is in the midst of another.
    for leader, epoch, count in (
        (first, 1, 5),  # only here: 10 to 14
        (second, 2, 3),  # only there: 10 to 12
        (first, 3, 4),  # only here: 15 to 18
    ):
        lead(leader, epoch)
        for _ in range(count):
            write(leader, epoch)
    follow(second, first, 3)
    return first, second


def test_kip_279_a_leader_that_answers_with_an_epoch_nobody_else_saw_is_asked_again() -> None:
    first, second = parted_twice()
    assert second.truncate_by_epoch(*first.end_offset_for_epoch(2)) is False
    assert second.log_end_offset == 10
    assert second.truncate_by_epoch(*first.end_offset_for_epoch(second.latest_epoch)) is True
    copy(second, first)

    assert stored(first) == stored(second)
    assert [entry.epoch for entry in second.log.epochs.entries] == [0, 1, 3]


@pytest.mark.parametrize(
    ("leader_epoch", "leader_end", "own", "expected"),
    [
        (3, 8, (3, 10), Truncation(8, True)),
        (3, 12, (3, 10), Truncation(10, True)),
        (3, 12, (2, 6), Truncation(6, False)),
        (3, 8, None, Truncation(8, True)),
        (-1, 8, None, Truncation(8, True)),
        (-1, 30, None, Truncation(10, True)),
        (-1, -1, None, Truncation(4, True)),
    ],
)
def test_where_to_cut(
    leader_epoch: int, leader_end: int, own: tuple[int, int] | None, expected: Truncation
) -> None:
    assert truncation_for(leader_epoch, leader_end, own, log_end_offset=10, high_watermark=4) == expected


class TestAppending:
    def test_the_high_watermark_goes_with_the_leaders_but_not_beyond_the_end_and_not_back(self) -> None:
        leader, follower = replica(A), replica(B)
        lead(leader, 0)
        follow(follower, leader, 0)
        write(leader, 0, 3)
        copy(follower, leader, high_watermark=100)
        assert follower.log.high_watermark == 3
        copy(follower, leader, high_watermark=1)
        assert follower.log.high_watermark == 3

    def test_what_is_here_already_is_left_out(self) -> None:
        leader, follower = replica(A), replica(B)
        lead(leader, 0)
        follow(follower, leader, 0)
        for key in range(3):
            write(leader, key)
        copy(follower, leader)
        write(leader, 3)
        everything = stored(leader)
        for _ in range(2):
            follower.append_from_leader(
                everything, leader_epoch=0, leader_high_watermark=0, leader_log_start_offset=0, now_ms=NOW
            )
            assert stored(follower) == everything

    @pytest.mark.parametrize("at", [20, 70, 100])
    def test_bytes_with_a_wrong_crc_do_not_get_in(self, at: int) -> None:
        leader, follower = replica(A), replica(B)
        lead(leader, 0)
        follow(follower, leader, 0)
        write(leader, 0)
        write(leader, 1)
        records = bytearray(stored(leader))
        records[at] ^= 1
        with pytest.raises(CorruptRecordError):
            follower.append_from_leader(
                records, leader_epoch=0, leader_high_watermark=2, leader_log_start_offset=0, now_ms=NOW
            )
        assert (follower.log_end_offset, follower.log.high_watermark) == (0, 0)

    def test_an_answer_of_an_older_epoch_and_one_that_comes_to_a_leader_change_nothing(self) -> None:
        leader, follower = replica(A), replica(B)
        lead(leader, 0)
        write(leader, 0)
        follow(follower, leader, 1)
        with pytest.raises(FencedLeaderEpochError):
            copy(follower, leader)
        lead(follower, 2)
        with pytest.raises(FencedLeaderEpochError):
            follower.append_from_leader(
                stored(leader), leader_epoch=2, leader_high_watermark=1, leader_log_start_offset=0, now_ms=NOW
            )
        assert follower.log_end_offset == 0

    def test_the_log_start_goes_with_the_leaders(self) -> None:
        leader, follower = replica(A), replica(B)
        lead(leader, 0)
        follow(follower, leader, 0)
        write(leader, 0, 5)
        leader.log.update_high_watermark(5)
        copy(follower, leader)
        leader.log.delete_records_before(3)
        copy(follower, leader)
        assert follower.log_start_offset == 3

    def test_a_log_that_begins_inside_of_a_batch_takes_the_whole_batch(self) -> None:
        leader, follower = replica(A), replica(B)
        lead(leader, 0)
        follow(follower, leader, 0)
        write(leader, 0, 5)
        leader.log.update_high_watermark(5)
        leader.log.delete_records_before(3)
        follower.truncate_fully_and_start_at(3)
        copy(follower, leader)
        assert (follower.log_start_offset, follower.log_end_offset) == (3, 5)
        assert stored(follower) == stored(leader)

    def test_pieces_are_whole_batches_and_leave_out_what_is_cut_off(self) -> None:
        one = batch()
        records = one * 10
        pieces = list(pieces_of(records + one[:-1], 3 * len(one)))
        assert [len(piece) // len(one) for piece in pieces] == [3, 3, 3, 1]
        assert b"".join(pieces) == records


class TestTheLeadersSide:
    """What a leader notes of a follower whose log has left its own: nothing."""

    def test_a_diverged_end_moves_no_high_watermark(self) -> None:
        leader = replica(A)
        lead(leader, 0)
        write(leader, 0, 2)
        leader.make_leader(2, replicas=(A, B), isr=(A, B), partition_epoch=1, now_ms=NOW)
        write(leader, 1, 3)
        before = leader.log.high_watermark
        wanted = FetchPartition(
            fetch_offset=5, current_leader_epoch=2, last_fetched_epoch=1, partition_max_bytes=1
        )
        note_follower(leader, wanted, B, NOW)
        assert leader.log.high_watermark == before < 5
        wanted.last_fetched_epoch = 2
        note_follower(leader, wanted, B, NOW)
        assert leader.log.high_watermark == 5

    def test_beyond_the_end_it_is_told_where_its_log_has_left(self) -> None:
        leader = replica(A)
        lead(leader, 0)
        write(leader, 0, 2)
        lead(leader, 2)
        wanted = FetchPartition(fetch_offset=50, current_leader_epoch=2, last_fetched_epoch=1)
        reader = reader_of(B, 0, 12)
        assert readable_end(leader, wanted, reader) is None
        diverging = read_partition(leader, wanted, reader, 100, min_one_batch=True).diverging_epoch
        assert (diverging.epoch, diverging.end_offset) == (0, 2)
