"""`odradek reassign-partitions`: kafka-reassign-partitions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli import reassignments as work
from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    check_json,
    client_configs,
    command_config_option,
    echo_json,
    json_option,
)
from odradek.client.types import TopicPartition, TopicPartitionReplica
from odradek.errors import KafkaError, OdradekError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from odradek import Admin

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
#: Between two requests to move replicas that have not come to their brokers yet.
_ASK_AGAIN_S = 0.1
#: What an action takes besides --bootstrap-server and --command-config; the first are required.
_TAKES = {
    "generate": (("topics_file", "broker_list"), ("disable_rack_aware",)),
    "execute": (
        ("plan_file",),
        ("additional", "throttle", "log_dirs_throttle", "timeout", "disallow_factor_change"),
    ),
    "verify": (("plan_file",), ("preserve_throttles",)),
    "cancel": (("plan_file",), ("preserve_throttles", "timeout")),
    "list": ((), ()),
}
_NAMES = {
    "topics_file": "--topics-to-move-json-file",
    "broker_list": "--broker-list",
    "disable_rack_aware": "--disable-rack-aware",
    "plan_file": "--reassignment-json-file",
    "additional": "--additional",
    "throttle": "--throttle",
    "log_dirs_throttle": "--replica-alter-log-dirs-throttle",
    "timeout": "--timeout",
    "preserve_throttles": "--preserve-throttles",
    "disallow_factor_change": "--disallow-replication-factor-change",
}
_EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this "
    "and create a new partition assignment in addition to the existing one. The --additional flag can also "
    "be used to change the throttle by resubmitting the current reassignment."
)
_VERIFY_PERIODICALLY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle "
    "is removed."
)


@click.command(cls=Tool, name="reassign-partitions")
@bootstrap_option()
@command_config_option()
@click.option("--generate", is_flag=True, help="Propose a plan; nothing is changed.")
@click.option("--execute", is_flag=True, help="Begin what a plan says.")
@click.option("--verify", is_flag=True, help="Say how far a plan is; when it is done, remove the throttles.")
@click.option("--cancel", is_flag=True, help="Take back what of a plan is under way.")
@click.option("--list", "list_", is_flag=True, help="List all that is under way.")
@click.option(
    "--reassignment-json-file",
    "plan_file",
    type=_FILE,
    help='A plan: {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], '
    '"log_dirs": ["any", "/data"]}]}; log_dirs may be left out.',
)
@click.option(
    "--topics-to-move-json-file",
    "topics_file",
    type=_FILE,
    help='What --generate is about: {"version": 1, "topics": [{"topic": "t"}]}.',
)
@click.option("--broker-list", metavar="ID,…", help="To which brokers --generate moves.")
@click.option("--disable-rack-aware", is_flag=True, help="--generate does not look at racks.")
@click.option(
    "--throttle",
    type=click.IntRange(min=-1),
    metavar="BYTES",
    help="Bytes a second that each broker may copy to and from others for it; -1: no bound.",
)
@click.option(
    "--replica-alter-log-dirs-throttle",
    "log_dirs_throttle",
    type=click.IntRange(min=-1),
    metavar="BYTES",
    help="Bytes a second that each broker may copy between its folders; -1: no bound.",
)
@click.option("--additional", is_flag=True, help="Execute though others are under way; change a throttle.")
@click.option("--preserve-throttles", is_flag=True, help="Leave the throttles as they are.")
@click.option(
    "--timeout",
    type=click.IntRange(min=0),
    metavar="MS",
    help="How long to wait until moves between folders can begin; 10000 if left out.",
)
@click.option(
    "--disallow-replication-factor-change",
    "disallow_factor_change",
    is_flag=True,
    help="Refuse a plan that has more or fewer replicas than there are.",
)
@json_option()
def command(bootstrap_server: str, config_file: str | None, as_json: bool, **words: Any) -> None:
    """Move partitions to other brokers, and replicas to other folders."""
    words["list"] = words.pop("list_")
    action = _action(words)
    check_json(as_json, lists=action == "list")
    configs = client_configs(bootstrap_server, config_file, client_id="odradek-reassign-partitions")
    from odradek import Admin

    with Admin(**configs) as admin:
        if action == "list":
            _list(admin, as_json=as_json)
            return
        if action == "generate":
            topics = work.read_topics(words["topics_file"])
            _generate(admin, topics, words["broker_list"], by_rack=not words["disable_rack_aware"])
            return
        plan = work.read_plan(words["plan_file"])
        # Not by a default of the option: that it was given has to be seen, for actions that do not take it.
        patience_s = (10_000 if words["timeout"] is None else words["timeout"]) / 1000
        if action == "verify":
            _verify(admin, plan, keep_throttles=words["preserve_throttles"])
        elif action == "cancel":
            _cancel(admin, plan, patience_s, keep_throttles=words["preserve_throttles"])
        else:
            _execute(
                admin,
                plan,
                patience_s,
                rates=(_rate(words["throttle"]), _rate(words["log_dirs_throttle"])),
                additional=words["additional"],
                same_factor=words["disallow_factor_change"],
            )


def _rate(word: int | None) -> int | None:
    """A rate that is to be set; -1 is none, as with Kafka."""
    return None if word == -1 else word


def _action(words: dict[str, Any]) -> str:
    """The one action that is asked for, its options complete and no others given."""
    chosen = [action for action in _ACTIONS if words[action]]
    if len(chosen) != 1:
        actions = ", ".join(f"--{action}" for action in _ACTIONS)
        raise click.UsageError(f"Command must include exactly one action: {actions}")
    (action,) = chosen
    required, permitted = _TAKES[action]
    for name in required:
        if words[name] is None:
            raise click.UsageError(f"--{action} takes {_NAMES[name]}")
    for name, option in _NAMES.items():
        if words[name] not in (None, False) and name not in (*required, *permitted):
            raise click.UsageError(f"Option {option} can't be used with action --{action}")
    return action


# --- the actions --------------------------------------------------------------------------------------------


def _list(admin: Admin, *, as_json: bool) -> None:
    under_way = admin.list_partition_reassignments()
    if as_json:
        echo_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "replicas": moving.replicas,
                    "addingReplicas": moving.adding_replicas,
                    "removingReplicas": moving.removing_replicas,
                }
                for tp, moving in sorted(under_way.items())
            ]
        )
        return
    if not under_way:
        click.echo("No partition reassignments found.")
        return
    click.echo("Current partition reassignments:")
    for tp, moving in sorted(under_way.items()):
        click.echo(work.under_way_line(tp, moving))


def _generate(admin: Admin, topics: list[str], broker_list: str, *, by_rack: bool) -> None:
    from odradek.cluster.controller.assignment import assign_replicas

    # Brokers of the list that are not there are passed over below, as in Kafka's tool.
    try:
        broker_ids = [int(word) for word in broker_list.split(",")]
    except ValueError as error:
        raise click.BadParameter(
            f"{broker_list!r} is no list of broker ids", param_hint="--broker-list"
        ) from error
    twice = sorted({broker for broker in broker_ids if broker_ids.count(broker) > 1})
    if twice:
        raise OdradekError(f"Broker list contains duplicate entries: {work.numbers(twice)}")
    nodes = [node for node in admin.describe_cluster().nodes if node.id in broker_ids]
    racks = {node.id: node.rack if by_rack else None for node in nodes}
    # Kafka: `RackAwareMode.Enforced`. Replicas cannot be spread over racks of which some are unknown.
    if len({rack is None for rack in racks.values()}) > 1:
        raise OdradekError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    present: work.Assignment = {}
    proposed: work.Assignment = {}
    for name, topic in admin.describe_topics(topics).items():
        rows = {partition.partition: tuple(partition.replicas) for partition in topic.partitions}
        present |= {TopicPartition(name, index): row for index, row in rows.items()}
        # The partitions of a topic may have different factors; the first partition's counts for all.
        placed = assign_replicas(racks, len(rows), len(rows[min(rows)]))
        proposed |= {TopicPartition(name, index): row for index, row in placed.items()}
    click.echo(f"Current partition replica assignment\n{work.as_plan(present)}\n")
    click.echo(f"Proposed partition reassignment configuration\n{work.as_plan(proposed)}")


def _throttle(admin: Admin, moves: work.Moves, rate: int) -> None:
    """Bound the copies of some moves between brokers, in bytes a second (KIP-73)."""
    # Which replicas first: a rate without them is for nobody, they without a rate are not throttled.
    admin.incremental_alter_configs(
        {("topic", topic): configs for topic, configs in moves.throttled_replicas().items()}
    )
    both = {work.LEADER_RATE: str(rate), work.FOLLOWER_RATE: str(rate)}
    admin.incremental_alter_configs({("broker", str(broker)): both for broker in sorted(moves.brokers)})
    click.echo(f"The inter-broker throttle limit was set to {rate} B/s")


def _throttle_log_dirs(admin: Admin, plan: work.Plan, rate: int) -> None:
    """Bound the copies between the folders of each broker in a plan, in bytes a second (KIP-113)."""
    brokers = sorted({replica.broker_id for replica in plan.log_dirs})
    log_dirs_rate = {work.LOG_DIRS_RATE: str(rate)}
    admin.incremental_alter_configs({("broker", str(broker)): log_dirs_rate for broker in brokers})
    click.echo(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def _execute(
    admin: Admin,
    plan: work.Plan,
    patience_s: float,
    *,
    rates: tuple[int | None, int | None],
    additional: bool,
    same_factor: bool,
) -> None:
    under_way = admin.list_partition_reassignments()
    if under_way and not additional:
        raise OdradekError(_EXISTING)
    # Everything is checked before a throttle is set, which nobody would remove again.
    _check_brokers(admin, {broker for row in plan.replicas.values() for broker in row})
    present = _present(admin, plan.replicas)
    missing = plan.replicas.keys() - present.keys()
    if missing:
        raise OdradekError(f"Unable to find partition: {work.names(missing)}")
    other = [tp for tp, row in plan.replicas.items() if len(row) != len(present[tp])]
    if same_factor and other:
        raise OdradekError(f"The replication factor would be another one of {work.names(other)}")
    click.echo(
        f"Current partition replica assignment\n\n{work.as_plan(present)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    rate, log_dirs_rate = rates
    # Before the moves begin: their first records would be copied without a bound.
    if rate is not None or log_dirs_rate is not None:
        click.echo(_VERIFY_PERIODICALLY)
    if rate is not None:
        _throttle(admin, work.moves(plan.replicas, present, under_way), rate)
    if log_dirs_rate is not None:
        _throttle_log_dirs(admin, plan, log_dirs_rate)
    try:
        admin.alter_partition_reassignments(plan.replicas)
    except KafkaError as error:
        raise OdradekError(f"Error reassigning partition(s):\n{_each(error)}") from error
    # Folders come last: a replica that is new to its broker can be moved there once it has been made.
    started = plan.replicas
    click.echo(
        f"Successfully started partition reassignment{work.plural(len(started))} for {work.names(started)}"
    )
    if plan.log_dirs:
        _move_between_folders(admin, plan.log_dirs, patience_s)


def _verify(admin: Admin, plan: work.Plan, *, keep_throttles: bool) -> None:
    under_way = admin.list_partition_reassignments()
    present = _present(admin, plan.replicas)
    click.echo("Status of partition reassignment:")
    for tp, target in sorted(plan.replicas.items()):
        click.echo(work.status_line(tp, target, present.get(tp, ()), is_moving=tp in under_way))
    places = _places(admin, plan.log_dirs)
    for replica, target_dir in sorted(plan.log_dirs.items(), key=_by_broker):
        click.echo(work.place_line(replica, target_dir, places[replica]))
    moving = any(place.future is not None for place in places.values())
    # Others' moves count, too: the rates are those of whole brokers, and may be needed by them.
    if not under_way and not moving and not keep_throttles:
        _clear_throttles(admin, plan)


def _cancel(admin: Admin, plan: work.Plan, patience_s: float, *, keep_throttles: bool) -> None:
    active = admin.list_partition_reassignments(plan.replicas)
    if active:
        # None as the target takes a reassignment back (KIP-455).
        try:
            admin.alter_partition_reassignments(dict.fromkeys(active))
        except KafkaError as error:
            raise OdradekError(f"Error cancelling partition reassignments for:\n{_each(error)}") from error
        some = work.plural(len(active))
        click.echo(f"Successfully cancelled partition reassignment{some} for: {work.names(active)}")
    else:
        click.echo("None of the specified partition reassignments are active.")
    # A move between folders has no way back but a move to the folder in which the replica still is.
    back = {
        replica: place.present
        for replica, place in _places(admin, plan.log_dirs).items()
        if place.future is not None and place.present is not None
    }
    if back:
        _move_between_folders(admin, back, patience_s)
    else:
        click.echo("None of the specified partition moves are active.")
    if not keep_throttles:
        _clear_throttles(admin, plan)


# --- what they share ----------------------------------------------------------------------------------------


def _each(error: KafkaError) -> str:
    errors = getattr(error, "errors", None) or {"all": error}
    return "\n".join(f"{partition}: {problem}" for partition, problem in sorted(errors.items()))


def _check_brokers(admin: Admin, brokers: set[int]) -> None:
    unknown = brokers - {node.id for node in admin.describe_cluster().nodes}
    if unknown:
        raise OdradekError(f"Unknown broker id {min(unknown)}")


def _present(admin: Admin, partitions: Iterable[TopicPartition]) -> work.Assignment:
    """The replicas that these partitions have, as far as there are such partitions."""
    # Topic after topic: a request for several fails as a whole if one of them is gone.
    wanted = set(partitions)
    present: work.Assignment = {}
    for name in sorted({tp.topic for tp in wanted}):
        with suppress(UnknownTopicOrPartitionError):
            for partition in admin.describe_topics([name])[name].partitions:
                tp = TopicPartition(name, partition.partition)
                if tp in wanted:
                    present[tp] = tuple(partition.replicas)
    return present


def _by_broker(item: tuple[TopicPartitionReplica, str]) -> tuple[int, TopicPartitionReplica]:
    return item[0].broker_id, item[0]


def _places(
    admin: Admin, replicas: Iterable[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, work.Place]:
    """In which folders replicas, and their copies, are."""
    places = dict.fromkeys(replicas, work.Place(None, None))
    for broker, folders in admin.describe_log_dirs(sorted({replica.broker_id for replica in places})).items():
        for path, folder in folders.items():
            for tp, info in folder.replicas.items():
                replica = TopicPartitionReplica(*tp, broker)
                if replica in places:
                    kind = "future" if info.is_future else "present"
                    places[replica] = places[replica]._replace(**{kind: path})
    return places


def _move_between_folders(admin: Admin, log_dirs: work.LogDirs, patience_s: float) -> None:
    """Ask until all have begun: a replica that is still to come to its broker cannot be moved there yet."""
    left = dict(log_dirs)
    deadline = time.monotonic() + patience_s
    while True:
        refused: set[TopicPartitionReplica] = set()
        try:
            admin.alter_replica_log_dirs(left)
        except KafkaError as error:
            # Without an error for each replica nothing is known to have begun.
            errors = getattr(error, "errors", None)
            if not errors:
                raise
            refused = set(errors)
        for replica, folder in sorted(left.items(), key=_by_broker):
            if replica not in refused:
                click.echo(
                    f"Successfully started moving log directory to {folder} for replica "
                    f"{replica.topic}-{replica.partition} with broker {replica.broker_id} "
                )
        left = {replica: folder for replica, folder in left.items() if replica in refused}
        if not left:
            return
        if time.monotonic() >= deadline:
            raise OdradekError(
                f"Timed out before log directory move{work.plural(len(left))} could be started for: "
                f"{work.names(left)}"
            )
        time.sleep(_ASK_AGAIN_S)


def _clear_throttles(admin: Admin, plan: work.Plan) -> None:
    """Remove the throttles of all brokers: nobody knows any more which of them replicas were copied from."""
    brokers = {node.id for node in admin.describe_cluster().nodes}
    # A broker that is down would come back with its throttle.
    brokers |= {broker for row in plan.replicas.values() for broker in row}
    some = work.plural(len(brokers))
    click.echo(f"Clearing broker-level throttles on broker{some} {work.numbers(sorted(brokers))}")
    rates = dict.fromkeys((work.LEADER_RATE, work.FOLLOWER_RATE, work.LOG_DIRS_RATE))
    admin.incremental_alter_configs({("broker", str(broker)): rates for broker in sorted(brokers)})
    topics = sorted({tp.topic for tp in plan.replicas})
    click.echo(f"Clearing topic-level throttles on topic{work.plural(len(topics))} {','.join(topics)}")
    replicas = dict.fromkeys((work.LEADER_REPLICAS, work.FOLLOWER_REPLICAS))
    admin.incremental_alter_configs({("topic", topic): replicas for topic in topics})
