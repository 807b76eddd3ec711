"""`odradek cluster`: kafka-cluster."""

from __future__ import annotations

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
from odradek.errors import OdradekError

_CLIENT_ID = "odradek-cluster"
#: The key of the API; its requests are not in `odradek.wire`.
_UNREGISTER_BROKER = 64


class _Tools(Tool, SuggestingGroup):
    """Tools within a tool, as `odradek cluster cluster-id …`."""


@click.command(cls=_Tools, name="cluster")
def command() -> None:
    """Show the cluster's id and the addresses of its brokers."""


@command.command("cluster-id", cls=Tool)
@bootstrap_option("-b")
@command_config_option("--command-config", "-c", "--config")
@json_option()
def cluster_id(bootstrap_server: str, config_file: str | None, as_json: bool) -> None:
    """Print the id of the cluster."""
    from odradek import Admin

    with Admin(**client_configs(bootstrap_server, config_file, client_id=_CLIENT_ID)) as admin:
        identity = admin.describe_cluster().cluster_id
    if as_json:
        echo_json({"clusterId": identity})
    elif identity is None:
        click.echo("No cluster ID found. The Kafka version is probably too old.")
    else:
        click.echo(f"Cluster ID: {identity}")


@command.command("list-endpoints", cls=Tool)
@bootstrap_option("-b")
@command_config_option("--command-config", "-c", "--config")
@click.option(
    "--include-fenced-brokers",
    "with_fenced",
    is_flag=True,
    help="Also brokers that are registered, but not serving; brokers from 4.0 on can tell.",
)
@json_option()
def list_endpoints(bootstrap_server: str, config_file: str | None, with_fenced: bool, as_json: bool) -> None:
    """List the brokers of the cluster and their addresses."""
    from odradek import Admin

    with Admin(**client_configs(bootstrap_server, config_file, client_id=_CLIENT_ID)) as admin:
        described = admin.describe_cluster(include_fenced_brokers=with_fenced)
    nodes, fenced = described.nodes, described.fenced
    if as_json:
        echo_json(
            [
                {"id": n.id, "host": n.host, "port": n.port, "rack": n.rack, "fenced": n.id in fenced}
                for n in nodes
            ]
        )
        return
    host = max((len(n.host) for n in nodes), default=100)
    rack = max((len(n.rack) for n in nodes if n.rack), default=10)
    rows = [
        (
            str(n.id),
            n.host,
            str(n.port),
            n.rack or "null",
            "fenced" if n.id in fenced else "unfenced",
            "broker",
        )
        for n in nodes
    ]
    echo_lines(
        f"{number:<10} {name:<{host}} {port:<10} {where:<{rack}} {state:<10} {kind:<15}"
        for number, name, port, where, state, kind in [
            ("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"),
            *rows,
        ]
    )


@command.command("unregister", cls=Tool)
@bootstrap_option("-b")
@command_config_option("--command-config", "-c", "--config")
@click.option("--id", "-i", "broker_id", type=int, required=True, help="The broker's id.")
def unregister(bootstrap_server: str, config_file: str | None, broker_id: int) -> None:
    """Say why a broker that has stopped cannot be unregistered, and what to do."""
    from odradek import Admin

    with Admin(**client_configs(bootstrap_server, config_file, client_id=_CLIENT_ID)) as admin:
        served = {version.api_key for version in admin.api_versions()}
    if _UNREGISTER_BROKER not in served:
        raise OdradekError(
            "The target cluster does not support the broker unregistration API. Only KRaft keeps brokers "
            "that have stopped; elsewhere a broker that has stopped is registered no more. Its replicas are "
            "left: move them by `odradek reassign-partitions`"
        )
    raise OdradekError(
        f"broker {broker_id} stays registered: odradek's client does not speak UnregisterBroker; use "
        "kafka-cluster.sh of the Kafka that this cluster runs"
    )
