"""`odradek topics`: kafka-topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    key_values,
    matching,
)
from odradek.errors import KafkaError, OdradekError

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.types import PartitionInfo, TopicDescription

ACTIONS = ("list", "create", "delete", "alter", "describe")
#: DescribeConfigs' number for a config set on the topic itself.
DYNAMIC_TOPIC_CONFIG = 1
#: DescribeConfigs' number for the resource type "topic".
TOPIC = 2


@click.command(cls=Tool, name="topics")
@bootstrap_option()
@command_config_option()
@click.option("--list", "do_list", is_flag=True, help="List all available topics.")
@click.option("--create", "do_create", is_flag=True, help="Create a topic.")
@click.option("--delete", "do_delete", is_flag=True, help="Delete topics.")
@click.option("--alter", "do_alter", is_flag=True, help="Give topics more partitions.")
@click.option("--describe", "do_describe", is_flag=True, help="Show details of topics.")
@click.option("--topic", help="A topic; except with --create also a regular expression.")
@click.option("--topic-id", help="Describe the topic with this id.")
@click.option("--partitions", type=int, help="How many partitions; the broker's default if left out.")
@click.option("--replication-factor", type=int, help="How many replicas of each partition.")
@click.option(
    "--replica-assignment", metavar="1:2,2:3", help="Brokers of each partition, in place of numbers."
)
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="A config of the new topic.")
@click.option("--if-exists", is_flag=True, help="No error where the topic does not exist.")
@click.option("--if-not-exists", is_flag=True, help="No error where the topic exists already.")
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out.")
@click.option(
    "--under-replicated-partitions", is_flag=True, help="Only partitions with replicas out of sync."
)
@click.option("--unavailable-partitions", is_flag=True, help="Only partitions without a leader.")
@click.option("--under-min-isr-partitions", is_flag=True, help="Only partitions below min.insync.replicas.")
@click.option("--at-min-isr-partitions", is_flag=True, help="Only partitions at min.insync.replicas.")
@click.option("--topics-with-overrides", is_flag=True, help="Only topics with configs of their own.")
def command(bootstrap_server: str, config_file: str | None, **options: Any) -> None:
    """Create, list, describe, alter and delete topics."""
    actions = [name for name in ACTIONS if options[f"do_{name}"]]
    if len(actions) != 1:
        raise click.UsageError(f"give exactly one of {', '.join('--' + name for name in ACTIONS)}")
    action = actions[0]
    if action in {"create", "delete", "alter"} and not options["topic"]:
        raise click.UsageError(f"--{action} needs --topic")
    from odradek import Admin

    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-topics")) as admin:
        {"list": _list, "create": _create, "delete": _delete, "alter": _alter, "describe": _describe}[action](
            admin, options
        )


def _chosen(admin: Admin, options: dict[str, Any], *, required: bool = True) -> list[str]:
    """The topics that `--topic` means, all of them without it."""
    names = admin.list_topics(internal=not options["exclude_internal"])
    if not options["topic"]:
        return sorted(names)
    chosen = matching(options["topic"], names)
    if not chosen and required and not options["if_exists"]:
        raise OdradekError(f"Topic '{options['topic']}' does not exist as expected")
    return chosen


def _list(admin: Admin, options: dict[str, Any]) -> None:
    for name in _chosen(admin, options, required=False):
        click.echo(name)


def _create(admin: Admin, options: dict[str, Any]) -> None:
    from odradek import NewTopic

    name = options["topic"]
    if "." in name or "_" in name:
        click.echo(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
            "could collide. To avoid issues it is best to use either, but not both.",
            err=True,
        )
    topic = NewTopic(
        name,
        num_partitions=options["partitions"] if options["partitions"] is not None else -1,
        replication_factor=options["replication_factor"] if options["replication_factor"] is not None else -1,
        replica_assignment=_assignment(options["replica_assignment"]),
        configs=key_values(options["configs"], "--config"),
    )
    try:
        admin.create_topics([topic])
    except KafkaError as error:
        if error.code.name == "TOPIC_ALREADY_EXISTS" and options["if_not_exists"]:
            return
        raise
    click.echo(f"Created topic {name}.")


def _assignment(text: str | None) -> dict[int, list[int]] | None:
    """`1:2,2:3` → `{0: [1, 2], 1: [2, 3]}`."""
    if text is None:
        return None
    try:
        return {i: [int(b) for b in part.split(":")] for i, part in enumerate(text.split(","))}
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not like 1:2,2:3", param_hint="--replica-assignment"
        ) from error


def _delete(admin: Admin, options: dict[str, Any]) -> None:
    chosen = _chosen(admin, options)
    if chosen:
        admin.delete_topics(chosen)


def _alter(admin: Admin, options: dict[str, Any]) -> None:
    if options["partitions"] is None:
        raise click.UsageError(
            "--alter needs --partitions; configs of topics are altered by `odradek configs`"
        )
    chosen = _chosen(admin, options)
    if chosen:
        admin.create_partitions(dict.fromkeys(chosen, options["partitions"]))


def _describe(admin: Admin, options: dict[str, Any]) -> None:
    chosen = _chosen(admin, options)
    if not chosen:
        return
    described = admin.describe_topics(chosen)
    configs = admin.describe_configs([("topic", name) for name in chosen])
    live = {node.id for node in admin.describe_cluster().nodes}
    from odradek.wire.primitives import uuid_to_text

    shows_all = not any(options[name] for name in _FILTERS)
    for name in chosen:
        topic = described[name]
        if options["topic_id"] and uuid_to_text(topic.topic_id) != options["topic_id"]:
            continue
        entries = configs[TOPIC, name]
        overrides = {key: e.value for key, e in sorted(entries.items()) if e.source == DYNAMIC_TOPIC_CONFIG}
        if options["topics_with_overrides"] and not overrides:
            continue
        if shows_all:
            click.echo(_headline(topic, overrides))
        if options["topics_with_overrides"]:
            continue
        least = int(entries["min.insync.replicas"].value or 1)
        for partition in sorted(topic.partitions, key=lambda p: p.partition):
            if shows_all or any(options[f] and test(partition, least, live) for f, test in _FILTERS.items()):
                click.echo(_partition_line(partition))


#: Flag → which partitions it lets through: (partition, min.insync.replicas, live brokers).
_FILTERS: dict[str, Callable[[PartitionInfo, int, set[int]], bool]] = {
    "under_replicated_partitions": lambda p, least, live: len(p.in_sync_replicas) < len(p.replicas),
    "unavailable_partitions": lambda p, least, live: p.leader not in live,
    "under_min_isr_partitions": lambda p, least, live: p.leader < 0 or len(p.in_sync_replicas) < least,
    "at_min_isr_partitions": lambda p, least, live: len(p.in_sync_replicas) == least,
}


def _headline(topic: TopicDescription, overrides: dict[str, str | None]) -> str:
    from odradek.wire.primitives import uuid_to_text

    replication_factor = len(topic.partitions[0].replicas) if topic.partitions else 0
    configs = ",".join(f"{key}={value}" for key, value in overrides.items())
    return (
        f"Topic: {topic.name}\tTopicId: {uuid_to_text(topic.topic_id)}\t"
        f"PartitionCount: {len(topic.partitions)}\tReplicationFactor: {replication_factor}\t"
        f"Configs: {configs}"
    )


def _partition_line(partition: PartitionInfo) -> str:
    def ids(brokers: tuple[int, ...]) -> str:
        return ",".join(map(str, brokers))

    leader = partition.leader if partition.leader >= 0 else "none"
    return (
        f"\tTopic: {partition.topic}\tPartition: {partition.partition}\tLeader: {leader}\t"
        f"Replicas: {ids(partition.replicas)}\tIsr: {ids(partition.in_sync_replicas)}"
    )
