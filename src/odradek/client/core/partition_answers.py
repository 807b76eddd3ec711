"""The answers of brokers about several partitions, which are asked about until nothing can pass any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

from odradek.client.errors import left_out
from odradek.client.types import TopicPartition
from odradek.errors import KafkaError

T = TypeVar("T")


class PartitionAnswers(Generic[T]):
    """The answers of one call.

    Attributes:
        answers: those of partitions that have one.
        left: the partitions to ask about, or to ask about again, in order.
    """

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.answers: dict[TopicPartition, T] = {}
        self.left: dict[TopicPartition, None] = dict.fromkeys(partitions)
        self._partitions = tuple(self.left)
        # The last error of each that has no answer.
        self._problems: dict[TopicPartition, KafkaError] = {}

    def take(
        self,
        asked: Collection[TopicPartition],
        told: Mapping[TopicPartition, T | KafkaError],
        *,
        may_pass: bool,
    ) -> None:
        """Take what a broker told.

        Args:
            asked: the partitions that it had to tell about.
            told: its answers and errors.
            may_pass: whether an error that is retriable passes when it is asked again.
        """
        said = {**told, **left_out(asked, told)}
        for tp in asked:
            answer = said[tp]
            if not isinstance(answer, KafkaError):
                self.answers[tp] = answer
                self._problems.pop(tp, None)
            else:
                self._problems[tp] = answer
                if answer.retriable and may_pass:
                    continue
            del self.left[tp]

    def raise_passing(self) -> None:
        """Raise the error of the first partition that is left, if any is."""
        for tp in self.left:
            raise self._problems[tp]

    def problems(self, ending: KafkaError | None = None) -> dict[TopicPartition, KafkaError]:
        """Return the error of each partition that has no answer.

        Args:
            ending: has ended the call; it stands for those of which nobody has said anything.
        """
        problems = dict(self._problems)
        if ending is not None:
            problems |= {tp: ending for tp in self.left if tp not in problems}
        return {tp: problems[tp] for tp in self._partitions if tp in problems}
