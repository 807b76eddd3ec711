"""The effect of an answer to Produce, or of the lack of one, on a batch: on its place and on its sequences.

The shell (`aio.sender`) sends, and tells the application; nothing here waits or calls back.
docs/produce_answers.md enumerates the answers.
"""

from __future__ import annotations

from odradek.client.core.batches import ProducerBatch
from odradek.client.core.produce import Verdict, is_too_large, judge, leaves_doubt
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.errors import ErrorCode


class ProduceResults:
    """Applies answers to the batches of one producer. Called with the accumulator's lock held.

    Args:
        accumulator: its batches, and their sequences.
        retries: how many tries may follow a batch's first.
        delivery_timeout_ms: how long a batch may live.
    """

    def __init__(self, accumulator: RecordAccumulator, *, retries: int, delivery_timeout_ms: float) -> None:
        self._accumulator = accumulator
        self._retries = retries
        self._delivery_timeout_ms = delivery_timeout_ms

    def answered(
        self,
        batch: ProducerBatch,
        code: ErrorCode,
        *,
        base_offset: int,
        log_start_offset: int,
        now_ms: float,
        wait_ms: float | None = None,
    ) -> Verdict:
        """A broker has answered for the batch, which has not been given up meanwhile.

        Args:
            base_offset, log_start_offset: from the answer.
            now_ms: monotonic.
            wait_ms: the longest pause before another try.

        Returns: what has become of it. A batch that is WRITTEN or fails (FAIL) is the shell's to settle.
        """
        accumulator = self._accumulator
        sequences = accumulator.sequences
        batch.in_flight = False
        verdict = judge(
            batch,
            code,
            log_start_offset=log_start_offset,
            sequences=sequences,
            retries=self._retries,
            expired=now_ms - batch.created_ms >= self._delivery_timeout_ms,
        )
        if verdict is Verdict.WRITTEN:
            if sequences is not None and batch.has_sequence:
                sequences.acknowledged(batch, base_offset if code == ErrorCode.NONE else -1)
            return verdict
        if leaves_doubt(code):
            batch.in_doubt = True
        if verdict is Verdict.SPLIT:
            accumulator.too_large(batch, now_ms)
        elif verdict is Verdict.RETRY:
            accumulator.requeue(batch, now_ms, wait_ms)
        else:
            if is_too_large(code):
                accumulator.refused_as_too_large(batch, now_ms)
            self.given_up(batch, code)
        if verdict is not Verdict.FAIL:
            accumulator.unmute(batch.tp)
        return verdict

    def unanswered(self, batch: ProducerBatch, *, retriable: bool, sent: bool, now_ms: float) -> Verdict:
        """No answer came, or the batch could not be sent.

        Args:
            retriable: another try may end otherwise.
            sent: it may have reached the broker.
            now_ms: monotonic.
        """
        if not batch.in_flight:
            return Verdict.RETRY  # it waits already
        batch.in_flight = False
        if sent:
            batch.in_doubt = True
        if retriable and batch.attempts < self._retries:
            self._accumulator.requeue(batch, now_ms)
            self._accumulator.unmute(batch.tp)
            return Verdict.RETRY
        self.given_up(batch)
        return Verdict.FAIL

    def answered_late(self, batch: ProducerBatch, code: ErrorCode, base_offset: int) -> None:
        """The answer to a batch that was given up while it was on its way still settles its sequence."""
        sequences = self._accumulator.sequences
        if code == ErrorCode.NONE and sequences is not None and batch.has_sequence:
            sequences.acknowledged(batch, base_offset)

    def given_up(self, batch: ProducerBatch, code: ErrorCode = ErrorCode.NONE) -> None:
        """The batch fails. If it is on its way, nobody knows whether it will be written.

        Args:
            code: what the broker said at last.
        """
        sequences = self._accumulator.sequences
        if batch.in_flight:
            batch.in_doubt = True
        if sequences is not None:
            sequences.given_up(batch, code)
