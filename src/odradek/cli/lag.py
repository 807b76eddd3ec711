"""`odradek lag`: the lag of groups, now or from moment to moment."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from odradek.cli.group_tables import MISSING, consumer_groups, end_offsets, number_text
from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    echo_json,
    echo_lines,
    json_option,
    table,
)
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.types import TopicPartition

#: Moves a terminal's cursor to the upper left corner, and clears what is below.
REDRAW = "\x1b[H\x1b[J"
HEAD = [
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "READ/S",
    "WRITTEN/S",
    "CLIENT-ID",
]


class Row(NamedTuple):
    """A group in a partition; None is what is not known, or was not committed."""

    group: str
    partition: TopicPartition
    offset: int | None
    end: int | None
    client_id: str | None

    @property
    def lag(self) -> int | None:
        """Return how many records are left to read."""
        return None if self.offset is None or self.end is None else max(0, self.end - self.offset)


class Sample(NamedTuple):
    """All rows at a moment (seconds of a clock that only goes forward)."""

    at_s: float
    rows: tuple[Row, ...]


class Rates(NamedTuple):
    """Records a second since the sample before."""

    read: float | None = None
    written: float | None = None


@click.command(cls=Tool, name="lag")
@bootstrap_option()
@command_config_option()
@click.option("--group", "groups", multiple=True, help="A group; repeatable. All if left out.")
@click.option("--topic", "topics", multiple=True, help="Only of this topic; repeatable.")
@click.option(
    "--interval-ms", type=click.IntRange(100), default=2000, show_default=True, help="Between looks."
)
@click.option("--once", is_flag=True, help="Look once and end.")
@json_option()
def command(
    bootstrap_server: str,
    config_file: str | None,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    interval_ms: int,
    once: bool,
    as_json: bool,
) -> None:
    """Show how far groups are behind, the greatest lag first.

    On a terminal the table is drawn anew until Ctrl-C.
    """
    from odradek import Admin

    before: Sample | None = None
    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-lag")) as admin:
        while True:
            sample = look(admin, groups, topics)
            rates = rates_since(before, sample)
            if as_json:
                echo_json([as_object(row, rates[row.group, row.partition]) for row in in_order(sample.rows)])
            elif sys.stdout.isatty() and not once:
                draw(sample, rates)
            else:
                echo_lines([*lines(sample, rates), *([] if once else [""])])
            if once:
                return
            before = sample
            threading.Event().wait(interval_ms / 1000)


def look(admin: Admin, groups: Sequence[str], topics: Sequence[str]) -> Sample:
    """Ask how far groups are.

    Raises:
        OdradekError: a group that is named does not exist.
    """
    names = list(groups) or [group.group_id for group in consumer_groups(admin)]
    described = admin.describe_groups(names) if names else {}
    missing = [name for name in groups if described[name].state == "Dead"]
    if missing:
        raise OdradekError("\n".join(f"Consumer group '{name}' does not exist." for name in missing))
    offsets: dict[tuple[str, TopicPartition], int | None] = {}
    clients: dict[tuple[str, TopicPartition], str] = {}
    for name, group in described.items():
        for member in group.members:
            for tp in member.assignment:
                clients[name, tp] = member.client_id
                offsets[name, tp] = None
        for tp, at in admin.list_group_offsets(name).items():
            if at.offset >= 0:
                offsets[name, tp] = at.offset
    chosen = {key: offset for key, offset in offsets.items() if not topics or key[1].topic in topics}
    # One question for all groups, after theirs: an end is never older than an offset.
    ends = end_offsets(admin, {tp for _, tp in chosen})
    rows = (Row(name, tp, at, ends.get(tp), clients.get((name, tp))) for (name, tp), at in chosen.items())
    return Sample(time.monotonic(), tuple(rows))


def rates_since(before: Sample | None, now: Sample) -> dict[tuple[str, TopicPartition], Rates]:
    """Return the rates of all rows; unknown for those that were not there before."""
    then = {(row.group, row.partition): row for row in before.rows} if before is not None else {}
    passed_s = 0.0 if before is None else now.at_s - before.at_s

    def rate(old: int | None, new: int | None) -> float | None:
        return None if old is None or new is None or passed_s <= 0 else max(0, new - old) / passed_s

    rates = {}
    for row in now.rows:
        key = (row.group, row.partition)
        old = then.get(key)
        rates[key] = Rates() if old is None else Rates(rate(old.offset, row.offset), rate(old.end, row.end))
    return rates


def in_order(rows: Iterable[Row]) -> list[Row]:
    """The rows, the greatest lag first; what is not known is last."""
    return sorted(rows, key=lambda row: (1 if row.lag is None else -row.lag, row.group, row.partition))


def lines(sample: Sample, rates: Mapping[tuple[str, TopicPartition], Rates]) -> list[str]:
    """The table of a sample."""
    rows = [HEAD]
    for row in in_order(sample.rows):
        read, written = rates[row.group, row.partition]
        numbers = [number_text(number) for number in (row.offset, row.end, row.lag)]
        paces = [MISSING if pace is None else f"{pace:.1f}" for pace in (read, written)]
        where = [row.partition.topic, str(row.partition.partition)]
        rows.append([row.group, *where, *numbers, *paces, row.client_id or MISSING])
    return list(table(rows, (15, 15, 10, 15, 15, 10, 10, 10, 0)))


def draw(sample: Sample, rates: Mapping[tuple[str, TopicPartition], Rates]) -> None:
    """Fill the terminal with as much of the table as there is room for."""
    width, height = shutil.get_terminal_size()
    rows = lines(sample, rates)
    total = sum(row.lag or 0 for row in sample.rows)
    shown = rows[: max(2, height - 2)]
    left = len(rows) - len(shown)
    foot = f"total lag: {total}" + (f", {left} rows more" if left else "")
    sys.stdout.write(REDRAW + "\n".join(line[:width] for line in (*shown, foot)))
    sys.stdout.flush()


def as_object(row: Row, rates: Rates) -> dict[str, Any]:
    """The object of `--json` for a row."""
    return {
        "group": row.group,
        "topic": row.partition.topic,
        "partition": row.partition.partition,
        "currentOffset": row.offset,
        "logEndOffset": row.end,
        "lag": row.lag,
        "readPerSecond": rates.read,
        "writtenPerSecond": rates.written,
        "clientId": row.client_id,
    }
