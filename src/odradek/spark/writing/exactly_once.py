"""Exactly once, step by step: what a task does, and what the driver does, over a `Ledger`.

Every step may be the last one of its process; `tests/spark/writing/test_exactly_once_model.py` ends them at
each.
What is decided, and why it is right, stands in `decisions`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.errors import OdradekError
from odradek.spark.errors import FencedDriverError, WriteError
from odradek.spark.writing.decisions import (
    Decision,
    Plan,
    Report,
    Transaction,
    judge,
    judge_failure,
    task_begins,
    with_left,
)

logger = logging.getLogger(__name__)

NO_BATCH = -1
"""Before the first."""

LOOK_EVERY_S = 10
"""Seconds after which the driver looks for transactions that nobody will end, even if all went well: a
speculative attempt that Spark killed, for one, is in no report, and holds up readers until it is found."""


class Ledger(Protocol):
    """The memory of the brokers; `coordinators.Coordinators` asks them."""

    def read_decision(self, name: str) -> Decision | None: ...

    def take_over(self, name: str, *, anew: bool) -> Decision | None: ...

    def decide(self, name: str, decision: Decision) -> None: ...

    def end(self, transaction: Transaction, *, commit: bool) -> bool: ...

    def open_transactions(self, name: str) -> list[Transaction]: ...

    def unseen_s(self, name: str) -> float:
        """Seconds since this process last asked for the open transactions."""
        ...


class OpenTransaction(Protocol):
    """A transaction that a task writes in."""

    def write(self, rows: Any) -> None: ...

    def prepare(self) -> Transaction:
        """All rows are in the logs, nothing is added any more."""
        ...

    def abort(self) -> None: ...


@dataclass(frozen=True)
class Batch:
    """A batch that is written exactly once.

    Attributes:
        name: of the query, the same in all its runs; all its transactional ids begin so.
        number: of the batch, rising.
        run: of the query.
        remembered: whether there may be another run of it. A batch write without a name has none.
    """

    name: str
    number: int
    run: str
    remembered: bool = True


def write_task(
    ledger: Ledger,
    batch: Batch,
    task: int,
    attempt: int,
    rows: Iterator[Any],
    begin: Callable[[int], OpenTransaction],
) -> Report:
    """Write one task's rows (Arrow batches) in a transaction of their own, and leave it open for the driver.

    `begin` is given the newest batch that was decided on (`NO_BATCH` for none).

    Where the batch was decided on before, its rows are read and left out: what is before the sink may have to
    be read to its end (state stores do).
    """
    decision = ledger.read_decision(batch.name) if batch.remembered else None
    try:
        to_do = task_begins(decision, batch.number, task)
    except ValueError as problem:
        raise WriteError(str(problem)) from problem
    replaces = None
    if to_do.decided:
        part = to_do.complete
        if part is None or ledger.end(part.transaction, commit=True):
            return Report(task, attempt, sum(some.num_rows for some in rows), found_decided=True)
        logger.warning(
            "batch %d: the transaction of task %d has timed out; writing its rows again", batch.number, task
        )
        replaces = part.transaction
    count = 0
    transaction: OpenTransaction | None = None
    try:
        for some in rows:
            if some.num_rows:
                transaction = transaction or begin(NO_BATCH if decision is None else decision.batch)
                transaction.write(some)
                count += some.num_rows
        prepared = None if transaction is None else transaction.prepare()
    except BaseException:
        if transaction is not None:
            transaction.abort()
        raise
    return Report(task, attempt, count, prepared, found_decided=to_do.decided, replaces=replaces)


def commit_batch(ledger: Ledger, batch: Batch, reports: Sequence[Report]) -> None:
    """All tasks have succeeded: decide that these are the batch, and commit them.

    Raises:
        WriteError: it may not be committed; after this, and after any crash, the batch is to be run again.
    """
    if not batch.remembered:
        _commit_unnamed(ledger, reports)
        # Nobody comes after this write to end what its attempts have left.
        _abort(ledger, ledger.open_transactions(batch.name))
        return
    # What tasks have found is newer than what this process may remember.
    anew = any(report.found_decided for report in reports)
    try:
        plan = _decide(ledger, batch, reports, anew=anew)
    except FencedDriverError:
        # Another process of this driver, perhaps, which committed the batch before. Its decisions count.
        plan = _decide(ledger, batch, reports, anew=True)
    gone = [transaction for transaction in plan.commit if not ledger.end(transaction, commit=True)]
    _abort(ledger, plan.abort)
    if plan.error is not None:
        raise WriteError(plan.error)
    if gone:
        raise WriteError(
            f"batch {batch.number}: {len(gone)} of {len(plan.commit)} transactions had timed out before they "
            "could be committed. The batch has to be run again, and will write what is missing; a larger "
            "kafka.transaction.timeout.ms, or brokers with two-phase commit (KIP-939), avoid this"
        )


def _decide(ledger: Ledger, batch: Batch, reports: Sequence[Report], *, anew: bool) -> Plan:
    """Write the decision, if one is due. Returns the plan, of which the rest is to be done."""
    before = ledger.take_over(batch.name, anew=anew)
    plan = judge(before, batch.number, batch.run, reports)
    if plan.decide is not None and _worth_a_look(ledger, before, batch, reports):
        # Nobody decided on this batch so far, so whatever is open belongs to it or to none.
        plan = with_left(plan, ledger.open_transactions(batch.name))
    if plan.decide is not None:
        ledger.decide(batch.name, plan.decide)
    return plan


def _worth_a_look(ledger: Ledger, before: Decision | None, batch: Batch, reports: Sequence[Report]) -> bool:
    """Return whether to look for what dead tasks left open: after a restart, a failure, and now and then."""
    return (
        before is None
        or before.run != batch.run
        or any(report.attempt for report in reports)
        or ledger.unseen_s(batch.name) >= LOOK_EVERY_S
    )


def abort_batch(ledger: Ledger, batch: Batch, reports: Iterable[Report]) -> None:
    """A task or `commit_batch` failed: abort what was not decided on, and commit what was."""
    reports = list(reports)
    before = ledger.take_over(batch.name, anew=True) if batch.remembered else None
    plan = judge_failure(before, batch.number, reports)
    for transaction in plan.commit:
        ledger.end(transaction, commit=True)
    _abort(ledger, plan.abort)


def _commit_unnamed(ledger: Ledger, reports: Sequence[Report]) -> None:
    transactions = [report.transaction for report in reports if report.transaction is not None]
    gone = [transaction for transaction in transactions if not ledger.end(transaction, commit=True)]
    if gone:
        raise WriteError(
            f"{len(gone)} of {len(transactions)} transactions had timed out before they could be committed: "
            "the rows of the others are in the log. With the option writeId, the write can be run again and "
            "will write what is missing"
        )


def _abort(ledger: Ledger, transactions: Iterable[Transaction]) -> None:
    for transaction in transactions:
        try:
            ledger.end(transaction, commit=False)
        except OdradekError as problem:
            logger.warning("transaction %s was not aborted: %s", transaction.transactional_id, problem)
