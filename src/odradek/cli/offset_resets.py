"""`odradek consumer-groups --reset-offsets`: where a group's offsets are to go, and the moving of them.

A reset is planned first (`plan`), shown always, and done only with `--execute`, as Kafka's tool does.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli.tool import table
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.types import TopicPartition

F = TypeVar("F", bound=Callable[..., Any])
LATEST, EARLIEST = -1, -2
#: The options of which one says where to.
TARGETS = ("to_offset", "to_datetime", "by_duration", "to_earliest", "to_latest", "to_current", "shift_by",
           "from_file")  # fmt: skip


def options(function: F) -> F:
    """The options of `--reset-offsets`."""
    for option in (
        click.option(
            "--topic", "topics", multiple=True, metavar="TOPIC[:PARTITION,…]", help="Whose offsets."
        ),
        click.option("--all-topics", is_flag=True, help="Those of all topics the group has offsets for."),
        click.option("--dry-run", is_flag=True, help="Only show what would be done; the default."),
        click.option("--execute", is_flag=True, help="Do it."),
        click.option("--export", "export", is_flag=True, help="Show it as CSV, for --from-file."),
        click.option("--to-offset", type=int, help="To this offset."),
        click.option(
            "--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help="To the first record from then on."
        ),
        click.option(
            "--by-duration", metavar="PnDTnHnMnS", help="To the first record within so long before now."
        ),
        click.option("--to-earliest", is_flag=True, help="To the earliest offset."),
        click.option("--to-latest", is_flag=True, help="To the latest offset."),
        click.option(
            "--to-current", is_flag=True, help="To the committed offset, the latest where there is none."
        ),
        click.option("--shift-by", type=int, help="So far from the committed offset; may be negative."),
        click.option(
            "--from-file", type=click.Path(exists=True, dir_okay=False), help="To what a CSV file says."
        ),
    ):
        function = option(function)
    return function


def run(admin: Admin, groups: list[str], chosen: dict[str, Any]) -> None:
    """Plan, show and, with `--execute`, commit the new offsets of each group."""
    targets = [name for name in TARGETS if chosen[name] not in (None, False)]
    if len(targets) != 1:
        names = ", ".join("--" + name.replace("_", "-") for name in TARGETS)
        raise click.UsageError(f"--reset-offsets needs exactly one of {names}")
    if chosen["execute"] and chosen["dry_run"]:
        raise click.UsageError("--dry-run and --execute cannot be used together")
    if targets[0] != "from_file" and not chosen["topics"] and not chosen["all_topics"]:
        raise click.UsageError("--reset-offsets needs --topic, --all-topics or --from-file")
    states = admin.describe_groups(groups)
    rows = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    for group in groups:
        found = states[group]
        if found.state not in {"Empty", "Dead"}:
            raise OdradekError(
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is "
                f"{found.state}."
            )
        moves = plan(admin, group, targets[0], chosen)
        if chosen["execute"] and moves:
            from odradek import OffsetAndMetadata

            admin.alter_group_offsets(group, {p: OffsetAndMetadata(offset) for p, offset in moves.items()})
        rows += [[group, p.topic, str(p.partition), str(offset)] for p, offset in sorted(moves.items())]
    if chosen["export"]:
        click.echo(_csv(rows[1:], with_group=len(groups) > 1), nl=False)
        return
    click.echo()
    for line in table(rows, (30, 30, 10, 0)):
        click.echo(line)


def plan(admin: Admin, group: str, target: str, chosen: dict[str, Any]) -> dict[TopicPartition, int]:
    """Partition → its new offset, within what the log holds.

    Args:
        admin: the cluster.
        group: the group.
        target: one of `TARGETS`.
        chosen: the options' values by name.
    """
    if target == "from_file":
        return _clamped(admin, _from_file(Path(chosen["from_file"]), group))
    partitions = _partitions(admin, group, chosen)
    if target == "to_earliest":
        return _offsets(admin, partitions, EARLIEST)
    if target == "to_latest":
        return _offsets(admin, partitions, LATEST)
    if target == "to_offset":
        return _clamped(admin, dict.fromkeys(partitions, chosen["to_offset"]))
    if target in {"to_datetime", "by_duration"}:
        when = (
            parse_datetime(chosen["to_datetime"])
            if target == "to_datetime"
            else int(time.time() * 1000) - parse_duration(chosen["by_duration"])
        )
        found = _offsets(admin, partitions, when)
        ends = _offsets(admin, [p for p, offset in found.items() if offset < 0], LATEST)
        return found | ends
    committed = {p: o.offset for p, o in admin.list_group_offsets(group).items() if o.offset >= 0}
    if target == "shift_by":
        without = [p for p in partitions if p not in committed]
        if without:
            raise OdradekError(
                f"Cannot shift offset for partition {without[0]} since there is no current committed offset"
            )
        return _clamped(admin, {p: committed[p] + chosen["shift_by"] for p in partitions})
    return _clamped(admin, {p: committed[p] for p in partitions if p in committed}) | _offsets(
        admin, [p for p in partitions if p not in committed], LATEST
    )


def _partitions(admin: Admin, group: str, chosen: dict[str, Any]) -> list[TopicPartition]:
    from odradek import TopicPartition

    if chosen["all_topics"]:
        return sorted(admin.list_group_offsets(group))
    out: list[TopicPartition] = []
    for word in chosen["topics"]:
        topic, colon, ids = word.partition(":")
        if colon:
            out += [TopicPartition(topic, int(i)) for i in ids.split(",")]
        else:
            described = admin.describe_topics([topic])[topic]
            out += [TopicPartition(topic, p.partition) for p in described.partitions]
    return sorted(out)


def _offsets(admin: Admin, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    return {p: found.offset for p, found in admin.list_offsets(dict.fromkeys(partitions, timestamp)).items()}


def _clamped(admin: Admin, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Offsets outside the log go to its nearer end, with a warning."""
    first = _offsets(admin, list(wanted), EARLIEST)
    last = _offsets(admin, list(wanted), LATEST)
    out: dict[TopicPartition, int] = {}
    for partition, offset in wanted.items():
        out[partition] = min(max(offset, first[partition]), last[partition])
        if out[partition] != offset:
            word = "lower than earliest" if offset < first[partition] else "higher than latest"
            click.echo(
                f"New offset ({offset}) is {word} offset for topic partition {partition}. "
                f"Value will be set to {out[partition]}",
                err=True,
            )
    return out


def parse_datetime(text: str) -> int:
    """ISO 8601 → epoch milliseconds; UTC where no zone is given.

    Raises:
        click.BadParameter: it is not a date and time.
    """
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not like 2026-01-31T23:59:00.000", param_hint="--to-datetime"
        ) from error
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return round(when.timestamp() * 1000)


_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


def parse_duration(text: str) -> int:
    """ISO 8601 duration of days and less → milliseconds: `P1DT2H30M`.

    Raises:
        click.BadParameter: it is not a duration.
    """
    match = _DURATION.fullmatch(text.upper())
    if match is None or not any(match.groups()):
        raise click.BadParameter(f"{text!r} is not like P1DT2H30M", param_hint="--by-duration")
    parts = {unit: float(value) for unit, value in match.groupdict().items() if value}
    return round(timedelta(**parts).total_seconds() * 1000)


def _from_file(path: Path, group: str) -> dict[TopicPartition, int]:
    """CSV rows `topic,partition,offset` or `group,topic,partition,offset`."""
    from odradek import TopicPartition

    out: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(path.read_text().splitlines()), 1):
        if len(row) == 4 and row[0].strip() != group:
            continue
        try:
            topic, partition, offset = row[-3:]
            out[TopicPartition(topic.strip(), int(partition))] = int(offset)
        except ValueError as error:
            raise OdradekError(
                f"{path} line {number}: not topic,partition,offset: {','.join(row)}"
            ) from error
    return out


def _csv(rows: list[list[str]], *, with_group: bool) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows if with_group else [row[1:] for row in rows])
    return out.getvalue()
