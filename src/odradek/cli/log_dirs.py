"""`odradek log-dirs`: kafka-log-dirs."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    echo_json,
    json_option,
)
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek.client.types import LogDirDescription


@click.command(cls=Tool, name="log-dirs")
@bootstrap_option()
@command_config_option()
@click.option("--describe", is_flag=True, required=True, help="Describe the data folders.")
@click.option("--topic-list", default="", metavar="TOPIC,…", help="Only these topics; all if left out.")
@click.option("--broker-list", default="", metavar="ID,…", help="Only these brokers; all if left out.")
@json_option()
def command(
    bootstrap_server: str,
    config_file: str | None,
    describe: bool,  # noqa: ARG001
    topic_list: str,
    broker_list: str,
    as_json: bool,
) -> None:
    """Print the data folders of brokers, with the sizes of the partitions in them, as JSON."""
    topics = {word for word in topic_list.split(",") if word}
    try:
        broker_ids = {int(word) for word in broker_list.split(",") if word}
    except ValueError as error:
        raise click.BadParameter(
            f"{broker_list!r} is no list of broker ids", param_hint="--broker-list"
        ) from error
    from odradek import Admin

    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-log-dirs")) as admin:
        present = [node.id for node in admin.describe_cluster().nodes]
        absent = sorted(broker_ids.difference(present))
        if absent:
            raise OdradekError(
                f"ERROR: The given brokers do not exist from --broker-list: {_ids(absent)}. "
                f"Current existent brokers: {_ids(present)}"
            )
        chosen = sorted(broker_ids) or present
        if not as_json:
            click.echo("Querying brokers for log directories information")
        described = admin.describe_log_dirs(chosen)
    brokers = [{"broker": broker, "logDirs": _folders(of, topics)} for broker, of in described.items()]
    if as_json:
        echo_json({"brokers": brokers, "version": 1})
        return
    click.echo(f"Received log directory information from brokers {_ids(chosen)}")
    click.echo(json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":"), ensure_ascii=False))


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


def _folders(folders: Mapping[str, LogDirDescription], topics: Container[str]) -> list[dict[str, Any]]:
    return [
        {
            "partitions": [
                {
                    "partition": str(tp),
                    "size": info.size,
                    "offsetLag": info.offset_lag,
                    "isFuture": info.is_future,
                }
                for tp, info in sorted(folder.replicas.items())
                if not topics or tp.topic in topics
            ],
            "error": None if folder.error is None else _exception(folder.error),
            "logDir": path,
        }
        for path, folder in folders.items()
    ]


def _exception(error: Exception) -> str:
    """Kafka's class of an error, which scripts look for."""
    return f"org.apache.kafka.common.errors.{type(error).__name__.removesuffix('Error')}Exception"
