"""Exactly once, against a model: drivers, tasks and brokers whose every step may be the last, in any order.

Tasks and drivers run the real `write_task`, `commit_batch` and `abort_batch`, each in a thread of its own, of
which one moves at a time; which one, a seeded generator says. Between their steps they may be killed, before
or after the step took effect; new runs of the query begin while those before still live (zombies); second
attempts of a task run beside the first; and where there is no two-phase commit, transactions time out.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.errors import OdradekError
from odradek.spark.errors import FencedDriverError, WriteError
from odradek.spark.writing.decisions import Decision, Report, Transaction
from odradek.spark.writing.exactly_once import Batch, abort_batch, commit_batch, write_task
from odradek.spark.writing.task_transaction import Slots
from waiting import WITHIN_S, joined

NAME = "q"


class Killed(BaseException):
    """The actor's process ends here."""


class Actor:
    """A process: a thread that moves only when it is told to."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._turn = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self.doomed = False
        self.done = False
        self._thread = threading.Thread(target=self._run, args=(body,), daemon=True)
        self._thread.start()

    def _run(self, body: Callable[[], None]) -> None:
        self._turn.acquire()
        try:
            if not self.doomed:
                body()
        except Killed:
            pass
        finally:
            self.done = True
            self._back.release()

    def move(self) -> None:
        """Let it go on to its next step."""
        self._turn.release()
        assert self._back.acquire(timeout=WITHIN_S), "an actor keeps its turn"
        if self.done:
            joined(self._thread)

    def step(self) -> None:
        """Called by the actor: somebody else's turn."""
        self._back.release()
        self._turn.acquire()
        if self.doomed:
            raise Killed


class Rows(list[int]):
    """As an Arrow batch."""

    @property
    def num_rows(self) -> int:
        return len(self)


class World:
    """The brokers: transactions, the log that read_committed readers see, and the decision with its owner."""

    def __init__(self) -> None:
        self.epochs: Counter[str] = Counter()
        self.open: dict[Transaction, list[int]] = {}
        self.ended: dict[Transaction, bool] = {}
        self.log: Counter[int] = Counter()
        self.decision: Decision | None = None
        self.owner = 0

    def begin(self, transactional_id: str) -> Transaction:
        for transaction in [t for t in self.open if t.transactional_id == transactional_id]:
            self.finish(transaction, commit=False)
        self.epochs[transactional_id] += 1
        transaction = Transaction(transactional_id, 1, self.epochs[transactional_id])
        self.open[transaction] = []
        return transaction

    def finish(self, transaction: Transaction, *, commit: bool) -> bool:
        if transaction in self.open:
            rows = self.open.pop(transaction)
            self.ended[transaction] = commit
            if commit:
                self.log.update(rows)
        current = self.epochs[transaction.transactional_id] == transaction.producer_epoch
        return current and self.ended[transaction] == commit


class View:
    """A `Ledger`, and what begins transactions, as one process has them: each call is two steps."""

    def __init__(self, world: World, step: Callable[[], None]) -> None:
        self._world = world
        self._step = step
        self._owner = -1
        self._known: Decision | None = None

    def _stepping(self, effect: Callable[[], Any]) -> Any:
        self._step()
        result = effect()
        self._step()
        return result

    def read_decision(self, name: str) -> Decision | None:
        found: Decision | None = self._stepping(lambda: self._world.decision)
        return found

    def take_over(self, name: str, *, anew: bool) -> Decision | None:
        if self._owner >= 0 and not anew:
            return self._known

        def effect() -> Decision | None:
            self._world.owner += 1
            self._owner = self._world.owner
            self._known = self._world.decision
            return self._known

        found: Decision | None = self._stepping(effect)
        return found

    def decide(self, name: str, decision: Decision) -> None:
        def effect() -> None:
            if self._owner != self._world.owner:
                raise FencedDriverError("fenced")
            self._known = self._world.decision = decision

        self._stepping(effect)

    def end(self, transaction: Transaction, *, commit: bool) -> bool:
        return bool(self._stepping(lambda: self._world.finish(transaction, commit=commit)))

    def open_transactions(self, name: str) -> list[Transaction]:
        return list(self._stepping(lambda: list(self._world.open)))

    def unseen_s(self, name: str) -> float:
        """Some batches are quick, and some are not: as their number and owner have it."""
        return 60 if self._world.owner % 3 == 0 else 0

    def begin(self, transactional_id: str) -> "Writing":
        return Writing(
            self._world, self._stepping, self._stepping(lambda: self._world.begin(transactional_id))
        )


class Writing:
    """An `OpenTransaction`."""

    def __init__(self, world: World, stepping: Callable[..., Any], transaction: Transaction) -> None:
        self._world, self._stepping, self._transaction = world, stepping, transaction

    def write(self, rows: Any) -> None:
        def effect() -> None:
            if self._transaction not in self._world.open:
                raise OdradekError("fenced")
            self._world.open[self._transaction] += rows

        self._stepping(effect)

    def prepare(self) -> Transaction:
        return self._transaction

    def abort(self) -> None:
        self._stepping(lambda: self._world.finish(self._transaction, commit=False))


class Query:
    """Spark: runs batches in order, notes those that are committed, and never forgets what a batch has."""

    def __init__(
        self, random_: random.Random, world: World, batches: list[list[int]], *, resplit: bool
    ) -> None:
        self.random = random_
        self.world = world
        self.batches = batches
        self.resplit = resplit
        self.tasks = random_.randint(1, 3)
        self.committed = -1
        self.actors: list[Actor] = []
        self.runs = 0
        self.workers = [Slots(f"w{number}") for number in range(4)]
        self.busy: set[int] = set()
        self.errors: list[str] = []

    def spawn(self, body: Callable[[Callable[[], None]], None]) -> Actor:
        """Start a process; the body gets what it must call between steps."""
        actor = Actor(lambda: body(lambda: actor.step()))
        self.actors.append(actor)
        return actor

    def start(self) -> Actor:
        self.runs += 1
        run = f"run{self.runs}"
        return self.spawn(lambda step: self._drive(run, step))

    def _drive(self, run: str, step: Callable[[], None]) -> None:
        number = self.committed + 1
        ledger = View(self.world, step)
        while number < len(self.batches):
            batch = Batch(NAME, number, run)
            tasks = self.random.randint(1, 3) if self.resplit else self.tasks
            reports: list[Report | None] = [None] * tasks
            failures = 0
            attempts = [0] * tasks
            waiting: list[Actor] = []
            while None in reports:
                waiting = [one for one in waiting if not one.done]
                if not waiting or self.random.random() < 0.02:
                    # At first all; then those that failed; now and then a second one beside the first.
                    for task in [t for t in range(tasks) if reports[t] is None]:
                        if attempts[task] >= 4:
                            failures += 1
                            continue
                        waiting.append(self._attempt(batch, task, tasks, attempts[task], reports))
                        attempts[task] += 1
                if failures:
                    break
                step()
            done = [report for report in reports if report is not None]
            try:
                if failures:
                    raise OdradekError("a task failed too often")
                commit_batch(ledger, batch, done)
            except OdradekError as problem:
                self.errors.append(str(problem))
                abort_batch(View(self.world, step), batch, done)
                return
            self.committed = max(self.committed, number)
            number += 1

    def _attempt(
        self, batch: Batch, task: int, tasks: int, attempt: int, reports: list[Report | None]
    ) -> Actor:
        def body(step: Callable[[], None]) -> None:
            worker = next((number for number in range(4) if number not in self.busy), None)
            if worker is None:
                return
            self.busy.add(worker)
            view = View(self.world, step)
            try:
                rows = self.batches[batch.number][task::tasks]
                report = write_task(
                    view,
                    batch,
                    task,
                    attempt,
                    self._pieces(rows),
                    lambda decided: view.begin(self.workers[worker].take(NAME, batch.number, decided)),
                )
                if reports[task] is None:
                    reports[task] = report
            except OdradekError:
                pass
            except Killed:
                self.workers[worker] = Slots(f"w{worker}-{self.random.random()}")
                raise
            finally:
                self.busy.discard(worker)

        return self.spawn(body)

    @staticmethod
    def _pieces(rows: list[int]) -> Iterator[Rows]:
        for start in range(0, len(rows), 2):
            yield Rows(rows[start : start + 2])


def live(seed: int, *, two_phase: bool, kills: float, zombies: float) -> tuple[Query, World, int]:
    """One life of a query, to its end. Returns it, the world, and how many processes were killed."""
    chance = random.Random(seed)
    world = World()
    numbers = iter(range(1000))
    batches = [[next(numbers) for _ in range(chance.randint(0, 8))] for _ in range(chance.randint(1, 4))]
    query = Query(chance, world, batches, resplit=two_phase)
    driver = query.start()
    killed = steps = 0
    while query.committed < len(batches) - 1:
        steps += 1
        quiet = steps > 4_000
        assert steps < 20_000, "the query does not get on"
        if driver.done or (not quiet and chance.random() < zombies):
            driver = query.start()
        alive = [actor for actor in query.actors if not actor.done]
        actor = chance.choice(alive)
        if not quiet and chance.random() < kills:
            actor.doomed = True
            killed += 1
        if not two_phase and not quiet and world.open and chance.random() < 0.01:
            world.finish(chance.choice(list(world.open)), commit=False)
        if kills and not quiet and chance.random() < 0.01:
            # A task that found a decision in the making for too long has fenced whoever makes it.
            world.owner += 1
        actor.move()
        twice = [row for row, count in world.log.items() if count > 1]
        assert not twice, f"rows {twice} were committed twice"
    for actor in query.actors:
        # What is still alive is late, and may do what it likes.
        while not actor.done:
            actor.move()
    return query, world, killed


@pytest.mark.parametrize("two_phase", [True, False])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
# A driver goes on to the next batch while another runs the one before again.
@example(seed=286)
@example(seed=333)
@example(seed=706)
@example(seed=997)
def test_every_row_is_there_once_whatever_is_killed(seed: int, two_phase: bool) -> None:
    query, world, _ = live(seed, two_phase=two_phase, kills=0.02, zombies=0.01)
    assert world.log == Counter(row for batch in query.batches for row in batch), query.errors


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_without_kills_nothing_is_left_open_and_nothing_runs_twice(seed: int) -> None:
    query, world, _ = live(seed, two_phase=True, kills=0, zombies=0)
    assert world.log == Counter(row for batch in query.batches for row in batch)
    assert query.runs == 1
    assert not query.errors


def test_what_the_dead_left_open_ends_though_the_batch_was_decided_before() -> None:
    """The last batch of a query, whose driver died right after its decision: nobody comes later to look."""

    class Dying(View):
        def decide(self, name: str, decision: Decision) -> None:
            super().decide(name, decision)
            raise Killed

    def wrote(run: str, worker: str) -> tuple[Batch, list[Report]]:
        batch, view = Batch(NAME, 0, run), View(world, lambda: None)
        rows = iter([Rows([1, 2])])
        return batch, [write_task(view, batch, 0, 0, rows, lambda _: view.begin(f"{NAME}:{worker}:0"))]

    world = World()
    wrote("run1", "dead")
    with pytest.raises(Killed):
        commit_batch(Dying(world, lambda: None), *wrote("run2", "w2"))
    assert len(world.open) == 2
    commit_batch(View(world, lambda: None), *wrote("run3", "w3"))
    assert world.log == Counter([1, 2])
    assert not world.open


def test_the_transactions_of_a_later_batch_are_left_alone_by_a_driver_that_comes_too_late() -> None:
    world, decided = World(), Decision(1, "run2", 1)
    ours = View(world, lambda: None)
    ours.begin(f"{NAME}:w2:0")
    (later,) = world.open
    world.decision = decided
    with pytest.raises(WriteError, match="comes after"):
        commit_batch(ours, Batch(NAME, 0, "run1"), [Report(0, 0, 0)])
    assert list(world.open) == [later]


def test_the_model_kills_and_recovers() -> None:
    """So that the tests above mean something."""
    outcomes = [live(seed, two_phase=False, kills=0.03, zombies=0.01) for seed in range(40)]
    assert sum(killed for _, _, killed in outcomes) > 100
    assert sum(query.runs for query, _, _ in outcomes) > 80
    said = " ".join(error for query, _, _ in outcomes for error in query.errors)
    assert "timed out" in said
    assert "fenced" in said
