"""Was a round sound: its history, and what a history does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.client.types import TopicPartition
from odradek.testing.checker.history import Record
from odradek.testing.checker.report import Report
from odradek.testing.workload.plan import COPIES, place_of

_MOST_TOLD = 10


@dataclass(frozen=True)
class Verdict:
    """The end of a round.

    Attributes:
        seed: the round's.
        report: the checker's, over the whole history.
        copies: what was copied never, or more than once, in words.
        hanging: partitions with a transaction that nobody ends: last stable offset and end.
        counts: what happened how often.
    """

    seed: int
    report: Report
    copies: tuple[str, ...]
    hanging: Mapping[TopicPartition, tuple[int, int]]
    counts: Counter[str]

    @property
    def sound(self) -> bool:
        """Return whether every promise was kept."""
        return self.report.valid and not self.copies and not self.hanging

    @property
    def crashes(self) -> int:
        """Clients, processes of clients and brokers that were killed."""
        return sum(n for what, n in self.counts.items() if what.startswith(("crash", "kill")))

    def summary(self) -> str:
        """For people."""
        lines = [f"seed {self.seed}: {self.crashes} crashes"]
        lines += [f"  {n:>6} {what}" for what, n in sorted(self.counts.items())]
        # Of what is allowed (G0) the number is enough.
        lines += [self.report.summary(0 if self.report.valid else 3)]
        lines += [f"not copied exactly once: {copy}" for copy in self.copies[:_MOST_TOLD]]
        lines += [f"{tp}: stable up to {lso}, ends at {end}" for tp, (lso, end) in self.hanging.items()]
        lines += ["sound" if self.sound else "NOT SOUND"]
        return "\n".join(lines)


def wrong_copies(records: Iterable[Record]) -> list[str]:
    """Return which records do not have exactly one copy.

    Args:
        records: all that is committed.
    """
    values: dict[str, list[str]] = {topic: [] for topic in COPIES}
    for record in records:
        values[place_of(record.partition)[0]].append(str(record.value))
    wrong = []
    for source, target in COPIES.items():
        if target is None:
            continue
        copies = Counter(value.rpartition(">")[0] for value in values[target])
        wrong += [
            f"{value!r} of {source} is {copies[value]} times in {target}"
            for value in values[source]
            if copies[value] != 1
        ]
        strange = copies.keys() - set(values[source])
        wrong += [f"{value!r} is in {target}, and was never in {source}" for value in sorted(strange)]
    return wrong
