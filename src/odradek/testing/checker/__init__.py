"""Checks recorded histories of concurrent producers and consumers for what a log must never do.

A workload records what its clients asked for and what they were told (`history.Recorder`); `check` looks for
proof that the broker, or a client, broke a promise. The anomalies have the names that Jepsen's kafka workload
gave them; the transactional ones are Adya's ("Weak Consistency", 1999). Each is explained where it is looked
for: `writes` (lost, unseen, duplicate, inconsistent offsets, aborted and precommitted reads), `orders`
(nonmonotonic sends and polls, skips, intermediate reads), `cycles` (G0, G1c).

The idea behind all of it: a partition is a totally ordered log, so the offsets that were acknowledged and
polled give the order of its versions, and with it who wrote before whom and who read what. Values have to be
unique in their partition, or a value does not tell who wrote it. Everything takes time near linear in the
number of records.

    python -m odradek.testing.checker HISTORY.jsonl

leaves with 0 if the history is sound, 1 if it is not, and 2 if it cannot be read.
"""

from __future__ import annotations

from odradek.testing.checker.check import check
from odradek.testing.checker.history import (
    Event,
    HistoryError,
    Poll,
    Record,
    Recorder,
    Send,
    dump,
    load,
)
from odradek.testing.checker.report import ALLOWED, ANOMALIES, Anomaly, Report

__all__ = [
    "ALLOWED",
    "ANOMALIES",
    "Anomaly",
    "Event",
    "HistoryError",
    "Poll",
    "Record",
    "Recorder",
    "Report",
    "Send",
    "check",
    "dump",
    "load",
]
