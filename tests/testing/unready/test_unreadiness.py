"""The numbers of answers that are not ready: by seed, by thing, and for how long."""

from __future__ import annotations

from odradek.testing.unready.ended_transactions import EndedTransactions
from odradek.testing.unready.unreadiness import Subject, Unreadiness

THINGS: list[Subject] = [("topic", f"t{number}") for number in range(40)]


def drawn(seed: int, things: list[Subject], whose: str = "") -> dict[Subject, int]:
    unreadiness = Unreadiness(seed, whose)
    for thing in things:
        unreadiness.appeared(thing)
    return {thing: unreadiness.answered(thing) for thing in things}


def test_a_seed_gives_the_same_numbers_in_any_order() -> None:
    assert drawn(1, THINGS) == drawn(1, THINGS[::-1])
    assert drawn(1, THINGS) != drawn(2, THINGS)
    assert drawn(1, THINGS) != drawn(1, THINGS, "another broker")


def test_the_numbers_are_small_and_some_things_are_there_at_once() -> None:
    assert set(drawn(0, THINGS).values()) == {0, 1, 2, 3}


def test_a_thing_that_was_ready_is_ready_until_it_appears_again() -> None:
    unreadiness = Unreadiness(0)
    thing = next(thing for thing, number in drawn(0, THINGS).items() if number == 2)
    unreadiness.appeared(thing)
    assert [unreadiness.answered(thing) for _ in range(5)] == [2, 1, 0, 0, 0]
    assert unreadiness.is_ready(thing)


def test_a_thing_that_appears_again_is_drawn_anew() -> None:
    unreadiness = Unreadiness(0)
    numbers = set()
    for _ in range(20):
        unreadiness.appeared(("topic", "t"))
        numbers.add(unreadiness.answered(("topic", "t")))
    assert len(numbers) > 1


def test_a_thing_is_made_ready() -> None:
    unreadiness = Unreadiness(0)
    for thing in THINGS:
        unreadiness.appeared(thing)
    waiting = unreadiness.of_kind("topic")
    for thing in waiting:
        unreadiness.make_ready(thing)
    assert waiting
    assert unreadiness.of_kind("topic") == []


def test_offsets_are_unstable_from_the_end_of_their_transaction_on() -> None:
    transactions = EndedTransactions(Unreadiness(0))
    offsets = [("g", "t", index) for index in range(20)]
    transactions.commits("x", offsets)
    transactions.commits("y", [("g", "u", 0)])
    assert not any(map(transactions.is_unstable, offsets))
    transactions.ends("x")
    assert any(map(transactions.is_unstable, offsets))
    assert not transactions.is_unstable(("g", "u", 0))


def test_a_transaction_that_is_refused_to_end_is_open() -> None:
    transactions = EndedTransactions(Unreadiness(0))
    for name in map(str, range(20)):
        transactions.ends(name)
        transactions.has_ended(name, is_refused=True)
        assert not transactions.is_ending(name)


def test_the_last_stable_offset_is_told_late_to_all_or_to_nobody() -> None:
    transactions = EndedTransactions(Unreadiness(0))
    partitions = [("t", index) for index in range(20)]
    for partition in partitions:
        transactions.writes("x", partition, 5)
        transactions.writes("x", partition, 7)
    transactions.ends("x")
    transactions.has_ended("x", is_refused=False)
    told = {partition: transactions.last_stable_offset(partition, 6) for partition in partitions}
    assert set(told.values()) == {None, 5}
    # Who fetches what was there before is told all, and the others are from then on.
    assert all(transactions.last_stable_offset(partition, 4) is None for partition in partitions)
    assert all(transactions.last_stable_offset(partition, 5) is None for partition in partitions)
    transactions.ends("x")
    assert all(transactions.last_stable_offset(partition) is None for partition in partitions)


def test_offsets_of_a_producer_that_another_one_replaces_are_forgotten() -> None:
    transactions = EndedTransactions(Unreadiness(0))
    offsets = [("g", "t", index) for index in range(20)]
    transactions.commits("x", offsets)
    transactions.forget("x")
    transactions.ends("x")
    assert not any(map(transactions.is_unstable, offsets))
