"""`odradek delete-records`: kafka-delete-records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.tool import Tool, bootstrap_option, client_configs, command_config_option, echo_lines
from odradek.errors import KafkaError, OdradekError

if TYPE_CHECKING:
    from odradek import TopicPartition

_VERSION = 1


@click.command(cls=Tool, name="delete-records")
@bootstrap_option()
@command_config_option()
@click.option(
    "--offset-json-file",
    "plan",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Where to cut: {"partitions": [{"topic": "t", "partition": 1, "offset": 10}], "version": 1}. '
    "The record with that offset is the first that stays; -1 deletes all.",
)
def command(bootstrap_server: str, config_file: str | None, plan: Path) -> None:
    """Delete the records of partitions before given offsets."""
    offsets = _read(plan)
    from odradek import Admin

    click.echo("Executing records delete operation")
    errors: dict[TopicPartition, KafkaError] = {}
    low_watermarks: dict[TopicPartition, int] = {}
    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-delete-records")) as admin:
        for partition, offset in sorted(offsets.items()):
            # One after the other: a partition that cannot be cut says nothing of the others.
            try:
                low_watermarks |= admin.delete_records({partition: offset})
            except KafkaError as error:
                errors[partition] = error
    click.echo("Records delete operation completed:")
    echo_lines(
        f"partition: {p}\tlow_watermark: {low_watermarks[p]}"
        if p in low_watermarks
        else f"partition: {p}\terror: {errors[p]}"
        for p in sorted(offsets)
    )
    if errors:
        raise OdradekError(f"{len(errors)} of {len(offsets)} partitions keep their records")


def _read(plan: Path) -> dict[TopicPartition, int]:
    """Read which records shall go.

    Raises:
        click.ClickException: the file does not say it, or says two things of one partition.
    """

    try:
        wanted = json.loads(plan.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.ClickException(f"{plan}: The input string is not a valid JSON: {error}") from error
    if not isinstance(wanted, dict) or not isinstance(wanted.get("partitions"), list):
        raise click.ClickException(f"{plan}: Missing partitions field")
    if wanted.get("version", _VERSION) != _VERSION:
        raise click.ClickException(f"{plan}: Not supported version field value {wanted['version']}")
    offsets: dict[TopicPartition, int] = {}
    twice: set[TopicPartition] = set()
    for entry in wanted["partitions"]:
        partition, offset = _cut(plan, entry)
        if partition in offsets:
            twice.add(partition)
        offsets[partition] = offset
    if twice:
        names = ",".join(map(str, sorted(twice)))
        raise click.ClickException(f"{plan}: Offset json file contains duplicate topic partitions: {names}")
    return offsets


def _cut(plan: Path, entry: Any) -> tuple[TopicPartition, int]:
    from odradek import TopicPartition

    kinds = {"topic": str, "partition": int, "offset": int}
    if not isinstance(entry, dict) or any(type(entry.get(name)) is not kind for name, kind in kinds.items()):
        raise click.ClickException(f"{plan}: {entry!r} does not name a topic, a partition and an offset")
    return TopicPartition(entry["topic"], entry["partition"]), entry["offset"]
