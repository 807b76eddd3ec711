"""`odradek storage`: kafka-storage, a look at a broker's data folders while it is stopped."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.suggesting import SuggestingGroup
from odradek.cli.tool import Tool, echo_json, echo_lines, json_option, random_id, read_properties
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from collections.abc import Mapping

META_PROPERTIES = "meta.properties"
#: As Kafka's default of `log.dirs`.
_DEFAULT_FOLDER = "/tmp/kafka-logs"
_VERSIONS = ("0", "1")


class _Tools(Tool, SuggestingGroup):
    """Tools within a tool, as `odradek storage info …`."""


@click.command(cls=_Tools, name="storage")
def command() -> None:
    """Look at data folders, give them a cluster's id; make ids."""


_config_option = click.option(
    "--config",
    "-c",
    "config_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="The broker's server.properties.",
)


@command.command("random-uuid", cls=Tool)
def random_uuid() -> None:
    """Print an id for a cluster."""
    click.echo(random_id())


@command.command("info", cls=Tool)
@_config_option
@json_option()
def info(config_file: str, as_json: bool) -> None:
    """Print whose the data folders are, and what is the matter with them; exit code 1 if something is."""
    folders = folders_of(read_properties(config_file))
    readable, problems = [], []
    first: Mapping[str, str] | None = None
    for folder in folders:
        if not folder.is_dir():
            problems.append(f"{folder} {'is not a directory' if folder.exists() else 'does not exist'}")
            continue
        readable.append(str(folder))
        path = folder / META_PROPERTIES
        if not path.exists():
            problems.append(f"{folder} is not formatted.")
            continue
        try:
            meta = _meta(path)
        except (OSError, ValueError) as error:
            problems.append(f"Error loading {path}: {error}")
            continue
        if first is None:
            first = meta
        elif first.get("cluster.id") != meta.get("cluster.id"):
            problems.append("Mismatched cluster IDs between storage directories.")
        elif _node_id(first) != _node_id(meta):
            problems.append("Mismatched node IDs between storage directories.")
    if as_json:
        echo_json({"directories": readable, "metadata": first, "problems": problems})
    else:
        echo_lines(_info_lines(readable, first, problems))
    if problems:
        raise click.exceptions.Exit(1)


def _info_lines(readable: list[str], meta: Mapping[str, str] | None, problems: list[str]) -> list[str]:
    lines = []
    if readable:
        lines += ["Found log directory:" if len(readable) == 1 else "Found log directories:"]
        lines += [*(f"  {folder}" for folder in readable), ""]
    if meta is not None:
        pairs = ", ".join(f"{key}={meta[key]}" for key in sorted(meta))
        lines += [f"Found metadata: {{{pairs}}}", ""]
    if problems:
        lines += ["Found problem:" if len(problems) == 1 else "Found problems:"]
        lines += [*(f"  {problem}" for problem in problems), ""]
    return lines


@command.command("format", cls=Tool)
@_config_option
@click.option("--cluster-id", "-t", required=True, help="The cluster's id, as of `random-uuid`.")
@click.option("--ignore-formatted", "-g", is_flag=True, help="Pass over folders that have an id already.")
def format_(config_file: str, cluster_id: str, ignore_formatted: bool) -> None:
    """Write a cluster's id into empty data folders, before their broker starts for the first time.

    This need not be done: a broker makes its folders itself. It is for a cluster whose id is to be known
    before.
    """
    from odradek.wire.primitives import uuid_from_text

    try:
        uuid_from_text(cluster_id)
    except ValueError as error:
        raise click.UsageError(
            f"Cluster ID string {cluster_id} does not appear to be a valid UUID: {error}"
        ) from error
    configs = read_properties(config_file)
    if configs.get("process.roles"):
        raise OdradekError(
            f"{config_file} is for a cluster in KRaft mode (process.roles), whose folders Kafka's own "
            "kafka-storage.sh formats"
        )
    node = configs.get("broker.id", configs.get("node.id", ""))
    if not node.isdecimal():
        raise OdradekError(f"{config_file} does not say which broker the folders are of: set broker.id")
    folders = folders_of(configs)
    formatted = [folder for folder in folders if (folder / META_PROPERTIES).exists()]
    if formatted and not ignore_formatted:
        raise OdradekError(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this "
            "directory and format the others."
        )
    left = [folder for folder in folders if folder not in formatted]
    if not left:
        click.echo("All of the log directories are already formatted.")
    for folder in left:
        click.echo(f"Formatting {folder}.")
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / META_PROPERTIES, {"version": "0", "broker.id": node, "cluster.id": cluster_id})


def folders_of(configs: Mapping[str, str]) -> list[Path]:
    """The data folders that a server.properties names, sorted as Kafka's tool does."""
    text = configs.get("log.dirs") or configs.get("log.dir") or _DEFAULT_FOLDER
    return [Path(name) for name in sorted({part.strip() for part in text.split(",")}) if name]


def _meta(path: Path) -> dict[str, str]:
    from odradek.util.properties import load_properties

    meta = load_properties(str(path))
    version = meta.get("version", "0")
    if version not in _VERSIONS:
        raise ValueError(f"version {version} is not known")
    return meta


def _node_id(meta: Mapping[str, str]) -> str | None:
    return meta.get("broker.id", meta.get("node.id"))


def _write(path: Path, pairs: Mapping[str, str]) -> None:
    """Write a file so that it is whole or absent, whatever happens meanwhile."""
    when = datetime.now(UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    text = "".join(f"{line}\n" for line in ("#", f"#{when}", *(f"{k}={v}" for k, v in pairs.items())))
    beside = path.with_name(f"{path.name}.tmp")
    with beside.open("w", encoding="latin-1") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
