"""`odradek features`: kafka-features, the levels of a cluster's features (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from odradek.cli.suggesting import SuggestingGroup
from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    echo_json,
    echo_lines,
    json_option,
)
from odradek.errors import KafkaError, OdradekError

METADATA_VERSION = "metadata.version"
#: Kafka's names of the levels of `metadata.version` (the enum `MetadataVersion` of 4.3).
RELEASES: Mapping[int, str] = {
    1: "3.0-IV1",
    2: "3.1-IV0",
    3: "3.2-IV0",
    4: "3.3-IV0",
    5: "3.3-IV1",
    6: "3.3-IV2",
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}

_DONE = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}


class _Tools(Tool, SuggestingGroup):
    """Tools within a tool, as `odradek features … describe`."""


@click.command(cls=_Tools, name="features")
@bootstrap_option()
@command_config_option()
@click.pass_context
def command(ctx: click.Context, bootstrap_server: str, config_file: str | None) -> None:
    """Show and change the levels of the cluster's features."""
    ctx.obj = client_configs(bootstrap_server, config_file, client_id="odradek-features")


@command.command("describe", cls=Tool)
@json_option()
@click.pass_context
def describe(ctx: click.Context, as_json: bool) -> None:
    """Print each feature's supported levels, and the one in force."""
    from odradek import Admin

    with Admin(**ctx.obj) as admin:
        metadata = admin.describe_features()
    epoch = metadata.finalized_features_epoch
    rows = [
        {
            "feature": name,
            "supportedMinVersion": levels.min_version,
            "supportedMaxVersion": levels.max_version,
            "finalizedVersionLevel": (
                metadata.finalized_features[name].max_version if name in metadata.finalized_features else 0
            ),
            "epoch": epoch,
        }
        for name, levels in sorted(metadata.supported_features.items())
    ]
    if as_json:
        echo_json(rows)
        return
    echo_lines(
        f"Feature: {row['feature']:<40}  "
        + "".join(
            f"{column[0].upper()}{column[1:]}: {_level(row['feature'], row[column]):<15}  "
            for column in ("supportedMinVersion", "supportedMaxVersion", "finalizedVersionLevel")
        )
        + f"Epoch: {'-' if epoch is None else epoch}"
        for row in rows
    )


def _level(feature: Any, level: Any) -> str:
    """A level as Kafka's tool writes it: that of the metadata by its release."""
    return RELEASES.get(level, f"UNKNOWN [{level}]") if feature == METADATA_VERSION else str(level)


_features = click.option("--feature", "pairs", multiple=True, metavar="NAME=LEVEL", help="Repeatable.")
_metadata = click.option(
    "--metadata", metavar="RELEASE", help="The level of metadata.version, by its release; deprecated."
)
_dry_run = click.option("--dry-run", is_flag=True, help="Only say whether it could be done.")
_unsafe = click.option("--unsafe", is_flag=True, help="Also where that may lose metadata.")


@command.command("upgrade", cls=Tool)
@_features
@_metadata
@_dry_run
@click.pass_context
def upgrade(ctx: click.Context, pairs: tuple[str, ...], metadata: str | None, dry_run: bool) -> None:
    """Raise the levels of features."""
    _update(ctx, "upgrade", _levels(pairs, metadata), "upgrade", dry_run)


@command.command("downgrade", cls=Tool)
@_features
@_metadata
@_unsafe
@_dry_run
@click.pass_context
def downgrade(
    ctx: click.Context, pairs: tuple[str, ...], metadata: str | None, unsafe: bool, dry_run: bool
) -> None:
    """Lower the levels of features."""
    _update(ctx, "downgrade", _levels(pairs, metadata), _downgrade_type(unsafe), dry_run)


@command.command("disable", cls=Tool)
@click.option("--feature", "names", multiple=True, metavar="NAME", help="Repeatable.")
@_unsafe
@_dry_run
@click.pass_context
def disable(ctx: click.Context, names: tuple[str, ...], unsafe: bool, dry_run: bool) -> None:
    """Lower features to level 0."""
    _update(ctx, "disable", _once([(name, 0) for name in names]), _downgrade_type(unsafe), dry_run)


def _downgrade_type(unsafe: bool) -> str:
    return "unsafe_downgrade" if unsafe else "safe_downgrade"


def _levels(pairs: tuple[str, ...], metadata: str | None) -> dict[str, int]:
    """Read `--feature` and `--metadata`.

    Raises:
        click.UsageError: a word cannot be understood, or a feature is named twice.
    """
    levels = []
    if metadata is not None:
        click.echo(" `metadata` flag is deprecated and may be removed in a future release.")
        known = {name: level for level, name in RELEASES.items()}
        if metadata not in known:
            raise click.UsageError(
                f"Unknown metadata.version {metadata}. Supported metadata.version are {', '.join(known)}"
            )
        levels.append((METADATA_VERSION, known[metadata]))
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.UsageError(f"Can't parse feature=level string {pair}: equals sign not found.")
        try:
            level = int(text)
        except ValueError:
            level = 2**15
        if not -(2**15) <= level < 2**15:
            raise click.UsageError(
                f"Can't parse feature=level string {pair}: unable to parse {text.strip()} as a short."
            )
        levels.append((name.strip(), level))
    return _once(levels)


def _once(levels: list[tuple[str, int]]) -> dict[str, int]:
    seen: dict[str, int] = {}
    for name, level in levels:
        if name in seen:
            raise click.UsageError(f"Feature {name} was specified more than once.")
        seen[name] = level
    return seen


def _update(
    ctx: click.Context, action: str, levels: dict[str, int], upgrade_type: str, dry_run: bool
) -> None:
    """Change the levels, and say of each feature what became of it.

    Raises:
        OdradekError: a level was refused; all stay as they were.
    """
    if not levels:
        raise click.UsageError(f"You must specify at least one feature to {action}")
    from odradek import Admin

    refusal: str | None = None
    with Admin(**ctx.obj) as admin:
        try:
            admin.update_features(levels, upgrade_type=upgrade_type, validate_only=dry_run)
        except KafkaError as error:
            # The client names what it asked about; the line does so, too.
            refusal = str(error).removeprefix("features: ")
    for name, level in sorted(levels.items()):
        to_level = "" if action == "disable" else f" to {level}"
        if refusal is not None:
            click.echo(f"{'Can not' if dry_run else 'Could not'} {action} {name}{to_level}. {refusal}")
        else:
            click.echo(f"{name} {'can be' if dry_run else 'was'} {_DONE[action]}{to_level}.")
    if refusal is not None:
        raise OdradekError(f"{len(levels)} out of {len(levels)} operation(s) failed.")
