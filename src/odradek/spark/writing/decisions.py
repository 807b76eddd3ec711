"""Exactly once: what a batch of a query comes to, decided from what tasks wrote and what the log remembers.

Pure: no sockets, no Spark. `docs/exactly_once.md` says why it holds; here are the rules.

- Every task attempt writes in a transaction of its own, which nobody but the driver commits.
- A *decision* names the transactions that are the batch. It is written once, durably, before the first of
  them is committed, and by one driver only: whoever takes the query over fences the one before.
- Until there is a decision, every transaction of a batch may be aborted. Once there is one, the transactions
  that it names may only be committed, and no other transaction of that batch ever is.
- A transaction that a decision names and that is gone (it timed out; two-phase commit excludes that) is
  replaced by one with the same rows, under a new decision for the same batch.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from odradek.errors import OdradekError

_FORM = 1
_CHUNK_CHARACTERS = 3500
"""Of a commit's metadata, of which brokers take 4096 by default (`offset.metadata.max.bytes`)."""


class Transaction(NamedTuple):
    """One transaction: an id's next one has another epoch or producer id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class Participant:
    """A transaction and what is in it: the rows of one task."""

    task: int
    transaction: Transaction
    rows: int


@dataclass(frozen=True)
class Decision:
    """Batch `batch` is these transactions.

    Attributes:
        run: which run of the query decided.
        tasks: how many tasks the batch had, those without rows included.
        left: transactions that the dead had left open before it was decided, and which nobody else can name:
            whoever completes the batch aborts them, as this query may have no other batch for long.
    """

    batch: int
    run: str
    tasks: int
    participants: tuple[Participant, ...] = ()
    left: tuple[Transaction, ...] = ()

    def of_task(self, task: int) -> Participant | None:
        """The part of a task, None if it had no rows."""
        return next((part for part in self.participants if part.task == task), None)


class UnreadableDecisionError(OdradekError):
    """Something else stands where a decision should stand."""


@dataclass(frozen=True)
class Report:
    """The report of a task's attempt to the driver.

    Attributes:
        task: the partition's number.
        attempt: which attempt of the task, from 0.
        rows: how many it wrote, or left out because they had been decided on before.
        transaction: holds the rows; None if it wrote none.
        found_decided: the batch was decided before this task began.
        replaces: the transaction of the decision that this one stands for, because that one is gone.
    """

    task: int
    attempt: int
    rows: int
    transaction: Transaction | None = None
    found_decided: bool = False
    replaces: Transaction | None = None


@dataclass(frozen=True)
class Plan:
    """The steps of the driver, in this order; `error` is raised when all else is done."""

    decide: Decision | None = None
    commit: tuple[Transaction, ...] = ()
    abort: tuple[Transaction, ...] = ()
    error: str | None = None


class ToDo(NamedTuple):
    """The steps of a task before its rows.

    `decided`: its rows belong to a batch that was decided on. `complete`: then commit this, and write the
    rows only if it is gone.
    """

    decided: bool
    complete: Participant | None = None


def task_begins(decision: Decision | None, batch: int, task: int) -> ToDo:
    """Return the steps of a task of `batch`, by the newest decision.

    Raises:
        ValueError: the batch is older than the decision.
    """
    if decision is None or decision.batch < batch:
        return ToDo(decided=False)
    if decision.batch > batch:
        raise ValueError(passed(decision, batch))
    return ToDo(decided=True, complete=decision.of_task(task))


def passed(decision: Decision, batch: int) -> str:
    """Says that a batch comes too late."""
    return (
        f"batch {batch} comes after batch {decision.batch} of the same query was written. If its checkpoint "
        "was put back to an earlier state, start with a new checkpoint: what was written since cannot be "
        "told apart"
    )


def judge(decision: Decision | None, batch: int, run: str, reports: Sequence[Report]) -> Plan:
    """Return the driver's steps for a batch whose tasks have all succeeded.

    Args:
        decision: the newest one, read after all other drivers of this query were fenced.
        reports: one for each task.
    """
    wrote = tuple(report.transaction for report in reports if report.transaction is not None)
    if decision is not None and decision.batch > batch:
        return Plan(abort=wrote, error=passed(decision, batch))
    if decision is not None and decision.batch == batch:
        return _again(decision, run, reports)
    if any(report.found_decided for report in reports):
        # Decisions are never taken back, so it has expired, or was deleted.
        return Plan(abort=wrote, error=f"the decision on batch {batch} was there and is gone")
    parts = tuple(
        Participant(report.task, report.transaction, report.rows)
        for report in reports
        if report.transaction is not None
    )
    return Plan(decide=Decision(batch, run, len(reports), parts), commit=wrote)


def _again(decision: Decision, run: str, reports: Sequence[Report]) -> Plan:
    """The batch was decided on before: complete it, with what is gone written anew."""
    new = {
        report.replaces: Participant(report.task, report.transaction, report.rows)
        for report in reports
        if report.replaces is not None and report.transaction is not None
    }
    parts = tuple(new.get(part.transaction, part) for part in decision.participants)
    kept = {part.transaction for part in parts}
    wrote = tuple(report.transaction for report in reports if report.transaction is not None)
    rest = tuple(transaction for transaction in wrote if transaction not in kept)
    rest = (*rest, *decision.left)
    if parts == decision.participants:
        return Plan(commit=_transactions(parts), abort=rest)
    # Those of the decision that are left are committed whatever happens: nothing else may become of them.
    left = tuple(part.transaction for part in decision.participants if part.transaction not in new)
    changed = _changed(decision, new, reports)
    if changed:
        return Plan(commit=left, abort=(*wrote, *decision.left), error=changed)
    return Plan(
        decide=Decision(decision.batch, run, decision.tasks, parts, decision.left),
        commit=_transactions(parts),
        abort=rest,
    )


def with_left(plan: Plan, open_before: Iterable[Transaction]) -> Plan:
    """The plan, with what was found open before its decision is written, and is no part of it, aborted.

    The decision names that, too.
    """
    decision = plan.decide
    if decision is None:
        return plan
    named = {*_transactions(decision.participants), *decision.left}
    left = (*decision.left, *(transaction for transaction in open_before if transaction not in named))
    abort = tuple(dict.fromkeys((*plan.abort, *left)))
    return replace(plan, decide=replace(decision, left=left), abort=abort)


def _changed(
    decision: Decision, new: Mapping[Transaction, Participant], reports: Sequence[Report]
) -> str | None:
    """Return why the rows of this run's tasks cannot stand for those of the decision; None if they can."""
    difference = None
    if len(reports) != decision.tasks:
        difference = f"{len(reports)} tasks instead of {decision.tasks}"
    for part in decision.participants:
        stand_in = new.get(part.transaction)
        if (
            stand_in is not None
            and difference is None
            and (stand_in.task, stand_in.rows) != (part.task, part.rows)
        ):
            difference = f"{stand_in.rows} rows in task {part.task} instead of {part.rows}"
    if difference is None:
        return None
    return (
        f"batch {decision.batch} is partly committed and partly timed out, and what is run again is not the "
        f"same: {difference}. Run it with the same number of partitions as before"
    )


def judge_failure(decision: Decision | None, batch: int, reports: Iterable[Report | None]) -> Plan:
    """Return the driver's steps for a batch of which a task, or its own commit, failed."""
    wrote = tuple(r.transaction for r in reports if r is not None and r.transaction is not None)
    if decision is None or decision.batch != batch:
        return Plan(abort=wrote)
    named = _transactions(decision.participants)
    return Plan(commit=named, abort=(*(t for t in wrote if t not in named), *decision.left))


def _transactions(parts: Iterable[Participant]) -> tuple[Transaction, ...]:
    return tuple(part.transaction for part in parts)


# How it is stored: text beside committed offsets, which are the batch's number.


@dataclass(frozen=True)
class Chunk:
    """A piece of a stored decision: an offset (the batch) and its metadata."""

    batch: int
    text: str


@dataclass
class _Piece:
    parts: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    size: int = 0


def to_chunks(decision: Decision, name: str) -> list[Chunk]:
    """The decision on a batch of the query `name`, each text within what a commit's metadata may hold."""
    pieces = [_Piece()]

    def room_for(fields: list[int | str]) -> tuple[_Piece, str]:
        text = json.dumps(fields, separators=(",", ":"))
        if pieces[-1].size + len(text) > _CHUNK_CHARACTERS:
            pieces.append(_Piece())
        pieces[-1].size += len(text) + 1
        return pieces[-1], text

    for part in decision.participants:
        suffix, *rest = _stored(part.transaction, name)
        piece, text = room_for([part.task, suffix, *rest, part.rows])
        piece.parts.append(text)
    for transaction in decision.left:
        piece, text = room_for(_stored(transaction, name))
        piece.left.append(text)
    return [
        Chunk(
            decision.batch,
            f'{{"v":{_FORM},"run":{json.dumps(decision.run)},"tasks":{decision.tasks},'
            f'"chunks":{len(pieces)},"parts":[{",".join(piece.parts)}],"left":[{",".join(piece.left)}]}}',
        )
        for piece in pieces
    ]


def _stored(transaction: Transaction, name: str) -> list[int | str]:
    suffix = transaction.transactional_id.removeprefix(name)
    return [suffix, transaction.producer_id, transaction.producer_epoch]


def chunk_count(first: Chunk) -> int:
    """Of how many pieces the decision is that begins so.

    Raises:
        UnreadableDecisionError: it is no decision of this sink.
    """
    return _loaded(first).chunks


def from_chunks(chunks: Sequence[Chunk], name: str) -> Decision | None:
    """The decision; None if the pieces are not of one (one of them is being replaced right now).

    Raises:
        UnreadableDecisionError: a piece is of no decision of this sink.
    """
    loaded = [_loaded(chunk) for chunk in chunks]
    run, tasks, count = loaded[0][:3]
    if len(chunks) != count or any(
        chunk.batch != chunks[0].batch or piece[:3] != (run, tasks, count)
        for chunk, piece in zip(chunks, loaded, strict=True)
    ):
        return None
    parts = tuple(
        Participant(task, Transaction(name + suffix, producer_id, epoch), rows)
        for piece in loaded
        for task, suffix, producer_id, epoch, rows in piece.parts
    )
    left = tuple(
        Transaction(name + suffix, producer_id, epoch)
        for piece in loaded
        for suffix, producer_id, epoch in piece.left
    )
    return Decision(chunks[0].batch, run, tasks, parts, left)


class _Loaded(NamedTuple):
    """A chunk's content."""

    run: str
    tasks: int
    chunks: int
    parts: list[tuple[int, str, int, int, int]]
    left: list[tuple[str, int, int]]


def _loaded(chunk: Chunk) -> _Loaded:
    try:
        chunk_json = json.loads(chunk.text)
        if chunk_json["v"] != _FORM:
            raise ValueError(f"it has form {chunk_json['v']}")
        parts = [(int(t), str(s), int(p), int(e), int(r)) for t, s, p, e, r in chunk_json["parts"]]
        # What was decided before there was such a list has none.
        left = [(str(s), int(p), int(e)) for s, p, e in chunk_json.get("left", ())]
        return _Loaded(
            str(chunk_json["run"]), int(chunk_json["tasks"]), int(chunk_json["chunks"]), parts, left
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise UnreadableDecisionError(
            f"the committed offset {chunk.batch} has metadata that is no decision of this sink ({problem}): "
            f"{chunk.text[:100]!r}. Give the query another transactionalIdPrefix"
        ) from problem
