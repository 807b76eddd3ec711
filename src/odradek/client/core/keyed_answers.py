"""The answers of brokers about several things, which are asked about until nothing can pass any more.

The keys are what is asked about: partitions of their leaders, groups and transactional ids of coordinators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

from odradek.client.errors import left_out
from odradek.errors import KafkaError

K = TypeVar("K")
T = TypeVar("T")


class KeyedAnswers(Generic[K, T]):
    """The answers of one call.

    Attributes:
        answers: those of keys that have one.
        left: the keys to ask about, or to ask about again, in order.
    """

    def __init__(self, keys: Iterable[K]) -> None:
        self.answers: dict[K, T] = {}
        self.left: dict[K, None] = dict.fromkeys(keys)
        self._keys = tuple(self.left)
        # The last error of each that has no answer.
        self._problems: dict[K, KafkaError] = {}

    def take(
        self,
        asked: Collection[K],
        told: Mapping[K, T | KafkaError],
        *,
        may_pass: bool,
    ) -> None:
        """Take what a broker told.

        Args:
            asked: the keys that it had to tell about.
            told: its answers and errors.
            may_pass: whether an error that is retriable passes when it is asked again.
        """
        said = {**told, **left_out(asked, told)}
        for key in asked:
            answer = said[key]
            if not isinstance(answer, KafkaError):
                self.answers[key] = answer
                self._problems.pop(key, None)
            else:
                self._problems[key] = answer
                if answer.retriable and may_pass:
                    continue
            del self.left[key]

    def raise_passing(self) -> None:
        """Raise the error of the first key that is left, if any is."""
        for key in self.left:
            raise self._problems[key]

    def problems(self, ending: KafkaError | None = None) -> dict[K, KafkaError]:
        """Return the error of each key that has no answer.

        Args:
            ending: has ended the call; it stands for those of which nobody has said anything.
        """
        problems = dict(self._problems)
        if ending is not None:
            problems |= {key: ending for key in self.left if key not in problems}
        return {key: problems[key] for key in self._keys if key in problems}
