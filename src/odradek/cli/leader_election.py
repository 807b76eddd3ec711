"""`odradek leader-election`: kafka-leader-election."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.tool import Tool, bootstrap_option, client_configs, command_config_option
from odradek.errors import ElectionNotNeededError, KafkaError, OdradekError

if TYPE_CHECKING:
    from odradek import TopicPartition


@click.command(cls=Tool, name="leader-election")
@bootstrap_option()
@command_config_option("--admin.config", "--command-config")
@click.option(
    "--election-type",
    "kind",
    type=click.Choice(["preferred", "unclean"], case_sensitive=False),
    required=True,
    help="preferred: the first replica leads; unclean: where nobody leads, anybody who is alive.",
)
@click.option("--all-topic-partitions", "everything", is_flag=True, help="All partitions.")
@click.option("--topic", help="A topic, with --partition.")
@click.option("--partition", type=int, help="A partition of --topic.")
@click.option(
    "--path-to-json-file",
    "plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Partitions as {"partitions": [{"topic": "t", "partition": 1}]}.',
)
def command(
    bootstrap_server: str,
    config_file: str | None,
    kind: str,
    everything: bool,
    topic: str | None,
    partition: int | None,
    plan: Path | None,
) -> None:
    """Elect leaders for partitions."""
    if [everything, topic is not None, plan is not None].count(True) != 1:
        raise click.UsageError(
            "One and only one of the following options is required: "
            "all-topic-partitions, topic, path-to-json-file"
        )
    if (topic is None) is not (partition is None):
        raise click.UsageError("--topic and --partition go together")
    from odradek import Admin, TopicPartition

    partitions: list[TopicPartition] | None = None
    if plan is not None:
        partitions = _read(plan)
    elif topic is not None and partition is not None:
        partitions = [TopicPartition(topic, partition)]
    configs = client_configs(bootstrap_server, config_file, client_id="odradek-leader-election")
    with Admin(**configs) as admin:
        _report(kind.upper(), admin.elect_leaders(partitions, election_type=kind.lower()))


def _read(plan: Path) -> list[TopicPartition]:
    from odradek import TopicPartition

    try:
        rows: Any = json.loads(plan.read_text(encoding="utf-8"))["partitions"]
        partitions = [TopicPartition(str(row["topic"]), int(row["partition"])) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise OdradekError(
            f'{plan} is not of the form {{"partitions": [{{"topic": …, "partition": …}}]}}: {error!r}'
        ) from error
    twice = sorted({str(tp) for tp in partitions if partitions.count(tp) > 1})
    if twice:
        raise OdradekError(f"Replica election data contains duplicate partitions: {', '.join(twice)}")
    return partitions


def _report(kind: str, became: dict[TopicPartition, KafkaError | None]) -> None:
    won = [str(tp) for tp, error in sorted(became.items()) if error is None]
    idle = [str(tp) for tp, error in sorted(became.items()) if isinstance(error, ElectionNotNeededError)]
    lost = {
        tp: e for tp, e in sorted(became.items()) if not (e is None or isinstance(e, ElectionNotNeededError))
    }
    if won:
        click.echo(f"Successfully completed leader election ({kind}) for partitions {', '.join(won)}")
    if idle:
        click.echo(f"Valid replica already elected for partitions {', '.join(idle)}")
    for error in lost.values():
        click.echo(f"Error completing leader election ({kind}) for partition: {error}")
    if lost:
        raise OdradekError(f"{len(lost)} replica(s) could not be elected")
