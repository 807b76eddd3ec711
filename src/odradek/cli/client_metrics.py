"""`odradek client-metrics`: kafka-client-metrics, subscriptions to the metrics of clients (KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    check_json,
    client_configs,
    command_config_option,
    echo_json,
    echo_lines,
    json_option,
    misplaced,
    one_action,
    random_id,
)

if TYPE_CHECKING:
    from odradek import Admin

ACTIONS = ("alter", "delete", "describe", "list")
#: Option → the actions that it belongs to.
BELONGS_TO = {
    "name": ("alter", "delete", "describe"),
    "generate_name": ("alter",),
    "interval": ("alter",),
    "match": ("alter",),
    "metrics": ("alter",),
}
#: Option → the config that it sets.
CONFIGS = {"interval": "interval.ms", "metrics": "metrics", "match": "match"}
KIND = "client-metrics"


@click.command(cls=Tool, name="client-metrics")
@bootstrap_option()
@command_config_option()
@click.option("--alter", "do_alter", is_flag=True, help="Make a subscription, or change its configs.")
@click.option("--delete", "do_delete", is_flag=True, help="Delete a subscription.")
@click.option(
    "--describe", "do_describe", is_flag=True, help="Show the configs of one subscription, or of all."
)
@click.option("--list", "do_list", is_flag=True, help="List the names of the subscriptions.")
@click.option("--name", help="The subscription's name.")
@click.option("--generate-name", is_flag=True, help="Make a name for a new subscription.")
@click.option(
    "--interval", metavar="MS", help="How often clients push; empty takes back what was set before."
)
@click.option(
    "--metrics",
    multiple=True,
    metavar="PREFIX,…",
    help="Prefixes of names of metrics, * for all; empty takes back what was set before.",
)
@click.option(
    "--match",
    multiple=True,
    metavar="SELECTOR=REGEX,…",
    help="Which clients: client_id, client_instance_id, client_software_name, client_software_version, "
    "client_source_address, client_source_port; empty takes back what was set before.",
)
@json_option()
def command(bootstrap_server: str, config_file: str | None, **options: Any) -> None:
    """Show and change subscriptions to the metrics of clients."""
    action = _check(options)
    check_json(options["as_json"], lists=action in ("list", "describe"))
    name = random_id() if options["generate_name"] else options["name"]
    from odradek import Admin

    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-client-metrics")) as admin:
        match action:
            case "alter":
                _change(admin, name, _changes(options))
                click.echo(f"Altered client metrics config for {name}.")
            case "delete":
                _change(admin, name, dict.fromkeys(_configs(admin, name)))
                click.echo(f"Deleted client metrics config for {name}.")
            case "describe":
                _describe(admin, name, as_json=options["as_json"])
            case "list" if options["as_json"]:
                echo_json(_names(admin))
            case _:
                echo_lines(_names(admin))


def _check(options: Mapping[str, Any]) -> str:
    """Return the one action.

    Raises:
        click.UsageError: the words do not go together, or ask for no action or for several.
    """
    action = one_action(options, ACTIONS, "--alter, --delete, --describe or --list.")
    option = misplaced(options, BELONGS_TO, action)
    if option is not None:
        raise click.UsageError(
            f'Option "[{action}]" can\'t be used with option "[{option.replace("_", "-")}]"'
        )
    has_name = options["name"] is not None
    if action == "alter" and has_name == options["generate_name"]:
        raise click.UsageError("One of --name or --generate-name must be specified with --alter.")
    if action == "delete" and not has_name:
        raise click.UsageError("A client metrics resource name must be specified with --delete.")
    interval = options["interval"]
    # Kafka reads it as an int: what is larger is none.
    if interval and not (re.fullmatch(r"[+-]?[0-9]{1,10}", interval) and -(2**31) <= int(interval) < 2**31):
        raise click.UsageError("Invalid interval value. Enter an integer, or leave empty to reset.")
    return action


def _changes(options: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the configs to set; None takes one back."""
    given = {
        "interval": options["interval"],
        "metrics": ",".join(options["metrics"]) if options["metrics"] else None,
        "match": ",".join(options["match"]) if options["match"] else None,
    }
    return {CONFIGS[option]: text or None for option, text in given.items() if text is not None}


def _change(admin: Admin, name: str, changes: Mapping[str, str | None]) -> None:
    admin.incremental_alter_configs({(KIND, name): changes})


def _names(admin: Admin) -> list[str]:
    return sorted(name for _, name in admin.list_config_resources([KIND]))


def _configs(admin: Admin, name: str) -> dict[str, str | None]:
    """Return the subscription's configs, by name."""
    entries = admin.describe_configs([(KIND, name)])[KIND, name]
    return {entry.name: entry.value for entry in sorted(entries.values(), key=lambda entry: entry.name)}


def _describe(admin: Admin, name: str | None, *, as_json: bool) -> None:
    names = _names(admin)
    if name is not None:
        names = [name] if name in names else []
    configs = {subscription: _configs(admin, subscription) for subscription in names}
    if as_json:
        echo_json([{"name": subscription, "configs": values} for subscription, values in configs.items()])
        return
    if name is not None and not names:
        click.echo(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
    for subscription, values in configs.items():
        head = f"Client metrics configs for {subscription} are:"
        echo_lines([head, *(f"  {key}={value}" for key, value in values.items())])
