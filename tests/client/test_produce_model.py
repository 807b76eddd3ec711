"""Acknowledged means written, in order, once: whatever answers the producer's batches get."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from odradek.client.core import sending
from odradek.client.core.batches import ProducerBatch
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.core.sequences import PartitionSequence, Sequences
from odradek.errors import ErrorCode

from .produce_model import Fate, broken, every_run, random_runs
from .sequence_mutants import constant, first_not_alone, inferred

pytestmark = pytest.mark.model


@pytest.mark.parametrize("in_flight", range(1, 6))
def test_any_two_answers_to_any_batches(in_flight: int) -> None:
    assert broken(every_run(in_flight, batches=5)) is None


def test_any_three_answers_to_the_first_batches() -> None:
    fates = (
        Fate.WELL,
        Fate.TOO_LARGE,
        Fate.TIMED_OUT,
        Fate.LOST_AFTER_ONE,
        Fate.INVALID,
        Fate.EXPIRED,
        Fate.LATE,
    )
    assert broken(every_run(2, batches=3, faults=3, fates=fates)) is None


def test_brokers_of_kafka_0_11_which_remember_one_batch() -> None:
    assert broken(every_run(5, batches=5, remembered=1)) is None


@pytest.mark.parametrize("in_flight", [1, 5])
def test_the_same_in_a_transaction(in_flight: int) -> None:
    assert broken(every_run(in_flight, batches=4, transactional=True)) is None


def test_leaders_that_forget_the_producer() -> None:
    fates = (Fate.WELL, Fate.FORGOTTEN, Fate.TOO_LARGE, Fate.NOT_ENOUGH_REPLICAS, Fate.LOST_AFTER_ONE)
    assert broken(every_run(3, batches=4, faults=3, fates=fates)) is None


@pytest.mark.parametrize("in_flight", [2, 5])
def test_leaders_that_have_lost_what_was_acknowledged(in_flight: int) -> None:
    fates = (
        Fate.WELL,
        Fate.UNCLEAN,
        Fate.TOO_LARGE,
        Fate.TIMED_OUT,
        Fate.LOST_AFTER_ONE,
        Fate.MOVED_AFTER_ALL,
    )
    assert broken(every_run(in_flight, batches=5, fates=fates)) is None


def test_many_answers(seed: int = 27) -> None:
    assert broken(random_runs(seed, 2_500)) is None, f"seed {seed}"


def test_the_page_enumerates_what_the_model_goes_through() -> None:
    page = (Path(__file__).parents[2] / "docs" / "produce_answers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]*[^|-]) \|[^|]*\|[^|]*\|$", page, re.MULTILINE)
    assert rows[1:] == [fate.value for fate in Fate]


# Rules left out on purpose, one at a time: the model has to find each of them.


def _without_limit() -> AbstractContextManager[Any]:
    """Requests are counted by connection only, as Kafka's client does."""
    return mock.patch.object(PartitionSequence, "at_limit", constant(False))


def _unacknowledged_counted() -> AbstractContextManager[Any]:
    """Five are unacknowledged at most, however many were acknowledged behind the oldest."""
    return mock.patch.object(PartitionSequence, "at_limit", property(lambda self: len(self.in_flight) >= 5))


def _doubt_sent_anew() -> AbstractContextManager[Any]:
    """What is in doubt is sent anew under another number, as Kafka's client does."""
    original = Sequences.can_retry

    def can_retry(self: Sequences, batch: ProducerBatch, code: ErrorCode, log_start_offset: int) -> bool:
        batch.in_doubt = batch.part_in_doubt = False
        return original(self, batch, code, log_start_offset)

    return mock.patch.object(Sequences, "can_retry", can_retry)


def _parts_sent_anew() -> AbstractContextManager[Any]:
    """The parts of a batch that may be in the log are sent anew under other numbers."""
    original = Sequences.split

    def split(self: Sequences, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        original(self, batch, parts)
        for part in parts:
            part.part_in_doubt = False

    return mock.patch.object(Sequences, "split", split)


def _no_doubt() -> AbstractContextManager[Any]:
    """Any error is taken to say that the batch was not appended."""
    return mock.patch.object(sending, "leaves_doubt", lambda code: False)


def _numbers_used_again() -> AbstractContextManager[Any]:
    """Sequences of what was given up in doubt stand for other records."""
    return mock.patch.object(PartitionSequence, "in_doubt", constant(False))


def _parts_at_the_end() -> AbstractContextManager[Any]:
    """What is split loses its place."""
    return mock.patch.object(
        RecordAccumulator, "_insert", lambda self, batch: self._queues[batch.tp].append(batch)
    )


MUTANTS: list[Callable[[], AbstractContextManager[Any]]] = [
    first_not_alone,
    inferred,
    _without_limit,
    _unacknowledged_counted,
    _doubt_sent_anew,
    _parts_sent_anew,
    _no_doubt,
    _numbers_used_again,
    _parts_at_the_end,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.__name__.strip("_"))
def test_the_model_finds(mutant: Callable[[], AbstractContextManager[Any]]) -> None:
    with mutant():
        found = broken(random_runs(27, 2_500)) or broken(every_run(5, batches=12))
    assert found is not None


def test_the_inference_acknowledged_what_is_not_in_the_log() -> None:
    with inferred():
        found = broken(every_run(2, batches=3))
    assert found is not None
    assert "is acknowledged and not in the log" in found
