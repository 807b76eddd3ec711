"""`odradek consumer-groups`: kafka-consumer-groups.

What is printed about a group is in `group_tables`, the resetting and deleting of offsets in `offset_resets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from odradek.cli import group_tables, offset_resets
from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    check_json,
    client_configs,
    command_config_option,
    echo_json,
    echo_lines,
    ignored_option,
    json_option,
    one_action,
)
from odradek.errors import KafkaError, OdradekError

if TYPE_CHECKING:
    from odradek import Admin

ACTIONS = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
#: What groups can be, as `--state` and `--type` of `--list` name them.
STATES = (
    "Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling", "Stable"
)  # fmt: skip
TYPES = ("Classic", "Consumer")


@click.command(cls=Tool, name="consumer-groups")
@bootstrap_option(required=False)
@command_config_option()
@click.option("--list", "do_list", is_flag=True, help="List all groups.")
@click.option("--describe", "do_describe", is_flag=True, help="Show offsets and lag, --members or --state.")
@click.option("--delete", "do_delete", is_flag=True, help="Delete groups.")
@click.option(
    "--reset-offsets", "do_reset_offsets", is_flag=True, help="Reset the offsets of inactive groups."
)
@click.option("--delete-offsets", "do_delete_offsets", is_flag=True, help="Forget the offsets of --topic.")
@click.option("--validate-regex", "do_validate_regex", help="Say whether this is a regular expression.")
@click.option("--group", "groups", multiple=True, help="A group; may be given several times.")
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option("--members", is_flag=True, help="With --describe: the members.")
@click.option("--offsets", is_flag=True, help="With --describe: offsets and lag; this is the default.")
@click.option(
    "--state", is_flag=False, flag_value="", help="With --describe: the state; with --list: only these."
)
@click.option("--type", "types", is_flag=False, flag_value="", help="With --list: show types, or only these.")
@click.option("--verbose", is_flag=True, help="With --describe: more columns.")
@click.option(
    "--timeout", "timeout_ms", type=int, default=30_000, show_default=True, help="Milliseconds to wait."
)
@json_option()
@ignored_option("--new-consumer", "there is no other any more", is_flag=True)
@offset_resets.options
def command(
    bootstrap_server: str | None,
    config_file: str | None,
    groups: tuple[str, ...],
    timeout_ms: int,
    **options: Any,
) -> None:
    """List, describe and delete groups; reset their offsets."""
    action = _check(groups, options)
    check_json(options["as_json"], lists=action in ("list", "describe"))
    if action == "validate_regex":
        _validate_regex(options["do_validate_regex"])
        return
    if bootstrap_server is None:
        raise click.UsageError('Missing required argument "[bootstrap-server]"')
    states, types = _filter("state", options["state"], STATES), _filter("types", options["types"], TYPES)
    target = offset_resets.check(options) if action == "reset_offsets" else ""
    from odradek import Admin

    configs = client_configs(
        bootstrap_server,
        config_file,
        client_id="odradek-consumer-groups",
        default_api_timeout_ms=timeout_ms,
    )
    with Admin(**configs) as admin:
        if action == "list":
            _list(admin, options, states, types)
            return
        if options["all_groups"]:
            groups = tuple(group.group_id for group in group_tables.consumer_groups(admin))
        chosen = list(dict.fromkeys(groups))
        if action == "describe":
            _describe(admin, chosen, options)
        elif action == "delete":
            _delete(admin, chosen)
        elif action == "delete_offsets":
            offset_resets.delete_offsets(admin, chosen[0], options["topics"])
        else:
            offset_resets.run(admin, chosen, target, options)


def _check(groups: tuple[str, ...], options: Mapping[str, Any]) -> str:
    """The one action.

    Raises:
        click.UsageError: the words do not go together, or ask for no action or for several.
    """
    action = one_action(options, ACTIONS, ", ".join("--" + name.replace("_", "-") for name in ACTIONS))
    if action == "describe":
        shown = [o for o in ("members", "offsets", "state") if options[o] not in (None, False)]
        if len(shown) > 1:
            raise click.UsageError(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if options["state"]:
            raise click.UsageError("Option [describe] does not take a value for [state]")
    elif options["types"] is not None and action != "list":
        raise click.UsageError("Option [type] goes with option [list] only")
    if action in {"describe", "delete", "reset_offsets"} and bool(groups) == options["all_groups"]:
        raise click.UsageError(
            f"Option [{action.replace('_', '-')}] takes one of these options: [all-groups], [group]"
        )
    if action == "delete" and options["topics"]:
        raise click.UsageError(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )
    if action == "delete_offsets" and (len(groups) != 1 or not options["topics"]):
        raise click.UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    return action


def _validate_regex(text: str) -> None:
    """Check a pattern as brokers do, which read those of subscriptions by RE2's rules (KIP-848)."""
    from odradek.util.linear_regex import LinearPattern, PatternError

    try:
        LinearPattern(text)
    except PatternError as error:
        raise OdradekError(f"The regular expression {text!r} is invalid in RE2's syntax: {error}") from error
    click.echo("The regular expression is valid.")


def _filter(category: str, text: str | None, valid: tuple[str, ...]) -> list[str]:
    """`stable,empty` → `["Stable", "Empty"]`."""
    by_lowered = {name.lower(): name for name in valid}
    words = [word.strip().lower() for word in (text or "").split(",") if word.strip()]
    if any(word not in by_lowered for word in words):
        names = ", ".join(valid)
        raise click.UsageError(
            f"Invalid {category} list '{text}'. Valid {category.rstrip('s')}s are: {names}"
        )
    return [by_lowered[word] for word in words]


def _list(admin: Admin, options: Mapping[str, Any], states: list[str], types: list[str]) -> None:
    listed = group_tables.consumer_groups(admin, states=states, types=types)
    if options["as_json"]:
        echo_json(
            [
                {"group": g.group_id, "type": g.type or None, "state": g.state or None}
                for g in sorted(listed, key=lambda g: g.group_id)
            ]
        )
    elif options["state"] is None and options["types"] is None:
        echo_lines(g.group_id for g in listed)
    else:
        echo_lines(
            group_tables.group_rows(
                listed, with_type=options["types"] is not None, with_state=options["state"] is not None
            )
        )


def _describe(admin: Admin, groups: list[str], options: Mapping[str, Any]) -> None:
    missing = []
    objects = []
    for group, description in sorted(admin.describe_groups(groups).items()):
        if description.state == "Dead":
            missing.append(group)
            continue
        if options["as_json"]:
            objects.append(group_tables.as_object(admin, description))
            continue
        remark = group_tables.remark(description)
        if remark:
            click.echo(f"\n{remark}", err=True)
        if options["members"]:
            lines = group_tables.member_rows(description, verbose=options["verbose"])
        elif options["state"] is not None:
            lines = group_tables.state_rows(description, verbose=options["verbose"])
        else:
            lines = group_tables.offset_rows(
                description, *group_tables.offsets(admin, description), verbose=options["verbose"]
            )
        if lines:
            echo_lines(["", *lines])
    if options["as_json"]:
        echo_json(objects)
    if missing:
        raise OdradekError("\n".join(f"Consumer group '{group}' does not exist." for group in missing))


def _delete(admin: Admin, groups: list[str]) -> None:
    failed: dict[str, KafkaError] = {}
    for group in groups:
        try:
            admin.delete_groups([group])
        except KafkaError as error:
            failed[group] = error
    done = "', '".join(group for group in groups if group not in failed)
    if not failed:
        click.echo(f"Deletion of requested consumer groups ('{done}') was successful.")
        return
    if done:
        click.echo(f"These consumer groups were deleted successfully: '{done}'")
    lines = "\n".join(
        f"* Group '{group}' could not be deleted due to: {e.code.message}" for group, e in failed.items()
    )
    raise OdradekError(f"Deletion of some consumer groups failed:\n{lines}")
