"""`odradek get-offsets`: kafka-get-offsets."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    echo_json,
    echo_lines,
    ignored_option,
    json_option,
    matching,
)
from odradek.errors import OdradekError

#: What `--time` may say besides a timestamp (epoch ms): Kafka's names and the numbers of ListOffsets.
TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}


@click.command(cls=Tool, name="get-offsets")
@bootstrap_option("--broker-list")
@command_config_option()
@click.option("--topic", help="A topic or a regular expression; all topics if left out.")
@click.option("--partitions", help="Partition ids, with commas; all if left out.")
@click.option(
    "--topic-partitions", metavar="TOPIC:FROM-TO,…", help="Topics with partition ranges, with commas."
)
@click.option(
    "--time", "when", default="latest", show_default=True, help="latest, earliest, max-timestamp or ms."
)
@click.option("--exclude-internal-topics", is_flag=True, help="Leave internal topics out.")
@json_option()
@ignored_option("--max-wait-ms", "requests have the client's time limits")
@ignored_option("--offsets", "each partition has one offset for a time")
def command(
    bootstrap_server: str,
    config_file: str | None,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    when: str,
    exclude_internal_topics: bool,
    as_json: bool,
) -> None:
    """Print TOPIC:PARTITION:OFFSET for topic partitions."""
    if topic_partitions and (topic or partitions):
        raise click.UsageError("--topic-partitions cannot be used with --topic or --partitions")
    timestamp = _time(when)
    is_chosen = _range_filter(topic_partitions) if topic_partitions else _plain_filter(topic, partitions)
    from odradek import Admin, TopicPartition

    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-get-offsets")) as admin:
        described = admin.describe_topics()
        chosen = [
            p
            for name, description in sorted(described.items())
            if not (exclude_internal_topics and description.is_internal)
            for p in sorted(description.partitions, key=lambda p: p.partition)
            if is_chosen(name, p.partition)
        ]
        if not chosen:
            raise OdradekError("Could not match any topic-partitions with the specified filters")
        for p in chosen:
            if p.leader < 0:
                click.echo(f"Skip getting offsets for {p.topic}-{p.partition}: it has no leader", err=True)
        led = [TopicPartition(p.topic, p.partition) for p in chosen if p.leader >= 0]
        offsets = admin.list_offsets(dict.fromkeys(led, timestamp)) if led else {}
    if as_json:
        rows = ((p, offsets[p]) for p in led)
        echo_json(
            [
                {"topic": p.topic, "partition": p.partition, "offset": at.offset if at.offset >= 0 else None}
                for p, at in rows
            ]
        )
        return
    # No record is that young: no line, as with Kafka's tool since 3.0.
    echo_lines(f"{p.topic}:{p.partition}:{offsets[p].offset}" for p in led if offsets[p].offset >= 0)


def _time(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        when = int(text)
    except ValueError:
        when = min(TIMES.values()) - 1
    if when < min(TIMES.values()):
        names = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
        raise click.BadParameter(
            f"Malformed time argument {text}. Please use {names}, or a timestamp in milliseconds",
            param_hint="--time",
        )
    return when


def _plain_filter(topic: str | None, partitions: str | None) -> Callable[[str, int], bool]:
    try:
        ids = {int(p) for p in partitions.split(",")} if partitions else None
    except ValueError as error:
        raise click.BadParameter(
            f"expects a comma separated list of numeric partition ids, but received: {partitions}",
            param_hint="--partitions",
        ) from error

    def wanted(name: str, partition: int) -> bool:
        return (topic is None or bool(matching(topic, [name]))) and (ids is None or partition in ids)

    return wanted


_RANGE = re.compile(r"(?P<topic>[^:,]*)(?::(?P<one>\d+)$|:(?P<least>\d*)-(?P<end>\d*)$|:?$)")


def _range_filter(text: str) -> Callable[[str, int], bool]:
    """`clicks:0-2,views:5,orders` (an upper bound is not included), as Kafka's tool reads it."""
    rules = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise click.BadParameter(f"{part!r} is not TOPIC:FROM-TO", param_hint="--topic-partitions")
        if match["one"]:
            rules.append((match["topic"], int(match["one"]), int(match["one"]) + 1))
        else:
            rules.append((match["topic"], int(match["least"] or 0), int(match["end"] or 2**31)))

    def wanted(name: str, partition: int) -> bool:
        return any(
            (not topic or bool(matching(topic, [name]))) and least <= partition < end
            for topic, least, end in rules
        )

    return wanted
