"""`odradek transactions`: kafka-transactions."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

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
from odradek.client.core.transactions.hanging import (
    MINUTE_MS,
    MINUTES,
    PARTITIONS_AT_ONCE,
    OpenTransaction,
    abort_spec,
    hanging,
    open_at,
    open_for_longer,
)
from odradek.errors import OdradekError, TransactionalIdNotFoundError

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.types import ProducerState, TopicPartition, TransactionDescription

T = TypeVar("T")

LIST = ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
DESCRIBE = [
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
]
PRODUCERS = [
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
]
HANGING = [
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
]
#: A cluster can have very many partitions, and each of them very many producers. Kafka: `MAX_BATCH_SIZE`.


class _Tools(Tool, SuggestingGroup):
    """Tools within a tool, as `odradek transactions … list …`."""


@click.command(cls=_Tools, name="transactions")
@bootstrap_option()
@command_config_option()
@click.pass_context
def command(ctx: click.Context, bootstrap_server: str, config_file: str | None) -> None:
    """Look at transactions and producers; find transactions that hang, and abort them."""
    ctx.obj = client_configs(bootstrap_server, config_file, client_id="odradek-transactions")


@command.command("list", cls=Tool)
@click.option(
    "--duration-filter", "longer_than_ms", type=int, default=-1, metavar="MS",
    help="Only transactions that have been going on for longer; negative: all.",
)  # fmt: skip
@click.option(
    "--transactional-id-pattern", "pattern", metavar="REGEX",
    help="Only ids that match, in the syntax that the broker knows.",
)  # fmt: skip
@json_option()
@click.pass_context
def list_(ctx: click.Context, longer_than_ms: int, pattern: str | None, as_json: bool) -> None:
    """List transactional ids."""
    with _admin(ctx) as admin, _told_as("Failed to list transactions"):
        listed = admin.list_transactions(longer_than_ms=longer_than_ms, pattern=pattern)
    if as_json:
        echo_json(
            [
                {
                    "transactionalId": listing.transactional_id,
                    "coordinator": coordinator,
                    "producerId": listing.producer_id,
                    "state": listing.state,
                }
                for coordinator, listings in listed.items()
                for listing in listings
            ]
        )
        return
    rows = [
        [listing.transactional_id, str(coordinator), str(listing.producer_id), listing.state]
        for coordinator, listings in listed.items()
        for listing in listings
    ]
    echo_lines(pretty(LIST, rows))


@command.command("describe", cls=Tool)
@click.option("--transactional-id", required=True, help="The transactional id.")
@json_option()
@click.pass_context
def describe(ctx: click.Context, transactional_id: str, as_json: bool) -> None:
    """Describe the state of a transactional id."""
    failure = f"Failed to describe transaction state of transactional-id `{transactional_id}`"
    with _admin(ctx) as admin, _told_as(failure):
        transaction = admin.describe_transactions([transactional_id])[transactional_id]
    # None while nothing is open; Kafka's tool prints that word.
    began = transaction.start_time_ms
    if as_json:
        echo_json(
            {
                "transactionalId": transaction.transactional_id,
                "coordinator": transaction.coordinator_id,
                "producerId": transaction.producer_id,
                "producerEpoch": transaction.producer_epoch,
                "state": transaction.state,
                "timeoutMs": transaction.timeout_ms,
                "startTimeMs": began,
                "partitions": [{"topic": p.topic, "partition": p.partition} for p in transaction.partitions],
            }
        )
        return
    row = [
        str(transaction.coordinator_id),
        transaction.transactional_id,
        str(transaction.producer_id),
        str(transaction.producer_epoch),
        transaction.state,
        str(transaction.timeout_ms),
        "None" if began is None else str(began),
        "None" if began is None else str(_now_ms() - began),
        ",".join(map(str, transaction.partitions)),
    ]
    echo_lines(pretty(DESCRIBE, [row]))


@command.command("describe-producers", cls=Tool)
@click.option("--broker-id", type=int, help="The replica to ask; the leader, if left out.")
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", type=int, required=True, help="The partition.")
@json_option()
@click.pass_context
def describe_producers(
    ctx: click.Context, broker_id: int | None, topic: str, partition: int, as_json: bool
) -> None:
    """Describe the producers that a partition remembers."""
    from odradek import TopicPartition

    tp = TopicPartition(topic, partition)
    where = "leader" if broker_id is None else f"broker {broker_id}"
    with _admin(ctx) as admin, _told_as(f"Failed to describe producers for partition {tp} on {where}"):
        producers = admin.describe_producers([tp], broker_id=broker_id)[tp]
    if as_json:
        echo_json([_as_object(producer) for producer in sorted(producers)])
        return
    rows = [
        [
            str(producer.producer_id),
            str(producer.producer_epoch),
            str(_or_minus_1(producer.coordinator_epoch)),
            str(producer.last_sequence),
            str(producer.last_timestamp),
            str(producer.transaction_start_offset),
        ]
        for producer in sorted(producers)
    ]
    echo_lines(pretty(PRODUCERS, rows))


@command.command("abort", cls=Tool)
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", type=int, required=True, help="The partition.")
@click.option("--start-offset", type=int, help="Where the transaction begins: enough for brokers since 3.0.")
@click.option("--producer-id", type=int, help="For older brokers.")
@click.option("--producer-epoch", type=int, help="For older brokers.")
@click.option("--coordinator-epoch", type=int, help="For older brokers.")
@click.pass_context
def abort(
    ctx: click.Context,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> None:
    """Abort a transaction that hangs in a partition."""
    from odradek import TopicPartition

    if start_offset is None:
        if producer_id is None:
            raise click.UsageError(
                "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 "
                "or above) or with --producer-id, --producer-epoch, and --coordinator-epoch "
                "(for older brokers)"
            )
        if producer_epoch is None:
            raise click.UsageError("Missing required argument --producer-epoch")
        if coordinator_epoch is None:
            raise click.UsageError("Missing required argument --coordinator-epoch")
    tp = TopicPartition(topic, partition)
    with _admin(ctx) as admin:
        if start_offset is not None:
            producer = _open_at(admin, tp, start_offset)
            producer_id, producer_epoch = producer.producer_id, producer.producer_epoch
            coordinator_epoch = producer.coordinator_epoch
        assert producer_id is not None and producer_epoch is not None
        spec = abort_spec(tp, producer_id, producer_epoch, coordinator_epoch)
        with _told_as(
            f"Failed to abort transaction AbortTransactionSpec(topicPartition={tp}, "
            f"producerId={producer_id}, producerEpoch={producer_epoch}, "
            f"coordinatorEpoch={spec.coordinator_epoch})"
        ):
            admin.abort_transaction(spec)


def _open_at(admin: Admin, tp: TopicPartition, start_offset: int) -> ProducerState:
    with _told_as(f"Failed to validate producer state for partition {tp}"):
        producers = admin.describe_producers([tp])[tp]
    producer = open_at(producers, start_offset)
    if producer is None:
        raise OdradekError(
            f"Could not find any open transactions starting at offset {start_offset} on partition {tp}"
        )
    return producer


@command.command("find-hanging", cls=Tool)
@click.option("--broker-id", type=int, help="Only replicas of this broker.")
@click.option("--max-transaction-timeout", "minutes", type=int, default=MINUTES, show_default=True,
              help="Minutes; younger transactions do not hang.")  # fmt: skip
@click.option("--topic", help="Only this topic.")
@click.option("--partition", type=int, help="Only this partition of --topic.")
@json_option()
@click.pass_context
def find_hanging(
    ctx: click.Context,
    broker_id: int | None,
    minutes: int,
    topic: str | None,
    partition: int | None,
    as_json: bool,
) -> None:
    """Find open transactions that their coordinators know nothing of."""
    # Each replica of the cluster would be asked for all of its producers.
    if topic is None and broker_id is None:
        raise click.UsageError(
            "The `find-hanging` command requires either --topic or --broker-id "
            "to limit the scope of the search"
        )
    if partition is not None and topic is None:
        raise click.UsageError("The --partition argument requires --topic to be provided")
    with _admin(ctx) as admin:
        partitions = _partitions(admin, broker_id, topic, partition)
        candidates: list[OpenTransaction] = []
        for some in _in_parts(partitions, PARTITIONS_AT_ONCE):
            with _told_as(f"Failed to describe producers for {len(some)} partitions"):
                described = admin.describe_producers(some, broker_id=broker_id)
            candidates += open_for_longer(described, _now_ms(), minutes * MINUTE_MS)
        ids = _transactional_ids(admin, {candidate.producer.producer_id for candidate in candidates})
        # The coordinators last: what they have ended meanwhile is no longer among what they describe, and
        # what they describe is not hanging.
        hung = hanging(candidates, ids, _descriptions(admin, ids.values()))
    if as_json:
        echo_json(
            [{"topic": tp.topic, "partition": tp.partition, **_as_object(producer)} for tp, producer in hung]
        )
        return
    now_ms = _now_ms()
    rows = [
        [
            tp.topic,
            str(tp.partition),
            str(producer.producer_id),
            str(producer.producer_epoch),
            str(_or_minus_1(producer.coordinator_epoch)),
            str(_or_minus_1(producer.transaction_start_offset)),
            str(producer.last_timestamp),
            str((now_ms - producer.last_timestamp) // MINUTE_MS),
        ]
        for tp, producer in hung
    ]
    echo_lines(pretty(HANGING, rows))


# Kafka's spelling, unlike that of its other subcommands.
@command.command("forceTerminateTransaction", cls=Tool)
@click.option("--transactionalId", "transactional_id", required=True, help="The transactional id.")
@click.pass_context
def force_terminate(ctx: click.Context, transactional_id: str) -> None:
    """Abort the open transaction of a transactional id and fence its producer."""
    with (
        _admin(ctx) as admin,
        _told_as(f"Failed to force terminate transactionalId `{transactional_id}`"),
    ):
        admin.force_terminate_transaction(transactional_id)


def _partitions(
    admin: Admin, broker_id: int | None, topic: str | None, partition: int | None
) -> list[TopicPartition]:
    from odradek import TopicPartition

    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    with _told_as("Failed to list topics"):
        topics = [topic] if topic is not None else admin.list_topics(internal=True)
    with _told_as(f"Failed to describe {len(topics)} topics"):
        described = admin.describe_topics(topics) if topics else {}
    return sorted(
        TopicPartition(name, p.partition)
        for name, description in described.items()
        for p in description.partitions
        if broker_id is None or broker_id in p.replicas
    )


def _transactional_ids(admin: Admin, producer_ids: Collection[int]) -> dict[int, str]:
    if not producer_ids:
        return {}
    with _told_as(f"Failed to list transactions for {len(producer_ids)} producers"):
        listed = admin.list_transactions(producer_ids=sorted(producer_ids))
    # As in Kafka's tool, listings that were not asked for are left out.
    return {
        listing.producer_id: listing.transactional_id
        for listings in listed.values()
        for listing in listings
        if listing.producer_id in producer_ids
    }


def _descriptions(admin: Admin, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
    described: dict[str, TransactionDescription] = {}
    # One after the other: an id that has expired would be the error of all.
    for name in sorted(transactional_ids):
        with _told_as(f"Failed to describe {len(transactional_ids)} transactions"):
            try:
                described |= admin.describe_transactions([name])
            except TransactionalIdNotFoundError:
                continue
    return described


def pretty(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table as this tool of Kafka's prints it: columns padded to the same width, a tab behind each."""
    lines = [headers, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    for line in lines:
        yield "".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True))


@contextmanager
def _told_as(failure: str) -> Iterator[None]:
    """Errors within are told with `failure` in front."""
    try:
        yield
    except OdradekError as error:
        raise OdradekError(f"{failure}: {error}") from error


def _admin(ctx: click.Context) -> Admin:
    from odradek import Admin

    return Admin(**ctx.obj)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _as_object(producer: ProducerState) -> dict[str, object]:
    return {
        "producerId": producer.producer_id,
        "producerEpoch": producer.producer_epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "lastSequence": producer.last_sequence,
        "lastTimestamp": producer.last_timestamp,
        "transactionStartOffset": producer.transaction_start_offset,
    }


def _or_minus_1(number: int | None) -> int:
    return -1 if number is None else number


def _in_parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
