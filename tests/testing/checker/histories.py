"""Histories in a few words."""

from __future__ import annotations

from odradek.testing.checker import Event, Poll, Record, Send


def send(value: str, offset: int | None = None, partition: str = "t-0") -> Send:
    return Send(partition, value, offset)


def poll(*records: tuple[int, str], partition: str = "t-0") -> Poll:
    return Poll(tuple(Record(partition, offset, value) for offset, value in records))


def work(process: str, f: str, *micro: Send | Poll, type: str = "ok") -> list[Event]:
    """An operation: invocation and end at once."""
    begun = tuple(Send(m.partition, m.value) if isinstance(m, Send) else Poll() for m in micro)
    return [Event(process, "invoke", f, begun), Event(process, type, f, tuple(micro))]


def control(process: str, f: str, *names: str) -> list[Event]:
    return [Event(process, "info", f, names=names)]
