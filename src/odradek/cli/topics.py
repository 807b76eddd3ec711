"""`odradek topics`: kafka-topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    ignored_option,
    json_option,
    key_values,
    matching,
    misplaced,
    one_action,
)
from odradek.errors import KafkaError, OdradekError

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.types import ConfigEntry, PartitionInfo, TopicDescription

ACTIONS = ("list", "create", "delete", "alter", "describe")
#: DescribeConfigs' number for a config that nobody has set.
DEFAULT_CONFIG = 5
#: DescribeConfigs' number for the resource type "topic".
TOPIC = 2
#: A factor is an int16 in CreateTopics.
MOST_REPLICAS = 2**15 - 1

#: Option → the actions that it belongs to, where that is not all of them.
BELONGS_TO = {
    "configs": ("create",),
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "if_not_exists": ("create",),
    "if_exists": ("alter", "delete", "describe"),
    "topic_id": ("describe",),
    "under_replicated_partitions": ("describe",),
    "unavailable_partitions": ("describe",),
    "under_min_isr_partitions": ("describe",),
    "at_min_isr_partitions": ("describe",),
    "topics_with_overrides": ("describe",),
}
ALTER_CONFIGS = "--alter changes the number of partitions; configs of a topic are changed by odradek configs"


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
@click.option("--delete-config", multiple=True, hidden=True)
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
@json_option()
@ignored_option("--force", "nothing here asks back", is_flag=True)
@ignored_option("--disable-rack-aware", "the broker places replicas", is_flag=True)
@ignored_option("--partition-size-limit-per-response", "answers are not cut into pages")
def command(bootstrap_server: str, config_file: str | None, **options: Any) -> None:
    """Create, list, describe, alter and delete topics."""
    action = _check(options)
    check_json(options["as_json"], lists=action in ("list", "describe"))
    new_topic = _new_topic(options) if action == "create" else None
    from odradek import Admin

    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-topics")) as admin:
        if new_topic is not None:
            _create(admin, new_topic, if_not_exists=options["if_not_exists"])
        else:
            {"list": _list, "delete": _delete, "alter": _alter, "describe": _describe}[action](admin, options)


def _check(options: Mapping[str, Any]) -> str:
    """The one action.

    Raises:
        click.UsageError: the words do not go together, or ask for no action or for several.
    """
    action = one_action(options, ACTIONS, "--list, --describe, --create, --alter or --delete")
    if action in {"create", "delete", "alter"} and not options["topic"]:
        raise click.UsageError('Missing required argument "[topic]"')
    # Kafka's tool changed configs with ZooKeeper; scripts of those days are told which tool does now.
    if (action == "alter" and options["configs"]) or options["delete_config"]:
        raise click.UsageError(ALTER_CONFIGS)
    name = misplaced(options, BELONGS_TO, action)
    if name is not None:
        option_name = "config" if name == "configs" else name.replace("_", "-")
        raise click.UsageError(f'Option "[{option_name}]" can\'t be used with option "[{action}]"')
    if action == "alter" and options["partitions"] is None:
        raise click.UsageError(f'Missing required argument "[partitions]": {ALTER_CONFIGS}')
    if action == "describe" and options["if_exists"] and not (options["topic"] or options["topic_id"]):
        raise click.UsageError("--topic or --topic-id is required to describe a topic")
    given_numbers = options["partitions"] is not None or options["replication_factor"] is not None
    if action == "create" and options["replica_assignment"] and given_numbers:
        raise click.UsageError(
            'Option "[replica-assignment]" can\'t be used with options "[partitions], [replication-factor]"'
        )
    return action


def _new_topic(options: Mapping[str, Any]) -> Any:
    """The `NewTopic` that the options mean."""
    from odradek import NewTopic

    partitions, replicas = options["partitions"], options["replication_factor"]
    if partitions is not None and partitions < 1:
        raise OdradekError("The partitions must be greater than 0")
    if replicas is not None and not 1 <= replicas <= MOST_REPLICAS:
        raise OdradekError(f"The replication factor must be between 1 and {MOST_REPLICAS} inclusive")
    return NewTopic(
        options["topic"],
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replicas is None else replicas,
        replica_assignment=_assignment(options["replica_assignment"]),
        configs={name: value.strip() for name, value in key_values(options["configs"], "--config").items()},
    )


def _assignment(text: str | None) -> dict[int, list[int]] | None:
    """`1:2,2:3` → `{0: [1, 2], 1: [2, 3]}`."""
    if not text:
        return None
    try:
        assigned = {i: [int(b) for b in part.split(":")] for i, part in enumerate(text.split(","))}
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not like 1:2,2:3", param_hint="--replica-assignment"
        ) from error
    for partition, brokers in assigned.items():
        if len(set(brokers)) != len(brokers):
            twice = ",".join(str(b) for b in sorted({b for b in brokers if brokers.count(b) > 1}))
            raise OdradekError(f"Partition replica lists may not contain duplicate entries: {twice}")
        if len(brokers) != len(assigned[0]):
            raise OdradekError(f"Partition {partition} has different replication factor: {brokers}")
    return assigned


def _chosen(
    admin: Admin, options: Mapping[str, Any], *, required: bool = True
) -> dict[str, TopicDescription]:
    """The topics that `--topic` or `--topic-id` means, all of them without; by name."""
    from odradek.wire.primitives import uuid_to_text

    # All of them, as `--topic` may be a regular expression.
    described = admin.describe_topics()
    by_id = options["topic_id"]
    if by_id:
        names = sorted(name for name, t in described.items() if uuid_to_text(t.topic_id) == by_id)
    elif options["topic"]:
        names = matching(options["topic"], described)
    else:
        names = sorted(described)
    names = [name for name in names if not (options["exclude_internal"] and described[name].is_internal)]
    if not names and required and not options["if_exists"]:
        if by_id:
            raise OdradekError(f"TopicId '{by_id}' does not exist as expected")
        if options["topic"]:
            raise OdradekError(f"Topic '{options['topic']}' does not exist as expected")
    return {name: described[name] for name in names}


def _list(admin: Admin, options: Mapping[str, Any]) -> None:
    chosen = _chosen(admin, options, required=False)
    if options["as_json"]:
        echo_json(list(chosen))
    else:
        echo_lines(chosen)


def _create(admin: Admin, topic: Any, *, if_not_exists: bool) -> None:
    # Kafka: `Topic.hasCollisionChars`. In the names of metrics a period becomes an underscore.
    if "." in topic.name or "_" in topic.name:
        click.echo(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
            "could collide. To avoid issues it is best to use either, but not both.",
            err=True,
        )
    try:
        admin.create_topics([topic])
    except KafkaError as error:
        if error.code.name == "TOPIC_ALREADY_EXISTS" and if_not_exists:
            return
        raise
    click.echo(f"Created topic {topic.name}.")


def _delete(admin: Admin, options: Mapping[str, Any]) -> None:
    chosen = _chosen(admin, options)
    if chosen:
        admin.delete_topics(chosen)


def _alter(admin: Admin, options: Mapping[str, Any]) -> None:
    chosen = _chosen(admin, options)
    partition_count = options["partitions"]
    if not chosen:
        return
    assigned = _assignment(options["replica_assignment"])
    new = {}
    if assigned is not None:
        # As in Kafka's tool, the words for partitions that are there already are passed over.
        new = {name: list(assigned.values())[len(topic.partitions) :] for name, topic in chosen.items()}
    admin.create_partitions(dict.fromkeys(chosen, partition_count), assignments=new)


def _describe(admin: Admin, options: Mapping[str, Any]) -> None:
    chosen = _chosen(admin, options)
    if not chosen:
        if options["as_json"]:
            echo_json([])
        return
    configs = configs_of(admin, chosen)
    live = {node.id for node in admin.describe_cluster().nodes}
    # A topic without configs has been deleted since.
    there = (topic for name, topic in chosen.items() if name in configs)
    if options["as_json"]:
        objects = (as_object(topic, configs[topic.name], live, options) for topic in there)
        echo_json([topic for topic in objects if topic is not None])
        return
    echo_lines(line for topic in there for line in description(topic, configs[topic.name], live, options))


def configs_of(admin: Admin, names: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
    """Topic → its configs; topics that are gone by now are left out."""
    left = list(names)
    while left:
        try:
            configs = admin.describe_configs([("topic", name) for name in left])
        except KafkaError as error:
            problems: Mapping[tuple[int, str], KafkaError] = getattr(error, "errors", {})
            gone = {n for (_, n), e in problems.items() if e.code.name == "UNKNOWN_TOPIC_OR_PARTITION"}
            if not gone:
                raise
            left = [name for name in left if name not in gone]
        else:
            return {str(name): entries for (_, name), entries in configs.items()}
    return {}


def description(
    topic: TopicDescription,
    configs: Mapping[str, ConfigEntry],
    live: set[int],
    options: Mapping[str, Any],
) -> Iterator[str]:
    """The lines of `--describe` for one topic.

    Args:
        topic: the topic.
        configs: its configs, the defaults too.
        live: ids of the brokers that are there.
        options: which filters are set, by the names of `FILTERS`, and `topics_with_overrides`.
    """
    overrides = _overrides(configs)
    shows_all = not any(options[name] for name in FILTERS)
    if shows_all and (overrides or not options["topics_with_overrides"]):
        yield _headline(topic, overrides)
    if options["topics_with_overrides"]:
        return
    for partition in _filtered(topic, configs, live, options):
        yield _partition_line(partition)


def _overrides(configs: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    return {name: e.value for name, e in configs.items() if e.source != DEFAULT_CONFIG}


def _filtered(
    topic: TopicDescription, configs: Mapping[str, ConfigEntry], live: set[int], options: Mapping[str, Any]
) -> Iterator[PartitionInfo]:
    """The partitions that the filters let through; all without one."""
    # The value that holds for the topic, which may be the broker's.
    least = int(configs["min.insync.replicas"].value or 1)
    shows_all = not any(options[name] for name in FILTERS)
    for partition in sorted(topic.partitions, key=lambda p: p.partition):
        if shows_all or any(options[f] and test(partition, least, live) for f, test in FILTERS.items()):
            yield partition


def as_object(
    topic: TopicDescription, configs: Mapping[str, ConfigEntry], live: set[int], options: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The object of `--describe --json` for one topic; None where the filters leave nothing of it."""
    from odradek.wire.primitives import uuid_to_text

    partitions = list(_filtered(topic, configs, live, options))
    overrides = _overrides(configs)
    if not partitions or (options["topics_with_overrides"] and not overrides):
        return None
    return {
        "topic": topic.name,
        "topicId": uuid_to_text(topic.topic_id) if any(topic.topic_id) else None,
        "isInternal": topic.is_internal,
        "configs": overrides,
        "partitions": [
            {
                "partition": p.partition,
                "leader": p.leader if p.leader >= 0 else None,
                "replicas": p.replicas,
                "isr": p.in_sync_replicas,
                "elr": p.eligible_leader_replicas,
                "lastKnownElr": p.last_known_eligible_leader_replicas,
            }
            for p in partitions
        ],
    }


#: Flag → which partitions it lets through: (partition, min.insync.replicas, live brokers).
FILTERS: dict[str, Callable[[PartitionInfo, int, set[int]], bool]] = {
    "under_replicated_partitions": lambda p, least, live: len(p.in_sync_replicas) < len(p.replicas),
    "unavailable_partitions": lambda p, least, live: p.leader not in live,
    "under_min_isr_partitions": lambda p, least, live: p.leader < 0 or len(p.in_sync_replicas) < least,
    "at_min_isr_partitions": lambda p, least, live: len(p.in_sync_replicas) == least,
}


def _headline(topic: TopicDescription, overrides: Mapping[str, str | None]) -> str:
    from odradek.wire.primitives import uuid_to_text

    replication_factor = len(topic.partitions[0].replicas) if topic.partitions else 0
    configs = ",".join(f"{key}={'null' if value is None else value}" for key, value in overrides.items())
    # Brokers before 2.8 have no topic ids.
    topic_id = f"\tTopicId: {uuid_to_text(topic.topic_id)}" if any(topic.topic_id) else ""
    return (
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {replication_factor}\tConfigs: {configs}"
    )


def _partition_line(partition: PartitionInfo) -> str:
    def ids(brokers: tuple[int, ...] | None) -> str:
        return "N/A" if brokers is None else ",".join(map(str, brokers))

    leader = partition.leader if partition.leader >= 0 else "none"
    return (
        f"\tTopic: {partition.topic}\tPartition: {partition.partition}\tLeader: {leader}\t"
        f"Replicas: {ids(partition.replicas)}\tIsr: {ids(partition.in_sync_replicas)}\t"
        f"Elr: {ids(partition.eligible_leader_replicas)}\t"
        f"LastKnownElr: {ids(partition.last_known_eligible_leader_replicas)}"
    )
