"""`odradek consumer-groups`: kafka-consumer-groups. Offsets are reset in `offset_resets`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from odradek.cli import offset_resets
from odradek.cli.tool import Tool, bootstrap_option, client_configs, command_config_option, table
from odradek.errors import KafkaError, OdradekError

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.types import GroupDescription, TopicPartition

ACTIONS = ("list", "describe", "delete", "reset_offsets")
MISSING = "-"


@click.command(cls=Tool, name="consumer-groups")
@bootstrap_option()
@command_config_option()
@click.option("--list", "do_list", is_flag=True, help="List all groups.")
@click.option("--describe", "do_describe", is_flag=True, help="Show offsets and lag, --members or --state.")
@click.option("--delete", "do_delete", is_flag=True, help="Delete groups.")
@click.option(
    "--reset-offsets", "do_reset_offsets", is_flag=True, help="Reset the offsets of inactive groups."
)
@click.option("--group", "groups", multiple=True, help="A group; may be given several times.")
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option("--members", is_flag=True, help="With --describe: the members.")
@click.option("--offsets", is_flag=True, help="With --describe: offsets and lag; this is the default.")
@click.option(
    "--state", is_flag=False, flag_value="", help="With --describe: the state; with --list: only these."
)
@click.option("--type", "types", is_flag=False, flag_value="", help="With --list: show types, or only these.")
@click.option("--verbose", is_flag=True, help="With --members: their partitions too.")
@click.option(
    "--timeout", "timeout_ms", type=int, default=5000, show_default=True, help="Milliseconds to wait."
)
@offset_resets.options
def command(
    bootstrap_server: str, config_file: str | None, groups: tuple[str, ...], timeout_ms: int, **options: Any
) -> None:
    """List, describe and delete groups; reset their offsets."""
    actions = [name for name in ACTIONS if options[f"do_{name}"]]
    if len(actions) != 1:
        names = ", ".join("--" + name.replace("_", "-") for name in ACTIONS)
        raise click.UsageError(f"give exactly one of {names}")
    action = actions[0]
    if action != "list" and bool(groups) == options["all_groups"]:
        raise click.UsageError(f"--{action.replace('_', '-')} needs either --group or --all-groups")
    from odradek import Admin

    configs = client_configs(
        bootstrap_server,
        config_file,
        client_id="odradek-consumer-groups",
        default_api_timeout_ms=timeout_ms * 6,
    )
    with Admin(**configs) as admin:
        if action == "list":
            _list(admin, options["state"], options["types"])
            return
        chosen = sorted(g.group_id for g in admin.list_groups()) if options["all_groups"] else list(groups)
        if action == "describe":
            _describe(admin, chosen, options)
        elif action == "delete":
            _delete(admin, chosen)
        else:
            offset_resets.run(admin, chosen, options)


def _list(admin: Admin, states: str | None, types: str | None) -> None:
    found = sorted(admin.list_groups(), key=lambda g: g.group_id)
    wanted = {word.strip().lower() for word in (states or "").split(",") if word.strip()}
    kinds = {word.strip().lower() for word in (types or "").split(",") if word.strip()}
    found = [
        g
        for g in found
        if (not wanted or g.state.lower() in wanted) and (not kinds or g.type.lower() in kinds)
    ]
    if states is None and types is None:
        for group in found:
            click.echo(group.group_id)
        return
    columns = ["GROUP", *(["TYPE"] if types is not None else []), *(["STATE"] if states is not None else [])]
    rows = [columns]
    for g in found:
        row = [g.group_id, *([g.type or MISSING] if types is not None else [])]
        rows.append([*row, *([g.state or MISSING] if states is not None else [])])
    for line in table(rows, [15, *[20] * (len(columns) - 2), 0]):
        click.echo(line)


def _describe(admin: Admin, groups: list[str], options: dict[str, Any]) -> None:
    described = admin.describe_groups(groups)
    for group in groups:
        found = described[group]
        if found.state == "Dead":
            raise OdradekError(f"Consumer group '{group}' does not exist.")
        click.echo()
        if options["members"]:
            lines = _member_rows(found, verbose=options["verbose"])
        elif options["state"] is not None:
            lines = _state_rows(found)
        else:
            lines = _offset_rows(admin, found)
        for line in lines:
            click.echo(line)


def _note(group: GroupDescription) -> None:
    """Kafka's remarks about a group that has no members, or is between two generations."""
    if group.state == "Empty":
        click.echo(f"Consumer group '{group.group_id}' has no active members.", err=True)
    elif group.state in {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}:
        click.echo(f"Warning: Consumer group '{group.group_id}' is rebalancing.", err=True)


def _offset_rows(admin: Admin, group: GroupDescription) -> list[str]:
    from odradek import TopicPartition

    _note(group)
    committed = admin.list_group_offsets(group.group_id)
    owner = {partition: member for member in group.members for partition in member.assignment}
    partitions: list[TopicPartition] = sorted({*committed, *owner})
    ends = admin.list_offsets({TopicPartition(*p): -1 for p in partitions})
    rows = [["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST",
             "CLIENT-ID"]]  # fmt: skip
    for partition in partitions:
        at = committed.get(partition)
        end_offset = ends[partition].offset
        lag = None if at is None or at.offset < 0 else end_offset - at.offset
        member = owner.get(partition)
        rows.append(
            [
                group.group_id,
                partition.topic,
                str(partition.partition),
                _or_missing(None if at is None or at.offset < 0 else at.offset),
                _or_missing(end_offset),
                _or_missing(lag),
                member.member_id if member else MISSING,
                member.client_host if member else MISSING,
                member.client_id if member else MISSING,
            ]
        )
    for member in group.members:
        if not member.assignment:
            idle = [member.member_id, member.client_host, member.client_id]
            rows.append([group.group_id, *[MISSING] * 5, *idle])
    return list(table(rows, (15, 15, 10, 15, 15, 15, 15, 15, 0)))


def _or_missing(value: int | None) -> str:
    return MISSING if value is None else str(value)


def _member_rows(group: GroupDescription, *, verbose: bool) -> list[str]:
    _note(group)
    static = any(m.group_instance_id for m in group.members)
    head = [
        "GROUP",
        "CONSUMER-ID",
        *(["GROUP-INSTANCE-ID"] if static else []),
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
    ]
    rows = [[*head, "ASSIGNMENT" if verbose else ""]]
    for m in sorted(group.members, key=lambda m: m.member_id):
        by_topic: dict[str, list[str]] = {}
        for topic, partition in sorted(m.assignment):
            by_topic.setdefault(topic, []).append(str(partition))
        shown = ", ".join(f"{topic}({','.join(ids)})" for topic, ids in by_topic.items()) or MISSING
        instance = [m.group_instance_id or ""] if static else []
        row = [group.group_id, m.member_id, *instance, m.client_host, m.client_id, str(len(m.assignment))]
        rows.append([*row, shown if verbose else ""])
    return list(table(rows, [15, 15, *([17] if static else []), 15, 15, 15, 0]))


def _state_rows(group: GroupDescription) -> list[str]:
    _note(group)
    node = group.coordinator
    coordinator = MISSING if node is None else f"{node.host}:{node.port} ({node.id})"
    rows = [["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]]
    rows.append([group.group_id, coordinator, group.protocol, group.state, str(len(group.members))])
    return list(table(rows, (25, 25, 20, 15, 0)))


def _delete(admin: Admin, groups: list[str]) -> None:
    failed: dict[str, KafkaError] = {}
    for group in groups:
        try:
            admin.delete_groups([group])
        except KafkaError as error:
            failed[group] = error
    done = [group for group in groups if group not in failed]
    if done:
        names = ", ".join(f"'{group}'" for group in done)
        click.echo(f"Deletion of requested consumer groups ({names}) was successful.")
    if failed:
        lines = "\n".join(
            f"* Group '{group}' could not be deleted due to: {e}" for group, e in failed.items()
        )
        raise OdradekError(f"Deletion of some consumer groups failed:\n{lines}")
