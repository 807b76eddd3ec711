"""The ISR as its leader counts it: who is asked for, and what the high watermark waits for meanwhile."""

from __future__ import annotations

import pytest

from odradek.errors import NotEnoughReplicasError, NotLeaderOrFollowerError
from odradek.errors.codes import ErrorCode
from odradek.log.config import LogConfig
from odradek.replication.in_sync import committed
from odradek.replication.leadership import Leadership
from odradek.replication.partition import Partition

from .replicas import ME, NOW, SECOND, THIRD, append, follow, lead, make

LAG = 30_000
ALL = (ME, SECOND, THIRD)


class Asked:
    """Notes what a leader asks the controller for."""

    def __init__(self, partition: Partition) -> None:
        self.wishes: list[tuple[int, ...]] = []
        self.taken = True
        partition.on_isr_wanted = self._want

    def _want(self, partition: Leadership, isr: tuple[int, ...]) -> bool:
        self.wishes.append(isr)
        return self.taken


def led(
    isr: tuple[int, ...] = (ME, SECOND),
    replicas: tuple[int, ...] = ALL,
    config: LogConfig | None = None,
    records: int = 10,
) -> tuple[Partition, Asked, list[tuple[str, int]]]:
    """A partition with records that the whole ISR has."""
    partition, progress = make(config)
    asked = Asked(partition)
    lead(partition, replicas=replicas, isr=isr)
    append(partition, records)
    for broker in isr:
        if broker != ME:
            follow(partition, broker, records)
    assert (partition.log.high_watermark, asked.wishes) == (records, [])
    progress.clear()
    return partition, asked, progress


def answer(partition: Partition, isr: tuple[int, ...], partition_epoch: int, leader_epoch: int = 0) -> bool:
    return partition.take_isr(leader_epoch, isr, partition_epoch, NOW)


# ---------------------------------------------------------------------- coming in


def test_a_follower_at_the_high_watermark_is_asked_for() -> None:
    partition, asked, _ = led()
    append(partition, 5)
    follow(partition, THIRD, 9)
    assert asked.wishes == []
    follow(partition, THIRD, 10)
    assert asked.wishes == [(ME, SECOND, THIRD)]
    assert partition.isr == (ME, SECOND)


def test_the_high_watermark_does_not_pass_one_that_has_been_asked_for() -> None:
    partition, _, _ = led()
    follow(partition, THIRD, 10)
    append(partition, 5)
    # However long ago it was heard of: the controller may have written it into the ISR.
    partition.record_follower_fetch(SECOND, fetch_offset=15, log_start_offset=0, now_ms=NOW + 10 * LAG)
    assert partition.log.high_watermark == 10
    follow(partition, THIRD, 12)
    assert partition.log.high_watermark == 12


def test_what_a_follower_fetched_in_an_earlier_life_counts_no_more() -> None:
    partition, asked, _ = led()
    partition.record_follower_fetch(THIRD, fetch_offset=0, log_start_offset=0, now_ms=NOW, broker_epoch=8)
    with pytest.raises(NotLeaderOrFollowerError):
        partition.record_follower_fetch(
            THIRD, fetch_offset=10, log_start_offset=0, now_ms=NOW, broker_epoch=7
        )
    assert asked.wishes == []
    # One that does not say its epoch is believed, as those of before Fetch 15 are.
    follow(partition, THIRD, 10)
    assert asked.wishes == [ALL]
    assert partition.broker_epoch_of(THIRD) == -1


def test_a_follower_has_to_reach_the_start_of_the_epoch() -> None:
    partition, asked, _ = led(isr=(ME, SECOND))
    append(partition, 10)
    # The one before may have committed up to 20: SECOND, in the ISR, has it all.
    lead(partition, epoch=1, replicas=ALL, isr=(ME, SECOND))
    assert (partition.leader_epoch_start_offset, partition.log.high_watermark) == (20, 10)
    follow(partition, THIRD, 19)
    assert asked.wishes == []
    follow(partition, THIRD, 20)
    assert asked.wishes == [(ME, SECOND, THIRD)]


def test_a_broker_that_is_not_eligible_is_neither_asked_for_nor_waited_for() -> None:
    partition, asked, _ = led(isr=(ME,), replicas=(ME, SECOND))
    partition.is_eligible = lambda broker: broker != SECOND
    follow(partition, SECOND, 10)
    append(partition, 1)
    assert (asked.wishes, partition.log.high_watermark) == ([], 11)
    partition.is_eligible = lambda broker: True
    follow(partition, SECOND, 11)
    assert asked.wishes == [(ME, SECOND)]


def test_a_new_leader_does_not_wait_for_the_dead() -> None:
    partition, _, _ = led(isr=ALL)
    lead(partition, epoch=1, replicas=ALL, isr=(ME, SECOND))
    append(partition, 1)
    follow(partition, SECOND, 11)
    assert partition.log.high_watermark == 11


def test_nothing_is_under_way_when_nobody_will_ask() -> None:
    partition, asked, _ = led()
    asked.taken = False
    follow(partition, THIRD, 10)
    asked.taken = True
    follow(partition, THIRD, 10)
    assert asked.wishes == [ALL, ALL]


# ---------------------------------------------------------------------- going out


def test_one_that_lags_is_asked_to_be_left_out() -> None:
    partition, asked, _ = led(isr=ALL)
    append(partition, 5)
    partition.shrink_isr(NOW + LAG)
    assert asked.wishes == []
    follow(partition, SECOND, 15, NOW + 1)
    partition.shrink_isr(NOW + LAG + 1)
    assert asked.wishes == [(ME, SECOND)]


def test_one_that_has_everything_stays_however_long_it_is_silent() -> None:
    partition, asked, _ = led(isr=ALL)
    partition.shrink_isr(NOW + 100 * LAG)
    assert asked.wishes == []


def test_one_that_is_to_go_is_waited_for_until_the_controller_has_written_it() -> None:
    partition, _, progress = led(isr=ALL)
    append(partition, 5)
    follow(partition, SECOND, 15)
    partition.shrink_isr(NOW + LAG + 1)
    assert partition.isr_state.wanted is not None
    partition.advance_high_watermark(NOW + 10 * LAG)
    assert partition.log.high_watermark == 10
    progress.clear()
    assert partition.take_isr(0, (ME, SECOND), 1, NOW + LAG + 2)
    assert (partition.isr, partition.partition_epoch) == ((ME, SECOND), 1)
    assert partition.log.high_watermark == 15
    assert progress == [partition.key]


def test_whoever_waits_goes_on_once_one_outside_lags() -> None:
    partition, _, progress = led(isr=(ME,), replicas=(ME, SECOND))
    partition.on_isr_wanted = None
    follow(partition, SECOND, 10)
    append(partition, 5)
    progress.clear()
    partition.shrink_isr(NOW + LAG)
    assert (partition.log.high_watermark, progress) == (10, [])
    partition.shrink_isr(NOW + LAG + 1)
    assert (partition.log.high_watermark, progress) == (15, [partition.key])


def test_who_leads_no_longer_asks_for_nothing() -> None:
    partition, asked, _ = led(isr=ALL)
    append(partition, 5)
    partition.make_follower(SECOND, 1, replicas=ALL, isr=ALL, partition_epoch=1)
    partition.shrink_isr(NOW + LAG + 1)
    assert asked.wishes == []


def test_min_insync_replicas_is_compared_with_what_is_written() -> None:
    config = LogConfig(min_insync_replicas=2)
    partition, progress = make(config)
    Asked(partition)
    lead(partition, replicas=(ME, SECOND), isr=(ME,))
    follow(partition, SECOND, 0)
    assert partition.isr_state.wanted == (ME, SECOND)
    with pytest.raises(NotEnoughReplicasError):
        append(partition, acks=-1)
    answer(partition, (ME, SECOND), 1)
    append(partition, acks=-1)
    follow(partition, SECOND, 1)
    progress.clear()
    # Whoever waits with acks=all has to be told of the smaller ISR.
    answer(partition, (ME,), 2)
    assert progress == [partition.key]
    assert partition.committed(1) == (True, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


# ---------------------------------------------------------------------- answers


def test_one_change_at_a_time() -> None:
    partition, asked, _ = led(isr=(ME, SECOND), replicas=(*ALL, 4))
    follow(partition, THIRD, 10)
    follow(partition, 4, 10)
    append(partition, 1)
    partition.shrink_isr(NOW + LAG + 1)
    assert asked.wishes == [ALL]
    answer(partition, ALL, 1)
    follow(partition, 4, 11)
    assert asked.wishes == [ALL, (*ALL, 4)]


def test_an_answer_to_an_earlier_leadership_is_no_news() -> None:
    partition, _, _ = led()
    follow(partition, THIRD, 10)
    lead(partition, epoch=1, replicas=ALL, isr=(ME, SECOND))
    assert partition.isr_state.wanted is None
    assert not answer(partition, ALL, 1, leader_epoch=0)
    assert partition.isr == (ME, SECOND)


def test_an_answer_that_comes_after_the_state_itself_leaves_the_next_wish_alone() -> None:
    partition, asked, _ = led(isr=(ME,))
    follow(partition, SECOND, 10)
    partition.make_leader(0, replicas=ALL, isr=(ME, SECOND), partition_epoch=1, now_ms=NOW)
    follow(partition, THIRD, 10)
    assert asked.wishes == [(ME, SECOND), ALL]
    assert not answer(partition, (ME, SECOND), 1)
    partition.give_isr_up(0, 0)
    append(partition, 5)
    partition.record_follower_fetch(SECOND, fetch_offset=15, log_start_offset=0, now_ms=NOW + 10 * LAG)
    assert partition.isr_state.wanted == ALL
    assert partition.log.high_watermark == 10


def test_the_same_state_once_more_leaves_a_wish_under_way() -> None:
    partition, _, _ = led()
    follow(partition, THIRD, 10)
    lead(partition, epoch=0, replicas=ALL, isr=(ME, SECOND))
    assert partition.isr_state.wanted == ALL
    lead(partition, epoch=1, replicas=ALL, isr=(ME, SECOND))
    assert partition.isr_state.wanted is None


def test_an_older_state_of_the_same_epoch_changes_nothing() -> None:
    partition, _, _ = led()
    follow(partition, THIRD, 10)
    answer(partition, ALL, 1)
    assert not lead(partition, epoch=0, replicas=ALL, isr=(ME, SECOND))
    assert (partition.isr, partition.partition_epoch) == (ALL, 1)


def test_what_is_refused_for_good_may_be_asked_for_again() -> None:
    partition, asked, _ = led()
    follow(partition, THIRD, 10)
    partition.give_isr_up(7, 0)
    partition.give_isr_up(0, 7)
    assert partition.isr_state.wanted == ALL
    partition.give_isr_up(0, 0)
    assert partition.isr_state.maximal == (ME, SECOND)
    follow(partition, THIRD, 10)
    assert asked.wishes == [ALL, ALL]


@pytest.mark.parametrize("taken", [True, False])
def test_an_answer_may_come_at_once(taken: bool) -> None:
    partition, _, _ = led()

    def want(partition: Leadership, isr: tuple[int, ...]) -> bool:
        partition.take_isr(0, isr, 1, NOW)
        return taken

    partition.on_isr_wanted = want
    follow(partition, THIRD, 10)
    assert (partition.isr, partition.isr_state) == (ALL, (ALL, None, ALL))


def test_the_states_of_an_isr() -> None:
    state = committed((ME, SECOND))
    assert state == ((ME, SECOND), None, (ME, SECOND))
    assert state.expanding(THIRD) == ((ME, SECOND), ALL, ALL)
    assert state.shrinking([SECOND]) == ((ME, SECOND), (ME,), (ME, SECOND))
