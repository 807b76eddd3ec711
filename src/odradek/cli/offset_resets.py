"""`odradek consumer-groups --reset-offsets` and `--delete-offsets`: where a group's offsets are to go.

A reset is planned first (`plan`), shown always, and done only with `--execute`, as Kafka's tool does.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli.group_tables import end_offsets
from odradek.cli.tool import echo_lines, table
from odradek.errors import KafkaError, OdradekError

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


def check(chosen: Mapping[str, Any]) -> str:
    """Return which of `TARGETS` is chosen.

    Raises:
        click.UsageError: none or several, or words that do not go together.
    """
    targets = [name for name in TARGETS if chosen[name] not in (None, False)]
    if len(targets) != 1:
        names = ", ".join(f"[{name.replace('_', '-')}]" for name in TARGETS)
        raise click.UsageError(f"Option [reset-offsets] takes exactly one of these options: {names}")
    if chosen["execute"] and chosen["dry_run"]:
        raise click.UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if chosen["topics"] and chosen["all_topics"]:
        raise click.UsageError("Only one of the reset scopes may be given: --all-topics, --topic.")
    if targets[0] != "from_file" and not chosen["topics"] and not chosen["all_topics"]:
        raise click.UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    if targets[0] == "to_datetime":
        parse_datetime(chosen["to_datetime"])
    if targets[0] == "by_duration":
        parse_duration(chosen["by_duration"])
    return targets[0]


def run(admin: Admin, groups: list[str], target: str, chosen: Mapping[str, Any]) -> None:
    """Plan, show and, with `--execute`, commit the new offsets of each group.

    Groups that are in use are left alone and named in the error; the others are done before.

    Raises:
        OdradekError: a group is in use, or partitions do not exist.
    """
    states = admin.describe_groups(groups)
    if not (chosen["execute"] or chosen["dry_run"] or chosen["export"]):
        click.echo("WARN: No action will be performed as the --execute option is missing.", err=True)
    rows = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    problems = []
    for group in groups:
        if states[group].state not in {"Empty", "Dead"}:
            problems.append(
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is "
                f"{states[group].state}."
            )
            continue
        moves = plan(admin, group, target, chosen, alone=len(groups) == 1)
        if moves is None:
            problems.append(f"No reset plan for group {group} found")
            continue
        if chosen["execute"] and moves:
            from odradek import OffsetAndMetadata

            admin.alter_group_offsets(group, {p: OffsetAndMetadata(offset) for p, offset in moves.items()})
        rows += [[group, p.topic, str(p.partition), str(offset)] for p, offset in sorted(moves.items())]
    if chosen["export"]:
        click.echo(_csv(rows[1:], with_group=len(groups) > 1), nl=False)
    elif len(rows) > 1 or not problems:
        echo_lines(["", *table(rows, (15, 15, 10, 0))])
    if problems:
        raise OdradekError("\n".join(problems))


def plan(
    admin: Admin, group: str, target: str, chosen: Mapping[str, Any], *, alone: bool = True
) -> dict[TopicPartition, int] | None:
    """Partition → its new offset, within what the log holds; None where the file says nothing of the group.

    Args:
        admin: the cluster.
        group: the group.
        target: one of `TARGETS`.
        chosen: the options' values by name.
        alone: whether it is the only group, which a file then need not name.
    """
    if target == "from_file":
        offsets = _from_file(Path(chosen["from_file"]), group, alone=alone)
        return _clamped(admin, offsets) if offsets else None
    partitions = _partitions(admin, group, chosen)
    if target == "to_earliest":
        return end_offsets(admin, partitions, EARLIEST)
    if target == "to_latest":
        return end_offsets(admin, partitions, LATEST)
    if target == "to_offset":
        return _clamped(admin, dict.fromkeys(partitions, chosen["to_offset"]))
    if target in {"to_datetime", "by_duration"}:
        when = (
            parse_datetime(chosen["to_datetime"])
            if target == "to_datetime"
            else max(0, int(time.time() * 1000) - parse_duration(chosen["by_duration"]))
        )
        return _by_time(admin, partitions, when)
    committed = {p: o.offset for p, o in admin.list_group_offsets(group).items() if o.offset >= 0}
    without = [p for p in partitions if p not in committed]
    if target == "shift_by":
        if without:
            raise OdradekError(
                f"Cannot shift offset for partition {without[0]} since there is no current committed offset"
            )
        return _clamped(admin, {p: committed[p] + chosen["shift_by"] for p in partitions})
    return {p: committed[p] for p in partitions if p in committed} | end_offsets(admin, without, LATEST)


def _partitions(admin: Admin, group: str, chosen: Mapping[str, Any]) -> list[TopicPartition]:
    """The partitions that `--topic` or `--all-topics` means, all of which exist."""
    from odradek import TopicPartition

    described = admin.describe_topics()
    there = {TopicPartition(p.topic, p.partition) for topic in described.values() for p in topic.partitions}
    if chosen["all_topics"]:
        committed = sorted(admin.list_group_offsets(group))
        for gone in sorted({p.topic for p in committed} - set(described)):
            click.echo(f"WARN: topic '{gone}' does not exist any more: its offsets are left alone", err=True)
        return [p for p in committed if p in there]
    partitions: set[TopicPartition] = set()
    for word in chosen["topics"]:
        topic, colon, ids = word.partition(":")
        if topic not in described:
            raise OdradekError(f"Topic '{topic}' does not exist")
        if colon:
            partitions |= {TopicPartition(topic, _partition(i, word)) for i in ids.split(",")}
        else:
            partitions |= {TopicPartition(topic, p.partition) for p in described[topic].partitions}
    absent = ", ".join(str(p) for p in sorted(partitions - there))
    if absent:
        raise OdradekError(f'The partitions "{absent}" do not exist')
    return sorted(partitions)


def _partition(text: str, word: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise click.BadParameter(
            f"Invalid partition '{text}' specified in topic arg '{word}'", param_hint="--topic"
        ) from error


def _by_time(admin: Admin, partitions: list[TopicPartition], when: int) -> dict[TopicPartition, int]:
    """The first records of that time or later; the end of the log where all are older."""
    offsets = end_offsets(admin, partitions, when)
    older = [p for p, offset in offsets.items() if offset < 0]
    for p in older:
        click.echo(
            f"Warn: Partition {p.partition} from topic {p.topic} has no record of that time or later. "
            "Falling back to latest known offset.",
            err=True,
        )
    return offsets | end_offsets(admin, older, LATEST)


def _clamped(admin: Admin, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Offsets outside the log go to its nearer end, with a warning."""
    first = end_offsets(admin, offsets, EARLIEST)
    last = end_offsets(admin, offsets, LATEST)
    absent = ", ".join(str(p) for p in sorted(offsets) if p not in first or p not in last)
    if absent:
        raise OdradekError(f'The partitions "{absent}" do not exist, or have no leader')
    out: dict[TopicPartition, int] = {}
    for partition, offset in offsets.items():
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


def _from_file(path: Path, group: str, *, alone: bool) -> dict[TopicPartition, int]:
    """CSV rows `topic,partition,offset` of the only group, or `group,topic,partition,offset`."""
    from odradek import TopicPartition

    out: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(path.read_text(encoding="utf-8").splitlines()), 1):
        if not row:
            continue
        try:
            if len(row) == 3 and not alone:
                raise ValueError("several groups, and the row names none")
            topic, partition, offset = row[-3:]
            entry = TopicPartition(topic.strip(), int(partition)), int(offset)
            if len(row) > 4:
                raise ValueError("too many columns")
        except ValueError as error:
            raise OdradekError(
                f"{path} line {number}: not [group,]topic,partition,offset: {','.join(row)}"
            ) from error
        if len(row) == 3 or row[0].strip() == group:
            out[entry[0]] = entry[1]
    return out


def _csv(rows: list[list[str]], *, with_group: bool) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows if with_group else [row[1:] for row in rows])
    return out.getvalue()


def delete_offsets(admin: Admin, group: str, words: Iterable[str]) -> None:
    """`--delete-offsets`: forget what a group has committed for topics (KIP-496), and print a table of it.

    Raises:
        OdradekError: the broker does not serve OffsetDelete, or a partition's offset could not be deleted.
    """
    if not any(api.api_name == "OffsetDelete" for api in admin.api_versions()):
        raise OdradekError(
            "The broker does not serve OffsetDelete: offsets of single topics cannot be deleted there. "
            "A group without members can be deleted whole, by --delete."
        )
    partitions = _partitions(admin, group, {"topics": tuple(words), "all_topics": False})
    problems: dict[TopicPartition, KafkaError] = {}
    try:
        admin.delete_group_offsets(group, partitions)
        click.echo(f"Request succeeded for deleting offsets from group {group}.")
    except KafkaError as error:
        # Without a list the error is the group's, and holds for all.
        problems = getattr(error, "errors", None) or dict.fromkeys(partitions, error)
    rows = [["TOPIC", "PARTITION", "STATUS"]]
    for p in partitions:
        status = f"Error: {problems[p]}" if p in problems else "Successful"
        rows.append([p.topic, str(p.partition), status])
    echo_lines(["", *table(rows, (15, 10, 15))])
    if problems:
        raise OdradekError(f"{len(problems)} of {len(partitions)} offsets could not be deleted")
