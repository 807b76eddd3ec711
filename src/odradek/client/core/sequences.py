"""The idempotent producer's memory: which sequence each partition gets next, and what follows a lost one.

KIP-98 and KIP-360. A broker writes a batch only if its sequence follows the last one of (producer id, epoch)
in that partition, and remembers five batches to recognise repeats. But it takes any first sequence of a
producer that it does not know. So a success is never concluded from another batch's: a batch is in the log
when a broker has said so of it, and the rules here keep the broker's answers unambiguous.

- Until the first batch of an epoch is acknowledged in a partition, nothing else of that partition is in
  flight: what comes second cannot be taken for the first.
- The oldest unacknowledged batch of a partition is one of the last five that left, wherever they were sent
  to: its repeat is one of the five that the leader remembers. (Kafka counts requests per connection only.)
- A batch keeps its sequences for all tries, and its parts share them when it is split.
- A batch is *in doubt* once a try of it may have been appended without our knowing
  (`ProducerBatch.in_doubt`).
- What follows a sequence that surely is in no log (a *hole*) cannot be in the log either, and is numbered
  anew, under an epoch of its own, once every answer that is due for the partition has come. (Kafka's
  TransactionManager renumbers what is still under way, and then has to tell the answers apart.)
- A batch that follows one given up in doubt is sent with its old sequence: the answer tells whether the batch
  before it is in the log. If that is not, and this batch is in doubt as well, it fails: sent anew it might be
  there twice.

Epochs are raised partition by partition, as brokers compare them partition by partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from odradek.client.core.batches import ProducerBatch
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode
from odradek.records.batch import NO_SEQUENCE
from odradek.wire.primitives import ZERO_UUID

BATCHES_REMEMBERED = 5
"""As many batches of a producer as brokers remember of a partition, to recognise repeats."""

FORGOTTEN_AFTER_MS = 60_000.0
"""After such a pause a partition begins as at first: its leader may have forgotten the producer meanwhile
(`producer.id.expiration.ms`, a day by default)."""

_MAX_EPOCH = 32_767
_FORGOTTEN = (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
"""Answers of a leader that does not know the producer, or not the sequence before (Kafka's
TransactionManager.canRetry)."""


class IdState(Enum):
    """The state of the producer id."""

    NEEDED = auto()
    REQUESTED = auto()
    READY = auto()


@dataclass(slots=True)
class PartitionSequence:
    """The sequences of one partition (Kafka's TxnPartitionEntry).

    Attributes:
        producer_id, producer_epoch: new batches are numbered under these. The epoch may be ahead of the
            producer's, as it is raised partition by partition.
        next: the sequence of the next new batch.
        last_acked: the highest acknowledged sequence of this epoch; NO_SEQUENCE: none.
        last_acked_offset: the highest offset that an acknowledgement has named; -1: none.
        introduced: a broker has acknowledged a batch, and will not take just any sequence for the first.
        topic_id: of the topic that the last new batch was for; a topic that is made anew knows no producer.
        left: how many new batches have left; it only grows.
        last_sent_ms: when a new batch left last.
        in_flight: sent and not acknowledged, in order of sequence; those that wait to be sent again, too.
        hole: the lowest sequence that is in no log and will not be; what follows is to be numbered anew.
            None: there is no hole.
        doubt: the sequence after the last batch that was given up in doubt; None: no batch was.
    """

    producer_id: int = -1
    producer_epoch: int = -1
    next: int = 0
    last_acked: int = NO_SEQUENCE
    last_acked_offset: int = -1
    introduced: bool = False
    topic_id: bytes = ZERO_UUID
    left: int = 0
    last_sent_ms: float = 0.0
    in_flight: list[ProducerBatch] = field(default_factory=list)
    hole: int | None = None
    doubt: int | None = None

    def restart(self, producer_id: int, producer_epoch: int, *, introduced: bool = False) -> None:
        """Count anew from 0, what is in flight included."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.last_acked = NO_SEQUENCE
        self.introduced = introduced
        self.doubt = None
        self.renumber()

    def renumber(self) -> None:
        """Number the batches in flight anew, from the last acknowledged sequence on."""
        self.hole = None
        sequence = self.expected
        for batch in self.in_flight:
            batch.set_producer_state(self.producer_id, self.producer_epoch, sequence)
            # What is behind a hole is in no log, whatever its tries have left open (rule 5 of
            # docs/produce_answers.md).
            batch.in_doubt = batch.part_in_doubt = False
            sequence = (sequence + batch.count) & 0x7FFF_FFFF
        self.next = sequence

    @property
    def expected(self) -> int:
        """The sequence that follows what was acknowledged last."""
        return 0 if self.last_acked == NO_SEQUENCE else (self.last_acked + 1) & 0x7FFF_FFFF

    def behind_hole(self, batch: ProducerBatch) -> bool:
        """Return whether the batch follows a sequence that is in no log."""
        return self.hole is not None and _at_or_before(self.hole, batch.base_sequence)

    def is_another_topic(self, topic_id: bytes) -> bool:
        """Return whether the topic was made anew since the last new batch."""
        return self.topic_id != topic_id and ZERO_UUID not in (self.topic_id, topic_id)

    @property
    def at_limit(self) -> bool:
        """Return whether one more batch might have the leader forget the oldest that is in flight."""
        # Counted by what has left: acknowledgements of later batches make no room (rule 2 of
        # docs/produce_answers.md).
        since_oldest = self.left - self.in_flight[0].number + 1
        return max(since_oldest, len(self.in_flight)) >= BATCHES_REMEMBERED

    @property
    def in_doubt(self) -> bool:
        """Return whether a batch was given up in doubt, and no later one has told that it is in the log."""
        return self.doubt is not None and not _at_or_before(self.doubt, self.expected)

    def open_hole(self, sequence: int) -> None:
        """Note that the sequence is in no log, and will not be."""
        if self.hole is None or _at_or_before(sequence, self.hole):
            self.hole = sequence


class Sequences:
    """The state of one idempotent producer.

    Args:
        transactional: epochs come from the coordinator alone (`id_received`). What would need a higher one
            fails the batch instead, and with it the transaction; `settle` tells when nothing less will do.
    """

    def __init__(self, *, transactional: bool = False) -> None:
        self._transactional = transactional
        # READY says that the two below are an id that a broker gave out.
        self.state = IdState.NEEDED
        self.producer_id = -1
        self.producer_epoch = -1
        # Entries are never taken out: a later batch has to know which sequences may be in the log.
        self._partitions: dict[TopicPartition, PartitionSequence] = {}
        self._unsettled: set[TopicPartition] = set()
        """Partitions with a hole or a doubt."""

    # The producer id

    def id_requested(self) -> None:
        """InitProducerId is on its way."""
        self.state = IdState.REQUESTED

    def id_failed(self) -> None:
        """InitProducerId failed: it has to be asked for again."""
        self.state = IdState.NEEDED

    def id_received(self, producer_id: int, producer_epoch: int) -> None:
        """Take the id and epoch that a broker gave out."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.state = IdState.READY
        if self._transactional:
            # Nothing is in flight between transactions, and no sequence of the old epoch counts any more.
            for tp in self._unsettled:
                entry = self._entry(tp)
                entry.hole = entry.doubt = None
            self._unsettled.clear()

    # Sending

    def _entry(self, tp: TopicPartition) -> PartitionSequence:
        entry = self._partitions.get(tp)
        if entry is None:
            entry = self._partitions[tp] = PartitionSequence(self.producer_id, self.producer_epoch)
        return entry

    def _stale(self, entry: PartitionSequence) -> bool:
        """Return whether the partition counts under an earlier id (of a transaction: an earlier epoch)."""
        if entry.producer_id != self.producer_id:
            return True
        # Without transactions a partition's epoch is its own, and may be ahead.
        return self._transactional and entry.producer_epoch != self.producer_epoch

    def may_send(self, batch: ProducerBatch, topic_id: bytes = ZERO_UUID) -> bool:
        """Return whether the first batch of a partition's queue may leave now.

        Args:
            topic_id: the topic's, zeros if it is not known.
        """
        if self.state is not IdState.READY:
            return False
        entry = self._entry(batch.tp)
        in_flight = entry.in_flight
        if batch.has_sequence:
            # A retry leaves only when it is the oldest unacknowledged batch (Kafka's
            # RecordAccumulator.shouldStopDrainBatchesForPartition): so its answer has one meaning.
            return not in_flight or (in_flight[0] is batch and not entry.behind_hole(batch))
        if batch.tp in self._unsettled:
            return False
        # Alone a batch may always leave. Behind others it may if the leader knows the producer, and will
        # remember the oldest; an id or an epoch changes only when nothing is in flight.
        if not in_flight:
            return True
        is_introduced = entry.introduced and not entry.is_another_topic(topic_id)
        return is_introduced and not entry.at_limit and not self._stale(entry)

    def assign(self, batch: ProducerBatch, now_ms: float = 0.0, topic_id: bytes = ZERO_UUID) -> None:
        """Give a batch that leaves its sequence, if it has none yet.

        Args:
            now_ms: monotonic.
            topic_id: as for `may_send`.
        """
        if batch.has_sequence:
            return
        entry = self._entry(batch.tp)
        if self._stale(entry):
            # A broker that knows the id in an older epoch takes a newer one from 0 only, so that
            # transactions, each in an epoch of its own, need not wait for their first acknowledgement.
            stays_introduced = (
                self._transactional and entry.introduced and entry.producer_id == self.producer_id
            )
            entry.restart(self.producer_id, self.producer_epoch, introduced=stays_introduced)
        long_ago = now_ms - entry.last_sent_ms > FORGOTTEN_AFTER_MS and not entry.in_flight
        if long_ago or entry.is_another_topic(topic_id):
            entry.introduced = False
        entry.last_sent_ms, entry.topic_id = now_ms, topic_id
        batch.set_producer_state(entry.producer_id, entry.producer_epoch, entry.next)
        entry.next = (entry.next + batch.count) & 0x7FFF_FFFF
        entry.left += 1
        batch.number = entry.left
        entry.in_flight.append(batch)

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Replace `batch` by `parts`, which share its sequences and its doubt."""
        entry = self._entry(batch.tp)
        at = entry.in_flight.index(batch)
        entry.in_flight[at : at + 1] = parts
        sequence = batch.base_sequence
        for part in parts:
            part.set_producer_state(batch.producer_id, batch.producer_epoch, sequence)
            sequence = (sequence + part.count) & 0x7FFF_FFFF

            part.number = batch.number
            part.in_doubt = part.part_in_doubt = batch.in_doubt

    # Answers

    def acknowledged(self, batch: ProducerBatch, base_offset: int) -> None:
        """Note that a broker has acknowledged the batch: it is in the log.

        Args:
            base_offset: of its first record; -1: the answer has none.
        """
        entry = self._entry(batch.tp)
        self._remove(entry, batch)
        # An answer about an earlier epoch tells nothing of this one's sequences.
        if (batch.producer_id, batch.producer_epoch) == (entry.producer_id, entry.producer_epoch):
            entry.introduced = True
            # Answers of an old and a new leader may come in any order.
            if entry.last_acked == NO_SEQUENCE or not _at_or_before(batch.last_sequence, entry.last_acked):
                entry.last_acked = batch.last_sequence
        if base_offset >= 0:
            # An offset below the log's start explains why the leader forgot the producer: see
            # `_can_retry_unknown_in_transaction`.
            entry.last_acked_offset = max(entry.last_acked_offset, base_offset + batch.count - 1)

    def given_up(self, batch: ProducerBatch, code: ErrorCode = ErrorCode.NONE) -> None:
        """Note that the batch fails: it is refused for good, out of tries or out of time.

        Args:
            code: what the broker said at last.
        """
        if not batch.has_sequence:
            return
        entry = self._entry(batch.tp)
        if batch not in entry.in_flight:
            # Acknowledged before, or given up.
            return
        entry.in_flight.remove(batch)
        if self._transactional and code == ErrorCode.UNKNOWN_PRODUCER_ID:
            # The leader has no state of the producer, and will take sequence 0. What is in flight besides
            # fails likewise (Kafka's TransactionManager.handleFailedBatch).
            entry.next, entry.last_acked = 0, NO_SEQUENCE
            entry.hole = entry.doubt = None
            entry.introduced = False
            self._unsettled.discard(batch.tp)
            return
        self._unsettled.add(batch.tp)
        if batch.in_doubt:
            # Even behind a hole: its sequences are not free for others in this epoch.
            entry.doubt = (batch.last_sequence + 1) & 0x7FFF_FFFF
        else:
            entry.open_hole(batch.base_sequence)

    def settle(self) -> set[TopicPartition]:
        """Number batches anew that follow a hole; and those that follow a doubt, once no answer that is due
        can resolve it. To be called between answers.

        Returns: of a transactional producer, the partitions whose sequences are lost: it needs a higher
        epoch.
        """
        lost = set()
        for tp in list(self._unsettled):
            entry = self._entry(tp)
            if entry.in_flight and not self._all_back_behind_hole(entry):
                if entry.hole is None and entry.doubt is None:
                    self._unsettled.discard(tp)
                continue
            if self._transactional:
                if entry.in_doubt and not entry.in_flight:
                    # No batch follows that could settle the doubt, and only a higher epoch keeps a late copy
                    # out (rule 6 of docs/produce_answers.md).
                    lost.add(tp)
                self._settle_in_transaction(entry)
            elif not entry.in_flight and not entry.in_doubt:
                # The sequences that were refused are free again: no broker has taken one behind them.
                entry.doubt = None
                entry.renumber()
            elif not self._raise_epoch(entry):
                continue
            if entry.hole is None and entry.doubt is None:
                self._unsettled.discard(tp)
        return lost

    @staticmethod
    def _all_back_behind_hole(entry: PartitionSequence) -> bool:
        """Return whether all that is in flight follows a hole, and every answer has come."""
        return entry.behind_hole(entry.in_flight[0]) and not any(b.in_flight for b in entry.in_flight)

    @staticmethod
    def _settle_in_transaction(entry: PartitionSequence) -> None:
        """Within one epoch what follows a hole moves up; where anything is in doubt, brokers refuse it."""
        # Numbers that a batch in doubt may have taken cannot be given to another batch in the same epoch.
        if entry.in_doubt or any(batch.in_doubt for batch in entry.in_flight):
            entry.hole = None
        else:
            entry.renumber()
        if not entry.in_flight:
            entry.doubt = None

    def _raise_epoch(self, entry: PartitionSequence) -> bool:
        """Number the partition anew in a higher epoch (KIP-360). Returns whether that could be done; if not,
        a new id has to come.
        """
        if self.state is not IdState.READY:
            return False
        if entry.producer_id != self.producer_id:
            entry.restart(self.producer_id, self.producer_epoch)
        elif entry.producer_epoch < _MAX_EPOCH:
            entry.restart(entry.producer_id, entry.producer_epoch + 1)
        else:
            # An epoch is an int16, so a new id comes after the last one (Kafka's
            # TransactionManager.bumpIdempotentProducerEpoch).
            self.producer_id = self.producer_epoch = -1
            self.state = IdState.NEEDED
            return False
        return True

    def can_retry(self, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        """Return whether the same records may be sent again after an error; may ask for numbers anew."""
        if code not in _FORGOTTEN:
            return code.retriable
        entry = self._entry(batch.tp)
        if self._transactional and code == ErrorCode.UNKNOWN_PRODUCER_ID:
            return self._can_retry_unknown_in_transaction(entry, batch, log_start_offset)
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            # Without a log start offset the broker was losing the partition as it answered. A later answer
            # will have an offset (Kafka's TransactionManager.canRetry).
            if log_start_offset != -1:
                self._open_hole(entry, batch)
            return True
        if entry.in_flight[0] is not batch or entry.behind_hole(batch):
            # The batches before this one are yet to be dealt with.
            return True
        follows_doubt = entry.doubt is not None and entry.doubt == batch.base_sequence
        if self._transactional:
            # Numbered anew the batch needs a higher epoch, which a transaction cannot get (likewise in
            # Kafka's TransactionManager.canRetry).
            return False
        # Sent anew, it might be there twice: docs/decisions/doubt-is-not-sent-anew.md.
        if batch.part_in_doubt or (batch.in_doubt and follows_doubt):
            return False
        self._open_hole(entry, batch)
        return True

    def _open_hole(self, entry: PartitionSequence, batch: ProducerBatch) -> None:
        entry.open_hole(batch.base_sequence)
        self._unsettled.add(batch.tp)

    def _can_retry_unknown_in_transaction(
        self, entry: PartitionSequence, batch: ProducerBatch, log_start_offset: int
    ) -> bool:
        if log_start_offset == -1 or entry.behind_hole(batch):
            return True
        if entry.last_acked_offset < log_start_offset:
            # Retention took all that the broker knew the producer by: it takes sequence 0 then (Kafka's
            # TransactionManager.canRetry, TxnPartitionMap.startSequencesAtBeginning).
            entry.last_acked = NO_SEQUENCE
            entry.introduced = False
            self._open_hole(entry, batch)
            return True
        return False

    @staticmethod
    def _remove(entry: PartitionSequence, batch: ProducerBatch) -> None:
        if batch in entry.in_flight:
            entry.in_flight.remove(batch)

    def in_flight(self, tp: TopicPartition) -> list[ProducerBatch]:
        """Return the batches of a partition that were sent and not acknowledged, in order of sequence."""
        return list(self._entry(tp).in_flight)


def _at_or_before(a: int, b: int) -> bool:
    """Return whether sequence `a` is `b` or comes before it; they wrap at 2^31, so their distance tells."""
    return ((b - a) & 0x7FFF_FFFF) < 0x4000_0000
