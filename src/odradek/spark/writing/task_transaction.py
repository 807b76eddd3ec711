"""The transaction in which one task writes, over a client's `TransactionalWriter`, and its id."""

import logging
import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odradek.client import TransactionalWriter
from odradek.client.errors import UnsupportedByBrokerError
from odradek.errors import ErrorCode, KafkaError, OdradekError
from odradek.spark.errors import WriteError
from odradek.spark.kafka_configs import BOOTSTRAP_SERVERS
from odradek.spark.options import SinkOptions
from odradek.spark.writing.decisions import Transaction
from odradek.spark.writing.exactly_once import NO_BATCH, Batch

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_TIMEOUT = "transaction.timeout.ms"
_TWO_PHASE = "transaction.two.phase.commit.enable"
_LONGEST_BY_DEFAULT_MS = 900_000
"""What brokers allow unless told otherwise (`transaction.max.timeout.ms`). A transaction lasts from a task's
first row until the driver commits the batch, so the usual minute would be short."""

#: Clusters that were found to have no two-phase commit, or not to allow it.
_one_phase: set[tuple[int, str]] = set()


class TaskTransaction:
    """Rows written in one transaction, which waits for the driver once it is prepared."""

    def __init__(self, writer: TransactionalWriter, transactional_id: str, topic: str | None) -> None:
        self._writer = writer
        self._id = transactional_id
        self._topic = topic

    def write(self, rows: "pa.RecordBatch") -> None:
        """Send rows; returns when they are on their way."""
        self._writer.write_columns(rows, self._topic)

    def prepare(self) -> Transaction:
        """Wait until all is in the logs."""
        state = self._writer.prepare_transaction()
        self._writer.abandon()
        return Transaction(self._id, state.producer_id, state.epoch)

    def abort(self) -> None:
        """Abort, if the brokers can be reached; else the driver or the timeout will."""
        try:
            self._writer.abort_transaction()
        except OdradekError as problem:
            logger.warning("transaction %s was not aborted: %s", self._id, problem)
        self._writer.abandon()


def begin(options: SinkOptions, batch: Batch, decided: int = NO_BATCH) -> TaskTransaction:
    """Begin a transaction of this process for `batch`, `decided` being the newest batch that was decided on.

    Raises:
        KafkaError: no transaction can be begun.
    """
    transactional_id = slots_here().take(batch.name, batch.number, decided)
    servers = options.client[BOOTSTRAP_SERVERS]
    given = {name: value for name, value in options.client.items() if name != BOOTSTRAP_SERVERS}
    for configs in _ways(options, batch, given):
        writer = TransactionalWriter(servers, transactional_id, configs)
        try:
            writer.init_transactions()
            writer.begin_transaction()
        except BaseException as problem:
            writer.abandon()
            if isinstance(problem, OdradekError) and _another_way(options, configs, problem):
                continue
            raise
        return TaskTransaction(writer, transactional_id, options.topic)
    raise AssertionError("there is always a last way")


def _ways(options: SinkOptions, batch: Batch, given: dict[str, str]) -> Sequence[dict[str, Any]]:
    """Configs to begin with, one after the other until the broker takes them."""
    without_timeout = {name: value for name, value in given.items() if name != _TIMEOUT}
    two_phase = {**without_timeout, _TWO_PHASE: "true"}
    ways: list[dict[str, Any]] = []
    is_one_phase = (os.getpid(), options.client[BOOTSTRAP_SERVERS]) in _one_phase
    if batch.remembered and (
        options.two_phase_commit or (options.two_phase_commit is None and not is_one_phase)
    ):
        ways.append(two_phase)
    if not ways or options.two_phase_commit is None:
        if _TIMEOUT not in given:
            ways.append({**given, _TIMEOUT: str(_LONGEST_BY_DEFAULT_MS)})
        ways.append(given)
    return ways


def _another_way(options: SinkOptions, configs: dict[str, Any], problem: OdradekError) -> bool:
    """Return whether the broker only refuses this way to begin.

    Raises:
        WriteError: it refuses what was asked for.
    """
    code = problem.code if isinstance(problem, KafkaError) else None
    if _TWO_PHASE in configs:
        refused = (
            isinstance(problem, UnsupportedByBrokerError)
            or code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
        if refused and options.two_phase_commit:
            raise WriteError(
                "twoPhaseCommit is true, and the brokers do not know or do not allow it (KIP-939; "
                f"transaction.two.phase.commit.enable): {problem}"
            ) from problem
        if refused:
            _one_phase.add((os.getpid(), options.client[BOOTSTRAP_SERVERS]))
        return refused
    return code == ErrorCode.INVALID_TRANSACTION_TIMEOUT and _TIMEOUT not in options.client


class Slots:
    """Transactional ids of one process: a task's transaction waits for the driver; the next needs another.

    Only the process that made an id ever begins a transaction under it. So nobody's late start can abort a
    transaction that was decided on. A process uses an id again once a batch after that of its last
    transaction was decided on. To be given a later batch is not enough: another driver of the same query may
    be running the decided one once more, and would take its transactions to have timed out. One that runs an
    older batch than the decided one finds that out when it decides, and gives up.

    Args:
        process: tells it from all others, for good.
    """

    def __init__(self, process: str) -> None:
        self._process = process
        self._last: dict[str, list[int]] = {}

    def take(self, name: str, batch: int, decided: int) -> str:
        """An id for a transaction of a batch of the query `name`.

        Args:
            name: of the query.
            batch: the batch's number.
            decided: the newest batch that was decided on; -1 if none was.
        """
        last = self._last.setdefault(name, [])
        for number, used_by in enumerate(last):
            if used_by < decided:
                last[number] = batch
                return f"{name}:{self._process}:{number}"
        last.append(batch)
        return f"{name}:{self._process}:{len(last) - 1}"


_of_process: tuple[int, Slots] | None = None


def slots_here() -> Slots:
    """Those of this process; a forked one has its own."""
    global _of_process
    if _of_process is None or _of_process[0] != os.getpid():
        _of_process = (os.getpid(), Slots(uuid.uuid4().hex[:12]))
    return _of_process[1]
