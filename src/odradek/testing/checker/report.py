"""The findings of a check, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from odradek.testing.checker.history import Event, Send

ANOMALIES = {
    "lost-write": "an acknowledged record that consumers have passed and none has seen",
    "unseen": "an acknowledged record behind everything that was polled, which nobody has seen",
    "duplicate": "one sent record at several offsets",
    "inconsistent-offsets": "several values at one offset",
    "unwritten-read": "a polled value that nobody has sent to this partition",
    "G1a": "aborted read: a polled value whose write or transaction failed",
    "precommitted-read": "a transaction polled what it had itself sent and not yet committed",
    "intermediate-read": "G1b: a consumer saw a part of a transaction and passed the rest of it",
    "int-nonmonotonic-send": "within an operation, a later send got a lower offset",
    "nonmonotonic-send": "a process's later operation got a lower offset than its earlier one",
    "int-nonmonotonic-poll": "within an operation, a later record has a lower offset",
    "nonmonotonic-poll": "a consumer's later poll went back, though nothing moved its position",
    "int-poll-skip": "within an operation, a consumer passed over records that are there",
    "poll-skip": "between two polls, a consumer passed over records that are there",
    "G0": "write cycle: transactions that wrote before each other",
    "G1c": "circular information flow: transactions that depend on what each other wrote",
}

ALLOWED = frozenset({"G0"})
"""Writes of transactions are not isolated from each other in Kafka's model: those of two producers mix in
the log.
"""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One proof: `text` says what is wrong, `events` are the numbers of the lines (from 0) that show it."""

    name: str
    text: str
    events: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """`anomalies` in the order of their names in `ANOMALIES`; those named in `allowed` do not make it
    unsound.
    """

    anomalies: tuple[Anomaly, ...]
    allowed: frozenset[str]
    history: Sequence[Event]
    sends: int
    acknowledged: int
    polled: int
    undecided: int

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(anomaly.name for anomaly in self.anomalies))

    @property
    def valid(self) -> bool:
        return all(anomaly.name in self.allowed for anomaly in self.anomalies)

    def to_json(self) -> dict[str, Any]:
        return {
            "valid": self.valid,
            "counts": self.counts,
            "anomalies": [{"name": a.name, "text": a.text, "events": list(a.events)} for a in self.anomalies],
        }

    def summary(self, each: int = 5) -> str:
        """The report for people; at most `each` proofs of a kind are told in full."""
        lines = [
            f"{len(self.history)} events: {self.sends} records sent, {self.acknowledged} acknowledged, "
            f"{self.undecided} with an unknown end; {self.polled} polled.",
        ]
        counts = self.counts
        for name, meaning in ANOMALIES.items():
            if name not in counts:
                continue
            lines.append("")
            lines.append(f"{name}{' (allowed)' if name in self.allowed else ''}: {counts[name]}: {meaning}")
            for anomaly in [a for a in self.anomalies if a.name == name][:each]:
                lines.append(f"  - {anomaly.text}")
                lines += [f"      {describe(number, self.history[number])}" for number in anomaly.events]
        lines.append("")
        lines.append("The history is sound." if self.valid else "The history is NOT sound.")
        return "\n".join(lines)


def describe(number: int, event: Event, most: int = 4) -> str:
    """One event on a line."""
    parts: list[str] = list(event.names)
    for micro in event.micro:
        if isinstance(micro, Send):
            where = "" if micro.offset is None else f" → offset {micro.offset}"
            parts.append(f"send {micro.value!r} to {micro.partition}{where}")
        else:
            shown = [f"{r.partition}@{r.offset} {r.value!r}" for r in micro.records[:most]]
            more = [f"… {len(micro.records) - most} more"] if len(micro.records) > most else []
            parts.append("poll [" + ", ".join(shown + more) + "]")
    return f"#{number} {event.process} {event.type} {event.f} {'; '.join(parts)}".rstrip()
