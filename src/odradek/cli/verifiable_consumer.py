"""`odradek verifiable-consumer`: kafka-verifiable-consumer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.events import Events
from odradek.cli.tool import NotedSignals, Tool, bootstrap_option, client_configs, command_config_option
from odradek.errors import FencedInstanceIdError, KafkaError

if TYPE_CHECKING:
    from odradek import Consumer, ConsumerRecord, TopicPartition

#: Milliseconds that one poll takes at most: so soon Ctrl-C is seen.
POLL_MS = 200


@click.command(cls=Tool, name="verifiable-consumer")
@bootstrap_option("--broker-list")
@click.option("--topic", required=True, help="The topic to read.")
@click.option(
    "--group-protocol", default="classic", show_default=True, help="classic: the only one built yet."
)
@click.option("--group-id", required=True, help="The consumer group.")
@click.option("--group-instance-id", help="The name of a static member.")
@click.option("--max-messages", type=int, default=-1, show_default=True, help="So many; -1: until killed.")
@click.option("--session-timeout", type=click.IntRange(1), metavar="MS", help="The session timeout.")
@click.option("--verbose", is_flag=True, help="Print every record, too.")
@click.option("--enable-autocommit", is_flag=True, help="Let the consumer commit on its own.")
@click.option("--reset-policy", type=click.Choice(["earliest", "latest", "none"]), default="earliest",
              show_default=True, help="Where to begin where nothing is committed.")  # fmt: skip
@click.option("--assignment-strategy", default="org.apache.kafka.clients.consumer.RangeAssignor",
              show_default=True, help="How partitions are assigned.")  # fmt: skip
@click.option("--group-remote-assignor", expose_value=False, metavar="NAME",
              help="For groups whose brokers assign: without effect on classic ones.")  # fmt: skip
@click.option("--isolation-level", type=click.Choice(["read_uncommitted", "read_committed"]),
              help="What of transactions to read.  [default: read_uncommitted]")  # fmt: skip
@command_config_option("--consumer.config", "--command-config")
def command(
    bootstrap_server: str,
    topic: str,
    group_protocol: str,
    group_id: str,
    group_instance_id: str | None,
    max_messages: int,
    session_timeout: int | None,
    verbose: bool,
    enable_autocommit: bool,
    reset_policy: str,
    assignment_strategy: str,
    isolation_level: str | None,
    config_file: str | None,
) -> None:
    """Read a topic in a group, and print what happens as JSON."""
    from odradek import Consumer

    # The words of the command line go before the file's.
    given: dict[str, Any] = {
        "group_id": group_id,
        "group_protocol": group_protocol.lower(),
        "group_instance_id": group_instance_id,
        "session_timeout_ms": session_timeout,
        "enable_auto_commit": enable_autocommit,
        "auto_offset_reset": reset_policy,
        "partition_assignment_strategy": assignment_strategy,
        "isolation_level": isolation_level,
    }
    configs = client_configs(bootstrap_server, config_file)
    configs |= {name: value for name, value in given.items() if value is not None}
    events = Events()
    run = Run(events, topic, max_messages, verbose=verbose, commit=not enable_autocommit)
    with Consumer(**configs) as consumer, NotedSignals() as signals:
        try:
            events.emit("startup_complete")
            run.read(consumer, signals)
        finally:
            if signals.ended_by is not None:
                events.emit("shutdown_requested")
            consumer.close()
            events.emit("shutdown_complete")
            if signals.ended_by is None:
                events.emit("shutdown_requested")
    signals.leave()


class Run:
    """Reads, and tells of it.

    Args:
        events: where to tell.
        topic: what to read.
        most: how many records; negative: without end.
        verbose: whether to tell of every record.
        commit: whether to commit after every poll.
    """

    def __init__(self, events: Events, topic: str, most: int, *, verbose: bool, commit: bool) -> None:
        self.count = 0
        self._events = events
        self._topic = topic
        self._most = most
        self._verbose = verbose
        self._commits = commit

    def read(self, consumer: Consumer, signals: NotedSignals) -> None:
        """Read until there is enough, or a signal came.

        Raises:
            KafkaError: a consumer cannot go on after it.
        """
        consumer.subscribe([self._topic], listener=_listener(self._events))
        while signals.ended_by is None and (self._most < 0 or self.count < self._most):
            records = consumer.poll(timeout_ms=POLL_MS)
            if records:
                offsets = self.received(records)
                if self._commits:
                    self._commit(consumer, offsets)

    def received(self, records: list[ConsumerRecord]) -> dict[TopicPartition, int]:
        """Tell of what one poll gave, as far as it is wanted; returns what is to be committed."""
        from odradek import TopicPartition

        by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in records:
            by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        summaries = []
        offsets: dict[TopicPartition, int] = {}
        for tp, all_of_it in by_partition.items():
            some = all_of_it if self._most < 0 else all_of_it[: self._most - self.count]
            if not some:
                break
            self.count += len(some)
            first, last = some[0].offset, some[-1].offset
            offsets[tp] = last + 1
            summaries.append({**_json(tp), "count": len(some), "minOffset": first, "maxOffset": last})
            for record in some if self._verbose else ():
                self._events.emit(
                    "record_data",
                    key=_text(record.key),
                    value=_text(record.value),
                    topic=record.topic,
                    partition=record.partition,
                    offset=record.offset,
                )
        self._events.emit("records_consumed", count=len(records), partitions=summaries)
        return offsets

    def _commit(self, consumer: Consumer, offsets: dict[TopicPartition, int]) -> None:
        event = {"offsets": [{**_json(tp), "offset": offset} for tp, offset in offsets.items()]}
        try:
            consumer.commit(offsets)
        except FencedInstanceIdError:
            raise
        except KafkaError as error:
            self._events.emit("offsets_committed", **event, error=str(error), success=False)
        else:
            self._events.emit("offsets_committed", **event, success=True)


def _listener(events: Events) -> Any:
    from odradek import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):
        """Tells of rebalances."""

        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            events.emit("partitions_revoked", partitions=[_json(tp) for tp in revoked])

        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            events.emit("partitions_assigned", partitions=[_json(tp) for tp in assigned])

    return Listener()


def _json(tp: TopicPartition) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
