"""`odradek verifiable-producer`: kafka-verifiable-producer, and transactions."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.events import Events, java_class, random_aborts
from odradek.cli.tool import NotedSignals, Tool, bootstrap_option, client_configs, command_config_option
from odradek.errors import KafkaError

if TYPE_CHECKING:
    from odradek import Producer, RecordMetadata


@click.command(cls=Tool, name="verifiable-producer")
@bootstrap_option("--broker-list")
@click.option("--topic", required=True, help="The topic to send to.")
@click.option("--max-messages", type=int, default=-1, show_default=True, help="So many; -1: until killed.")
@click.option("--throughput", type=int, default=-1, show_default=True, help="Records per second at most.")
@click.option("--acks", type=click.Choice(["0", "1", "-1"]), default="-1", show_default=True)
@command_config_option("--producer.config", "--command-config")
@click.option("--message-create-time", "create_time_ms", type=int, default=-1, metavar="MS",
              help="Timestamps begin there, and go on as time does.")  # fmt: skip
@click.option("--value-prefix", type=int, help="In front of every value, with a dot behind it.")
@click.option("--repeating-keys", type=click.IntRange(1), help="Keys count from 0 to below this, in turn.")
@click.option("--transactional-id", help="Send in transactions under this id.")
@click.option("--transaction-size", type=click.IntRange(1), default=200, show_default=True,
              help="Records in a transaction.")  # fmt: skip
@click.option(
    "--transaction-timeout", type=click.IntRange(1), default=60_000, show_default=True, metavar="MS"
)
@click.option("--enable-random-aborts", is_flag=True, help="Abort every third transaction or so.")
@click.option("--seed", type=int, help="For the aborts.  [default: a random one, told on standard error]")
def command(
    bootstrap_server: str,
    topic: str,
    max_messages: int,
    throughput: int,
    acks: str,
    config_file: str | None,
    create_time_ms: int,
    value_prefix: int | None,
    repeating_keys: int | None,
    transactional_id: str | None,
    transaction_size: int,
    transaction_timeout: int,
    enable_random_aborts: bool,
    seed: int | None,
) -> None:
    """Send numbers, and print what became of each as JSON."""
    from odradek import Producer

    configs: dict[str, Any] = {"acks": acks, "retries": 0, "client_id": None}
    if transactional_id is not None:
        # Transactions need retries, and may have them: the broker tells records that come twice.
        configs = {"transactional_id": transactional_id, "transaction_timeout_ms": transaction_timeout}
    rng = random_aborts(seed) if enable_random_aborts else None
    with Producer(**client_configs(bootstrap_server, config_file, **configs)) as producer:
        events = Events()
        began = time.time()
        run = Run(producer, events, topic, create_time_ms=None if create_time_ms == -1 else create_time_ms)
        with run.signals:
            try:
                events.emit("startup_complete")
                keys_and_values = numbered(max_messages, value_prefix, repeating_keys)
                if producer.config.transactional_id is None:
                    run.send_all(keys_and_values, throughput)
                else:
                    producer.init_transactions()
                    run.send_in_transactions(keys_and_values, throughput, transaction_size, rng)
            finally:
                producer.close()
                events.emit("shutdown_complete")
                seconds = time.time() - began
                events.emit(
                    "tool_data",
                    sent=run.sent,
                    acked=run.acked,
                    target_throughput=throughput,
                    avg_throughput=run.acked / seconds if seconds > 0 else 0.0,
                )
    run.signals.leave()


def numbered(count: int, prefix: int | None, keys: int | None) -> Iterator[tuple[str | None, str]]:
    """Keys and values: values count up from 0, keys do and begin anew at `keys`.

    Args:
        count: how many; negative: without end.
        prefix: in front of each value, with a dot.
        keys: how many different ones; None: no keys.
    """
    number = 0
    while count < 0 or number < count:
        key = None if keys is None else str(number % keys)
        yield key, str(number) if prefix is None else f"{prefix}.{number}"
        number += 1


class Run:
    """Sends, and tells of each record what became of it.

    Attributes:
        sent: how many records were handed to the producer.
        acked: how many of them are in the log, in whatever transaction.
        signals: to be entered while it sends; after one, what has begun is ended.
    """

    def __init__(
        self, producer: Producer, events: Events, topic: str, *, create_time_ms: int | None = None
    ) -> None:
        self.sent = 0
        self.acked = 0
        self.signals = NotedSignals()
        self._producer = producer
        self._events = events
        self._topic = topic
        self._create_time_ms = create_time_ms
        self._began = time.monotonic()

    def send_all(self, records: Iterator[tuple[str | None, str]], throughput: int) -> None:
        """Send records, at most the given number a second."""
        for key, value in records:
            if self.signals.ended_by is not None:
                break
            self._send(key, value)
            self._wait(throughput)

    def send_in_transactions(
        self,
        records: Iterator[tuple[str | None, str]],
        throughput: int,
        size: int,
        rng: random.Random | None,
    ) -> None:
        """Send records in transactions of `size`, every third of which is aborted where there is `rng`.

        A transaction that cannot be committed is aborted, and the next begins with the next record.

        Raises:
            KafkaError: a transactional producer cannot go on after it.
        """
        record = next(records, None)
        while record is not None and self.signals.ended_by is None:
            self._producer.begin_transaction()
            count = 0
            try:
                while record is not None and count < size and self.signals.ended_by is None:
                    self._send(*record)
                    count += 1
                    self._wait(throughput)
                    record = next(records, None)
                whole = record is None or count == size
                if whole and (rng is None or rng.randrange(3)):
                    self._producer.commit_transaction()
                    self._events.emit("transaction_committed", messages=count)
                    continue
                # Aborted records must have been in the log before.
                self._producer.flush()
            except KafkaError as error:
                self._events.emit("transaction_error", exception=java_class(error), message=error.message)
            self._producer.abort_transaction()
            self._events.emit("transaction_aborted", messages=count)

    def _send(self, key: str | None, value: str) -> None:
        timestamp = self._create_time_ms
        if timestamp is not None:
            timestamp += int((time.monotonic() - self._began) * 1000)
        self.sent += 1

        def told(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            if error is not None or metadata is None:
                self._failed(key, value, error)
                return
            self.acked += 1
            self._events.emit(
                "producer_send_success",
                key=key,
                value=value,
                offset=metadata.offset,
                topic=metadata.topic,
                partition=metadata.partition,
            )

        try:
            self._producer.send(
                self._topic,
                value=value.encode(),
                key=None if key is None else key.encode(),
                timestamp_ms=timestamp,
                on_delivery=told,
            )
        except KafkaError as error:
            self._failed(key, value, error)

    def _failed(self, key: str | None, value: str, error: BaseException | None) -> None:
        self._events.emit(
            "producer_send_error",
            topic=self._topic,
            key=key,
            value=value,
            exception=None if error is None else java_class(error),
            message=None if error is None else str(error),
        )

    def _wait(self, throughput: int) -> None:
        if throughput > 0:
            ahead = self.sent / throughput - (time.monotonic() - self._began)
            if ahead > 0.001:
                time.sleep(ahead)
