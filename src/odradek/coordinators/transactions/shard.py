"""One partition of `__transaction_state`: its transactional ids, `replay`, and the markers that are owed.

Durable state, changed by `replay` alone: `transactions`, and of those `ongoing`. What the log has no room for
(a transaction's `last_epoch`, and with value version 0 some more) is filled in when the append has succeeded,
and forgotten in a crash: a producer that then repeats a request whose answer was lost is fenced, as by Kafka.
Volatile state: `owed`, rebuilt from the prepared transactions when the partition has been loaded.

Timeouts are counted by the monotonic clock, from when a transaction began here: by a wall clock that is set
forward or back no transaction ends early or late. The log has the beginning by the wall clock, as Kafka's. A
transaction that is loaded has lasted as long as that says, and is counted on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from odradek.coordinators.deadlines import Deadlines
from odradek.coordinators.outcome import Outcome
from odradek.coordinators.reply import Reply
from odradek.coordinators.transactions.config import TransactionConfig
from odradek.coordinators.transactions.markers import Effect, TransactionMarkers, effect_of
from odradek.coordinators.transactions.records import read_transaction, tombstone, transaction_record
from odradek.coordinators.transactions.states import AT_REST, PREPARED, TransactionState
from odradek.coordinators.transactions.transaction import (
    NEVER_MS,
    NO_ID,
    TRANSACTIONS_V2,
    Transaction,
    complete,
    fence_and_abort,
    is_exhausted,
)
from odradek.errors import ErrorCode, ProtocolError
from odradek.util.clock import Clock
from odradek.util.topic_partition import TopicPartition
from odradek.wire.schemas.transaction_state import TransactionLogKey, TransactionLogValue

logger = logging.getLogger("odradek.coordinators.transactions")

NOTHING = Outcome()


@dataclass(slots=True)
class TransactionEnv:
    """One shard's surroundings.

    Attributes:
        settings: gives the broker's settings, which may change.
        clock: the time.
        deadlines: the shard's timers, by key.
        retries: likewise, for markers that are to be sent, again perhaps.
        coordinator_epoch: the leader epoch that the partition was taken over with.
        new_producer_id: a producer id that nobody has; raises `KafkaError` if there is none at the moment.
        send: takes markers; called from a timer, never inside of a command.
        run: executes a command of a timer as the runtime does those of requests.
        loaded: called when everything has been replayed.
        outbox: answers that leave when everything appended before them is committed.
    """

    settings: Callable[[], TransactionConfig]
    clock: Clock
    deadlines: Deadlines
    retries: Deadlines
    coordinator_epoch: int
    new_producer_id: Callable[[], int]
    send: Callable[[TransactionMarkers], None]
    run: Callable[[str, Callable[[], Outcome]], None]
    loaded: Callable[[], None] = lambda: None
    outbox: list[tuple[Reply[object], object]] = field(default_factory=list)

    @property
    def config(self) -> TransactionConfig:
        """The broker's settings as they are now."""
        return self.settings()


class TransactionShard:
    """The transactional ids of one partition.

    Attributes:
        env: its surroundings.
        transactions: by transactional id.
        ongoing: those that are, so that timeouts need not be looked for among all, each with its beginning by
            the monotonic clock.
        owed: per decided transaction, the partitions whose marker has not been confirmed.
    """

    def __init__(self, env: TransactionEnv) -> None:
        self.env = env
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, float] = {}
        self.owed: dict[str, set[TopicPartition]] = {}
        self._decisions: dict[str, int] = {}
        """The number of the decision whose markers are owed; has the same ids as `owed`. An answer about the
        markers of an earlier transaction of the same id is told by it."""
        self._last_decision = 0
        self._unloaded = False
        """Whether another leader may have the partition: nothing is sent any more."""

    # Replay

    def replay_bytes(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> None:
        """Apply a record as it stands in the log; a record with an unknown key version is left alone.

        Raises:
            ProtocolError: the record is not what its key says.
        """
        if key is None or len(key) < 2:
            raise ProtocolError("a record of the transaction topic without a key version")
        if int.from_bytes(key[:2], "big", signed=True) != 0:
            logger.warning("a record of an unknown kind at offset %d was left alone", offset)
            return
        decoded, _ = TransactionLogKey.decode_from(key, TransactionLogKey.VERSIONS[-1], 2)
        self.replay(
            offset,
            producer_id,
            decoded,
            None if value is None else TransactionLogValue.decode_prefixed(value),
        )

    def replay(self, offset: int, producer_id: int, key: object, value: object) -> None:  # noqa: ARG002
        """Apply a record; see `replay_bytes`."""
        assert isinstance(key, TransactionLogKey)
        transactional_id = key.transactional_id
        # A further record of the same transaction (a partition was added) does not begin its time anew.
        began_ms = self.ongoing.pop(transactional_id, None)
        if value is None:
            self.transactions.pop(transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        after = self.transactions[transactional_id] = read_transaction(transactional_id, value)
        if after.state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = self._beginning(after) if began_ms is None else began_ms

    def _beginning(self, transaction: Transaction) -> float:
        """The beginning of a transaction by the monotonic clock; not later than now."""
        clock = self.env.clock
        return clock.monotonic_ms() - max(0, clock.now_ms() - transaction.start_ms)

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Nothing in this topic is transactional."""

    # Life

    def on_loaded(self) -> Outcome:
        """Everything is replayed: what was decided is completed, what is ongoing may go on or time out."""
        # Nobody knows which markers the former leader has written; the same marker twice does no harm.
        for transaction in self.transactions.values():
            if transaction.state in PREPARED:
                self._owe(transaction)
        deadlines, config = self.env.deadlines, self.env.config
        deadlines.every(
            "aborts", config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self._sweep
        )
        deadlines.every(
            "expiry",
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
            lambda: self.env.run("expiry", self.expire),
        )
        self.env.loaded()
        return NOTHING

    def on_unloaded(self) -> None:
        """Forget timers and markers; the next leader writes what is owed."""
        self._unloaded = True
        self.env.deadlines.cancel_all()
        self.env.retries.cancel_all()
        self.owed.clear()
        self._decisions.clear()

    # Writing

    def write(self, after: Transaction, response: object | None = None) -> Outcome:
        """The outcome that makes `after` the state of its id; if it is decided, its markers are given out."""

        def appended() -> None:
            self.transactions[after.transactional_id] = after
            if after.state in PREPARED:
                self._owe(after)

        # At the level of now: a lowered one has to be readable by the releases that it was lowered for.
        record = transaction_record(after, self.env.config.transaction_version)
        return Outcome([record], response, on_appended=appended)

    def fence(
        self, ongoing: Transaction, response: object | None = None, *, for_another: bool = False
    ) -> Outcome:
        """The outcome that aborts a transaction which its producer did not end, and fences the producer.

        Args:
            ongoing: the transaction.
            response: the answer.
            for_another: another producer waits for its turn. Then the present one cannot go on as after an
                end of V2: while it is busy, it would always be there before the other.

        Raises:
            KafkaError: its epochs are used up, and there is no producer id at the moment.
        """
        exhausted = is_exhausted(ongoing.client[1])
        is_v2 = self.env.config.transaction_version >= TRANSACTIONS_V2 and (exhausted or not for_another)
        # What is kept for another producer was begun under V2, whatever the level is now.
        raises = is_v2 or ongoing.is_kept
        rotated = self.env.new_producer_id() if raises and exhausted else NO_ID
        now_ms = self.env.clock.now_ms()
        return self.write(
            fence_and_abort(ongoing, raises=raises, next_producer_id=rotated, now_ms=now_ms), response
        )

    # Markers

    def _owe(self, transaction: Transaction) -> None:
        self._last_decision += 1
        self._decisions[transaction.transactional_id] = self._last_decision
        self.owed[transaction.transactional_id] = set(transaction.partitions)
        self._give_out(transaction.transactional_id, transaction.partitions)

    def _give_out(self, transactional_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Send markers once the decision is committed: before, the log could still lose it."""
        transaction = self.transactions[transactional_id]
        markers = TransactionMarkers(
            transactional_id,
            transaction.producer_id,
            transaction.epoch,
            self.env.coordinator_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            frozenset(partitions),
            transaction.client_version,
            self._decisions[transactional_id],
        )

        def committed(answer: object) -> None:
            if self._unloaded:
                return
            if answer is None:
                # The commit takes long; look again.
                self._give_out_later(transactional_id, markers.partitions)
            else:
                # Not from here: the runtime may be in the middle of an append.
                self.env.retries.set(
                    ("send", transactional_id, markers.partitions), 0, lambda: self._send(markers)
                )

        self.env.outbox.append((Reply(committed, lambda _: None), markers))

    def _send(self, markers: TransactionMarkers) -> None:
        if not self._is_owed(markers):
            return
        if markers.partitions:
            self.env.send(markers)
        else:
            self.env.run("complete", lambda: self._complete(markers.transactional_id))

    def _is_owed(self, markers: TransactionMarkers) -> bool:
        return self._decisions.get(markers.transactional_id) == markers.decision

    def owes(self, markers: TransactionMarkers) -> bool:
        """Return whether markers are of the present decision, given out in this leader epoch."""
        return self._is_owed(markers) and markers.coordinator_epoch == self.env.coordinator_epoch

    # Both together, or an answer that comes late would be taken for one about the next decision.
    def _nothing_owed(self, transactional_id: str) -> None:
        del self.owed[transactional_id], self._decisions[transactional_id]

    def _give_out_later(self, transactional_id: str, partitions: frozenset[TopicPartition]) -> None:
        decision = self._decisions.get(transactional_id)

        def again() -> Outcome:
            if decision is not None and self._decisions.get(transactional_id) == decision:
                self._give_out(transactional_id, partitions & self.owed[transactional_id])
            return NOTHING

        self.env.retries.set(
            ("markers", transactional_id, partitions),
            self.env.config.marker_retry_backoff_ms,
            lambda: self.env.run("markers", again),
        )

    def markers_answered(
        self, markers: TransactionMarkers, results: Mapping[TopicPartition, ErrorCode]
    ) -> Outcome:
        """Take what the partitions' leaders have said.

        Args:
            markers: as they were given out; those of an earlier decision or leader change nothing.
            results: by partition; one that is missing (the connection broke) is tried again.
        """
        if not self.owes(markers):
            return NOTHING
        owed = self.owed[markers.transactional_id]
        again: set[TopicPartition] = set()
        for partition in markers.partitions & owed:
            error = results.get(partition, ErrorCode.NETWORK_EXCEPTION)
            effect = effect_of(error)
            # The partition has a newer producer or coordinator epoch: who wrote that takes care of the rest.
            if effect is Effect.CANCEL:
                logger.warning("%s: markers are given up: %s", markers.transactional_id, error.name)
                self._nothing_owed(markers.transactional_id)
                return NOTHING
            if effect is Effect.DONE:
                owed.discard(partition)
            else:
                again.add(partition)
        if again:
            self._give_out_later(markers.transactional_id, frozenset(again))
        return NOTHING if owed else self._complete(markers.transactional_id)

    def _complete(self, transactional_id: str) -> Outcome:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or self.owed.get(transactional_id) != set():
            return NOTHING
        after = complete(transaction, self.env.clock.now_ms())

        def appended() -> None:
            self.transactions[transactional_id] = after
            self._nothing_owed(transactional_id)

        def failed(error: ErrorCode) -> None:
            logger.warning("%s: its completion could not be written: %s", transactional_id, error.name)
            # No partition is left to be told: this tries the completion alone again.
            self._give_out_later(transactional_id, frozenset())

        record = transaction_record(after, self.env.config.transaction_version)
        return Outcome([record], on_appended=appended, on_failed=failed)

    @property
    def incomplete(self) -> int:
        """The number of transactions that have all their markers, and a completion that is still to be
        written.
        """
        return sum(1 for owed in self.owed.values() if not owed)

    # Time

    def timed_out(self, transaction: Transaction) -> bool:
        """Return whether a transaction has been ongoing for longer than its producer allowed."""
        began_ms = self.ongoing.get(transaction.transactional_id)
        return (
            began_ms is not None
            and transaction.timeout_ms != NEVER_MS
            and began_ms + transaction.timeout_ms < self.env.clock.monotonic_ms()
        )

    def abort_timed_out(self, transactional_id: str) -> Outcome:
        """Abort one transaction that is too old, and fence its producer."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not self.timed_out(transaction):
            return NOTHING
        logger.info("%s: the transaction has timed out and is aborted", transactional_id)
        return self.fence(transaction)

    def _sweep(self) -> None:
        def abort(transactional_id: str) -> Callable[[], Outcome]:
            return lambda: self.abort_timed_out(transactional_id)

        # A list first: each abort takes its transaction out of `ongoing`.
        for transactional_id in [
            ongoing_id for ongoing_id in self.ongoing if self.timed_out(self.transactions[ongoing_id])
        ]:
            self.env.run("abort", abort(transactional_id))

    def expire(self) -> Outcome:
        """Tombstones for the ids that have been at rest for `transactional.id.expiration.ms`."""
        horizon = self.env.clock.now_ms() - self.env.config.transactional_id_expiration_ms
        records = [
            tombstone(transaction.transactional_id)
            for transaction in self.transactions.values()
            # Only at rest: of a transaction that is open or decided somebody still has to know the end.
            if transaction.state in AT_REST and transaction.updated_ms <= horizon
        ]
        # Each tombstone is true by itself, and all may be too many for one batch.
        return Outcome(records, on_failed=_expiry_failed, atomic=False) if records else NOTHING


def _expiry_failed(error: ErrorCode) -> None:
    logger.warning("expired transactional ids could not be removed: %s", error.name)
