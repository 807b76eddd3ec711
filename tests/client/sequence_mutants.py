"""Rules of the idempotent producer left out: models and simulations have to find what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from odradek.client.core import sending
from odradek.client.core.batches import ProducerBatch
from odradek.client.core.produce import Verdict
from odradek.client.core.sequences import PartitionSequence, Sequences
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode


def constant(value: Any) -> property:
    """An attribute that is what it is, whatever it is set to."""
    return property(lambda self: value, lambda self, new: None)


def first_not_alone() -> AbstractContextManager[Any]:
    """Others are in flight before the first batch of an epoch is acknowledged."""
    return mock.patch.object(PartitionSequence, "introduced", constant(True))


@contextmanager
def inferred() -> Iterator[None]:
    """As before; and what a later acknowledgement is taken to say of an earlier batch."""
    judge, acknowledged = sending.judge, Sequences.acknowledged
    last_acked: dict[tuple[Sequences, TopicPartition], tuple[int, int]] = {}

    def noting(self: Sequences, batch: ProducerBatch, base_offset: int) -> None:
        acknowledged(self, batch, base_offset)
        acked = (batch.producer_epoch, batch.last_sequence)
        last_acked[self, batch.tp] = max(acked, last_acked.get((self, batch.tp), acked))

    def inferring(
        batch: ProducerBatch, code: ErrorCode, *, sequences: Sequences | None, **more: Any
    ) -> Verdict:
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and sequences is not None:
            epoch, sequence = last_acked.get((sequences, batch.tp), (-1, -1))
            if batch.producer_epoch == epoch and batch.last_sequence <= sequence:
                return Verdict.WRITTEN
        return judge(batch, code, sequences=sequences, **more)

    with (
        first_not_alone(),
        mock.patch.object(Sequences, "acknowledged", noting),
        mock.patch.object(sending, "judge", inferring),
    ):
        yield
