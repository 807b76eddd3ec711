"""`odradek transactional-message-copier`: the tool of that name in Kafka's system tests."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.events import Events, random_aborts
from odradek.cli.tool import NotedSignals, Tool, bootstrap_option, client_configs, command_config_option

if TYPE_CHECKING:
    from odradek import Consumer, ConsumerRecord, Producer, TopicPartition

#: Milliseconds that one poll takes at most.
POLL_MS = 200


@click.command(cls=Tool, name="transactional-message-copier")
@bootstrap_option("--broker-list")
@click.option("--input-topic", required=True, help="The topic to read.")
@click.option("--input-partition", type=click.IntRange(0), help="The partition, without --group-mode.")
@click.option("--output-topic", required=True, help="The topic to write.")
@click.option("--max-messages", type=int, default=-1, show_default=True,
              help="So many; -1: as many as there are when it starts.")  # fmt: skip
@click.option("--consumer-group", required=True, help="The group that offsets are committed for.")
@click.option("--transaction-size", type=click.IntRange(1), default=200, show_default=True,
              help="Records in a transaction at most.")  # fmt: skip
@click.option(
    "--transaction-timeout", type=click.IntRange(1), default=60_000, show_default=True, metavar="MS"
)
@click.option("--transactional-id", required=True, help="The transactional id.")
@click.option("--enable-random-aborts", is_flag=True, help="Abort every third transaction or so.")
@click.option("--seed", type=int, help="For the aborts.  [default: a random one, told on standard error]")
@click.option("--group-mode", is_flag=True, help="Let the group assign partitions of --input-topic.")
@click.option("--use-group-metadata", is_flag=True, help="Always done.")
@command_config_option()
def command(
    bootstrap_server: str,
    input_topic: str,
    input_partition: int | None,
    output_topic: str,
    max_messages: int,
    consumer_group: str,
    transaction_size: int,
    transaction_timeout: int,
    transactional_id: str,
    enable_random_aborts: bool,
    seed: int | None,
    group_mode: bool,
    use_group_metadata: bool,  # noqa: ARG001
    config_file: str | None,
) -> None:
    """Copy records to another topic exactly once, and print how far it is as JSON."""
    if not group_mode and input_partition is None:
        raise click.UsageError("give --input-partition, or --group-mode")
    from odradek import Consumer, Producer, TopicPartition

    rng = random_aborts(seed) if enable_random_aborts else None
    reading: dict[str, Any] = {
        "group_id": consumer_group,
        "isolation_level": "read_committed",
        "max_poll_records": transaction_size,
        "enable_auto_commit": False,
        "session_timeout_ms": 10_000,
        "max_poll_interval_ms": 180_000,
        "heartbeat_interval_ms": 3000,
        "auto_offset_reset": "earliest",
    }
    # Small batches, so that a transaction has several under way.
    writing = {"transactional_id": transactional_id, "transaction_timeout_ms": transaction_timeout,
               "batch_size": 512}  # fmt: skip
    base = client_configs(bootstrap_server, config_file)
    with Consumer(**base | reading) as consumer, Producer(**base | writing) as producer:
        copier = Copier(consumer, producer, output_topic, max_messages, rng)
        with NotedSignals() as signals:
            if group_mode:
                copier.subscribe(input_topic)
            else:
                assert input_partition is not None
                copier.assign(TopicPartition(input_topic, input_partition))
            try:
                copier.run(signals)
            finally:
                copier.tell("ShutdownComplete")
    signals.leave()


class AbortAtWill(Exception):
    """A transaction is aborted for no reason but that it may be."""


class Copier:
    """Reads, writes, and tells how far it is.

    Args:
        consumer: reads committed records, and does not commit.
        producer: has a transactional id.
        topic: where to write.
        most: how many records; negative: what there is at the start or, in a group, at the last rebalance.
        rng: decides about aborts; None: there are none.

    Attributes:
        total: how many records were copied.
        consumed: how many of them since the last rebalance.
        remaining: how many offsets are still to be gone through, or records to be copied.
    """

    def __init__(
        self, consumer: Consumer, producer: Producer, topic: str, most: int, rng: random.Random | None
    ) -> None:
        self.total = 0
        self.consumed = 0
        self._most = 2**63 - 1 if most < 0 else most
        self.remaining = self._most
        #: Where to end; None: nothing has been assigned yet.
        self._ends: dict[TopicPartition, int] | None = None
        self._consumer = consumer
        self._producer = producer
        self._topic = topic
        self._rng = rng
        self._events = Events()

    def assign(self, tp: TopicPartition) -> None:
        """Read one partition."""
        self._consumer.assign([tp])
        self._look_how_much()

    def subscribe(self, topic: str) -> None:
        """Read what the group assigns."""
        from odradek import ConsumerRebalanceListener

        copier = self

        class Listener(ConsumerRebalanceListener):
            """Looks how much there is to do now."""

            def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:  # noqa: ARG002
                copier._look_how_much()
                copier.consumed = 0
                copier.tell("RebalanceComplete")

        self._consumer.subscribe([topic], listener=Listener())

    def run(self, signals: NotedSignals) -> None:
        """Copy until nothing remains, or a signal came.

        Raises:
            KafkaError: a transactional producer cannot go on after it.
        """
        self._producer.init_transactions()
        while signals.ended_by is None and self.remaining > 0:
            self.tell("ProcessLoop")
            copied = self._once()
            self.total += copied
            self.consumed += copied
            self._update()

    def _once(self) -> int:
        """One transaction, if there is anything to read; how many records it copied."""
        from odradek.client.processing import process

        tried = False

        def step(records: list[ConsumerRecord], producer: Producer) -> None:
            nonlocal tried
            tried = True
            for record in records:
                producer.send(self._topic, record.value, key=record.key, partition=record.partition)
            if self._rng is not None and not self._rng.randrange(3):
                producer.flush()  # what nobody may read is to be there
                raise AbortAtWill

        size = min(self._consumer.config.max_poll_records, max(1, self._most - self.total))
        more: dict[str, Any] = {"idle_polls": 1, "poll_timeout_ms": POLL_MS, "initialise": False}
        try:
            # What was tried in vain is read again the next time.
            return process(
                self._consumer, self._producer, step, until=lambda: tried, max_records=size, **more
            )
        except AbortAtWill:
            return 0

    def _look_how_much(self) -> None:
        self._ends = self._consumer.end_offsets(self._consumer.assignment())
        self._update()

    def _update(self) -> None:
        left = self._most - self.total
        if self._ends is not None:
            mine = self._consumer.assignment()
            ahead = (end - self._consumer.position(tp) for tp, end in self._ends.items() if tp in mine)
            left = min(left, sum(max(0, offsets) for offsets in ahead))
        self.remaining = left

    def tell(self, stage: str) -> None:
        """Print how far it is."""
        now = datetime.now()
        self._events.line(
            {
                "transactionalId": self._producer.config.transactional_id,
                "stage": stage,
                "time": f"{now:%Y/%m/%d %H:%M:%S}:{now.microsecond // 1000:03}",
                "totalProcessed": self.total,
                "consumed": self.consumed,
                "remaining": self.remaining,
            }
        )
