"""A history in, a report out."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.testing.checker import cycles, orders, writes
from odradek.testing.checker.history import Event
from odradek.testing.checker.operations import gather
from odradek.testing.checker.report import ALLOWED, ANOMALIES, Report


def check(history: Iterable[Event], *, allowed: Iterable[str] = ALLOWED, write_order: bool = False) -> Report:
    """Look for every anomaly in `history`.

    `allowed`: names of anomalies that are told without making the history unsound. `write_order`: let the
    order of writes take part in G1c (see `cycles`).

    Raises:
        HistoryError: the events do not make a history.
        ValueError: a name in `allowed` is unknown.
    """
    allowed = frozenset(allowed)
    if allowed - ANOMALIES.keys():
        raise ValueError(f"no such anomaly: {', '.join(sorted(allowed - ANOMALIES.keys()))}")
    facts = gather(history)
    anomalies = [*writes.find(facts), *orders.find(facts), *cycles.find(facts, write_order)]
    place = {name: number for number, name in enumerate(ANOMALIES)}
    anomalies.sort(key=lambda anomaly: place[anomaly.name])
    everything = [write for values in facts.writes.values() for write in values.values()]
    return Report(
        tuple(anomalies),
        allowed,
        facts.history,
        sends=sum(len(operation.sends) for operation in facts.operations),
        acknowledged=sum(write.fate == "ok" for write in everything),
        polled=sum(len(operation.records) for operation in facts.operations),
        undecided=sum(write.fate == "info" for write in everything),
    )
