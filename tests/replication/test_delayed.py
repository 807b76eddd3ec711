"""Purgatory: each operation ends exactly once, whichever way."""

from __future__ import annotations

import random
import weakref
from dataclasses import dataclass, field

import pytest

from odradek.replication.delayed import Purgatory
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from seeds import each_seed


@dataclass
class Waiter:
    """Completes when `ready`; counts what happened to it."""

    ready: bool = False
    tries: int = 0
    completions: int = 0
    timeouts: int = 0
    log: list[str] = field(default_factory=list)

    def try_complete(self) -> bool:
        self.tries += 1
        if self.ready:
            self.completions += 1
        return self.ready

    def on_timeout(self) -> None:
        self.timeouts += 1


@pytest.fixture
def timers() -> ManualTimers:
    return ManualTimers(ManualClock())


def test_what_can_complete_never_waits(timers: ManualTimers) -> None:
    purgatory, waiter = Purgatory(timers), Waiter(ready=True)
    operation = purgatory.watch([1], waiter.try_complete, waiter.on_timeout, 100)
    assert operation.done
    assert (len(purgatory), purgatory.watched(1), timers.pending) == (0, 0, 0)
    timers.advance(1000)
    assert (waiter.completions, waiter.timeouts) == (1, 0)


def test_a_check_of_any_key_completes_and_forgets_all_keys(timers: ManualTimers) -> None:
    purgatory, waiter = Purgatory(timers), Waiter()
    purgatory.watch([("t", 0), ("t", 1)], waiter.try_complete, waiter.on_timeout, 100)
    assert purgatory.check(("t", 1)) == 0
    assert len(purgatory) == 1
    waiter.ready = True
    assert purgatory.check(("t", 2)) == 0
    assert purgatory.check(("t", 1)) == 1
    assert purgatory.check(("t", 0)) == 0
    assert (len(purgatory), purgatory.watched(("t", 0)), timers.pending) == (0, 0, 0)
    assert waiter.tries == 3


def test_time_runs_out_once(timers: ManualTimers) -> None:
    purgatory, waiter = Purgatory(timers), Waiter()
    purgatory.watch([1], waiter.try_complete, waiter.on_timeout, 100)
    timers.advance(99.9)
    assert waiter.timeouts == 0
    timers.advance(0.1)
    assert waiter.timeouts == 1
    waiter.ready = True
    assert purgatory.check(1) == 0
    assert len(purgatory) == 0


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_to_wait_ends_at_once(timers: ManualTimers, timeout_ms: int) -> None:
    purgatory, waiter = Purgatory(timers), Waiter()
    assert purgatory.watch([1], waiter.try_complete, waiter.on_timeout, timeout_ms).done
    assert (waiter.tries, waiter.timeouts, len(purgatory)) == (1, 1, 0)


def test_without_keys_it_waits_for_its_time(timers: ManualTimers) -> None:
    purgatory, waiter = Purgatory(timers), Waiter()
    purgatory.watch([], waiter.try_complete, waiter.on_timeout, 10)
    assert len(purgatory) == 1
    purgatory.expire_all()
    assert (waiter.timeouts, len(purgatory), timers.pending) == (1, 0, 0)


def test_cancel_calls_nothing(timers: ManualTimers) -> None:
    purgatory, waiter = Purgatory(timers), Waiter()
    operation = purgatory.watch([1], waiter.try_complete, waiter.on_timeout, 100)
    operation.cancel()
    operation.cancel()
    timers.advance(1000)
    assert (waiter.tries, waiter.timeouts, len(purgatory), timers.pending) == (1, 0, 0, 0)


def test_a_completion_that_checks_its_own_key_does_not_recurse(timers: ManualTimers) -> None:
    purgatory = Purgatory(timers)
    calls = []

    def try_complete() -> bool:
        calls.append(1)
        if len(calls) == 1:
            return False
        assert purgatory.check(1) == 0
        return True

    purgatory.watch([1], try_complete, lambda: None, 100)
    assert purgatory.check(1) == 1
    assert len(calls) == 2


def test_a_broken_operation_is_dropped_and_others_are_served(timers: ManualTimers) -> None:
    failures: list[Exception] = []
    purgatory = Purgatory(timers, on_error=lambda _op, error: failures.append(error))
    state = {"broken": False}

    def breaks() -> bool:
        if state["broken"]:
            raise RuntimeError("broken")
        return False

    waiter = Waiter()
    purgatory.watch([1], breaks, lambda: None, 100)
    purgatory.watch([1], waiter.try_complete, waiter.on_timeout, 100)
    state["broken"] = waiter.ready = True
    assert purgatory.check(1) == 1
    assert [str(error) for error in failures] == ["broken"]
    assert (len(purgatory), timers.pending) == (0, 0)


def test_without_an_error_hook_the_checker_learns_of_it_after_everyone_was_served(
    timers: ManualTimers,
) -> None:
    purgatory, waiter, state = Purgatory(timers), Waiter(), {"broken": False}

    def breaks() -> bool:
        if state["broken"]:
            raise RuntimeError("broken")
        return False

    purgatory.watch([1], breaks, lambda: None, 100)
    purgatory.watch([1], waiter.try_complete, waiter.on_timeout, 100)
    state["broken"] = waiter.ready = True
    with pytest.raises(RuntimeError, match="broken"):
        purgatory.check(1)
    assert waiter.completions == 1


@each_seed(20)
def test_any_history_ends_each_operation_at_most_once(seed: int) -> None:
    rng = random.Random(seed)
    timers = ManualTimers(ManualClock())
    purgatory = Purgatory(timers)
    waiters: list[Waiter] = []
    operations = []
    for _ in range(300):
        action = rng.random()
        if action < 0.4:
            waiter = Waiter(ready=rng.random() < 0.1)
            keys = rng.sample(range(8), rng.randrange(4))
            operation = purgatory.watch(keys, waiter.try_complete, waiter.on_timeout, rng.randrange(50))
            waiters.append(waiter)
            operations.append(operation)
        elif action < 0.6 and waiters:
            rng.choice(waiters).ready = True
        elif action < 0.8:
            purgatory.check(rng.randrange(8))
        elif action < 0.85 and operations:
            rng.choice(operations).cancel()
        else:
            timers.advance(rng.randrange(20))
        assert len(purgatory) == sum(not operation.done for operation in operations)
        assert timers.pending == len(purgatory)
    purgatory.expire_all()
    assert all(operation.done for operation in operations)
    assert all(w.completions + w.timeouts <= 1 for w in waiters)
    assert all(purgatory.watched(key) == 0 for key in range(8))


@pytest.mark.parametrize("end", ["check", "timeout", "cancel", "at once"])
def test_what_has_ended_lets_go_of_who_waited(timers: ManualTimers, end: str) -> None:
    purgatory = Purgatory(timers)
    waiter = Waiter(ready=end == "at once")
    gone = weakref.ref(waiter)
    operation = purgatory.watch(["k"], waiter.try_complete, waiter.on_timeout, 100)
    if end == "check":
        waiter.ready = True
        assert purgatory.check("k") == 1
    elif end == "timeout":
        timers.advance(100)
        assert waiter.timeouts == 1
    elif end == "cancel":
        operation.cancel()
    assert operation.done
    del waiter
    assert gone() is None
