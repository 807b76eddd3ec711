"""`odradek groups`: kafka-groups, the groups of every type (KIP-1043)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    echo_json,
    echo_lines,
    json_option,
)

if TYPE_CHECKING:
    from odradek.client.types import GroupListing

TYPES = ("classic", "consumer", "share", "streams")
#: What Kafka's tool prints for a type.
_TYPE_NAMES = {name: name.capitalize() for name in TYPES}


@click.command(cls=Tool, name="groups")
@bootstrap_option()
@command_config_option()
@click.option("--list", "list_", is_flag=True, help="List the groups.")
@click.option(
    "--group-type",
    type=click.Choice(TYPES, case_sensitive=False),
    help="Only groups of a type.",
)
@click.option("--protocol", help="Only groups of a protocol type, such as consumer or connect.")
@click.option(
    "--consumer",
    is_flag=True,
    help="Only consumer groups of either protocol, and groups that have nothing but offsets.",
)
@click.option("--share", is_flag=True, help="Only share groups.")
@click.option("--streams", is_flag=True, help="Only streams groups.")
@json_option()
def command(
    bootstrap_server: str,
    config_file: str | None,
    list_: bool,
    group_type: str | None,
    protocol: str | None,
    consumer: bool,
    share: bool,
    streams: bool,
    as_json: bool,
) -> None:
    """List the groups of all types."""
    if not list_:
        raise click.UsageError("Command must include exactly one action: --list.")
    kinds = [
        name
        for name, given in (("--consumer", consumer), ("--share", share), ("--streams", streams))
        if given
    ]
    if len(kinds) > 1 or (kinds and (group_type or protocol is not None)):
        raise click.UsageError(f"{kinds[0]} stands alone, without another choice of groups")
    from odradek import Admin

    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-groups")) as admin:
        groups = sorted(
            (
                group
                for group in admin.list_groups()
                if _is_chosen(group, group_type, protocol, kinds[0][2:] if kinds else None)
            ),
            key=lambda group: group.group_id,
        )
    if as_json:
        echo_json(
            [
                {"group": g.group_id, "type": g.type or None, "protocol": g.protocol_type, "state": g.state}
                for g in groups
            ]
        )
        return
    rows = [(g.group_id, _TYPE_NAMES.get(g.type.lower(), g.type), g.protocol_type) for g in groups]
    width = max([20, *(len(cell) for row in rows for cell in row)])
    head = " ".join(f"{cell:<{width}}" for cell in ("GROUP", "TYPE", "PROTOCOL"))
    # Kafka's tool ends the rows, not the head, with a blank.
    echo_lines([head, *("".join(f"{cell:<{width}} " for cell in row) for row in rows)])


def _is_chosen(group: GroupListing, group_type: str | None, protocol: str | None, kind: str | None) -> bool:
    type_ = group.type.lower()
    if group_type is not None and type_ != group_type:
        return False
    if protocol is not None and group.protocol_type != protocol:
        return False
    if kind == "consumer":
        return group.protocol_type in ("consumer", "") or type_ == "consumer"
    return kind is None or type_ == kind
