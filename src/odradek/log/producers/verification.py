"""Producers of which a coordinator is being asked whether a partition belongs to their transaction.

A transactional batch may open a transaction in a partition only if the coordinator knows of it: nobody would
ever end it otherwise (KIP-890). Between the question and the append the answer can become stale, because a
marker ends the transaction that it was about. So each question leaves a `Verification` behind, which the
first append, and any marker, removes: an append has to bring the one that is there.
"""

from __future__ import annotations

from odradek.errors import ConcurrentTransactionsError, OutOfOrderSequenceError


class Verification:
    """One producer's question, compared by identity.

    Attributes:
        epoch: the newest epoch asked for.
        lowest_sequence: the lowest sequence asked for in that epoch. A later batch is not let in before it:
            the earlier one, tried again after an error, would be out of order for ever.
        since_ms: when it was first asked, epoch ms.
    """

    __slots__ = ("epoch", "lowest_sequence", "since_ms")

    def __init__(self, epoch: int, sequence: int, since_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.since_ms = since_ms


class Verifications:
    """The questions of one partition, by producer id."""

    def __init__(self) -> None:
        # Those asked since the producer's last append or marker here. An answer that comes later finds its
        # question gone or another in its place: hence the comparison by identity.
        self._open: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._open)

    def is_asked_of(self, producer_id: int) -> bool:
        """Return whether a question about a producer is open."""
        return producer_id in self._open

    def begin(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> Verification:
        """Ask, or ask again.

        Args:
            producer_id, epoch: the producer.
            sequence: of the batch that is to be appended.
            now_ms: epoch ms.
        """
        question = self._open.get(producer_id)
        if question is None:
            question = self._open[producer_id] = Verification(epoch, sequence, now_ms)
        elif epoch > question.epoch:
            question.epoch, question.lowest_sequence = epoch, sequence
        elif epoch == question.epoch:
            question.lowest_sequence = min(question.lowest_sequence, sequence)
        return question

    def require(self, producer_id: int, sequence: int, verification: Verification | None) -> None:
        """Check whether a batch may open its producer's transaction.

        Args:
            producer_id: the producer.
            sequence: the batch's first.
            verification: what was asked.

        Raises:
            ConcurrentTransactionsError: a transaction has ended since the question. Nobody knows whether the
                batch is one of that, or of the next, whose coordinator was quicker to say yes than the marker
                to come: it has to be asked again.
            OutOfOrderSequenceError: an earlier batch is still to come.
        """
        question = self._open.get(producer_id)
        if question is None or question is not verification:
            raise ConcurrentTransactionsError("a transaction of the producer has ended meanwhile")
        if sequence > question.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"producer {producer_id} sent sequence {sequence}, "
                f"{question.lowest_sequence} is still to come"
            )

    def end(self, producer_id: int) -> None:
        """A batch or a marker was appended."""
        self._open.pop(producer_id, None)

    def give_up(self, producer_id: int, epoch: int) -> None:
        """The answer was an error; a question that was asked for a newer epoch meanwhile stays."""
        question = self._open.get(producer_id)
        if question is not None and question.epoch <= epoch:
            del self._open[producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget questions that were left without an append for so long."""
        for producer_id in [
            p for p, question in self._open.items() if now_ms - question.since_ms >= expiration_ms
        ]:
            del self._open[producer_id]

    def clear(self) -> None:
        """Forget all."""
        self._open.clear()
