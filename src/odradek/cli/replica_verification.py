"""`odradek replica-verification`: kafka-replica-verification, replicas compared with each other."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from odradek.cli.tool import (
    NotedSignals,
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    matching,
)
from odradek.client.errors import ConnectionFailedError
from odradek.client.types import TopicPartition
from odradek.errors import KafkaError, OdradekError

if TYPE_CHECKING:
    from odradek import Admin, ConsumerRecord
    from odradek.client.simple import SimpleConsumer

LATEST = -1


class Entry(NamedTuple):
    """A record of a replica: its offset, and a checksum of all that it says."""

    offset: int
    checksum: int


class Replica(NamedTuple):
    """The records of one broker from a position of a partition on."""

    broker_id: int
    entries: Sequence[Entry]
    high_watermark: int


class Comparison(NamedTuple):
    """The outcome for one partition.

    Attributes:
        next_offset: behind the last record that all replicas have.
        unmatched: what is to be said of records that differ.
        diverged: what is to be said where offsets differ, from which on nothing can be compared.
    """

    next_offset: int
    unmatched: tuple[str, ...] = ()
    diverged: str | None = None


def checksum(record: ConsumerRecord) -> int:
    """Return a checksum of a record's time, key, value and headers; null differs from what is empty."""
    parts = [record.key, record.value]
    for name, value in record.headers:
        parts += [name.encode(), value]
    text = b"".join(b"-" if part is None else b"%d:" % len(part) + part for part in parts)
    return zlib.crc32(b"%d " % record.timestamp + text)


def compare(partition: TopicPartition, position: int, replicas: Sequence[Replica]) -> Comparison:
    """Compare replicas record by record, as far as all of them are."""
    unmatched: list[str] = []
    first, *others = replicas
    for entries in zip(*(replica.entries for replica in replicas), strict=False):
        entry = entries[0]
        if any(e.offset >= r.high_watermark for e, r in zip(entries, replicas, strict=True)):
            break
        for replica, other in zip(others, entries[1:], strict=True):
            if other.offset != entry.offset:
                diverged = (
                    f"partition {partition}: replica {first.broker_id}'s offset {entry.offset} doesn't match "
                    f"replica {replica.broker_id}'s offset {other.offset}"
                )
                return Comparison(position, tuple(unmatched), diverged)
            if other.checksum != entry.checksum:
                unmatched.append(
                    f"partition {partition} has unmatched checksum at offset {entry.offset}; replica "
                    f"{first.broker_id}'s checksum {entry.checksum}; replica {replica.broker_id}'s checksum "
                    f"{other.checksum}"
                )
        position = entry.offset + 1
    return Comparison(position, tuple(unmatched))


@click.command(cls=Tool, name="replica-verification")
@bootstrap_option("--broker-list")
@command_config_option()
@click.option(
    "--fetch-size", type=click.IntRange(1), default=2**20, show_default=True, help="Bytes of an answer."
)
@click.option("--max-wait-ms", type=click.IntRange(1), default=1000, show_default=True,
              help="How long to wait where nothing is new.")  # fmt: skip
@click.option("--topics-include", "--topic-white-list", "topics", default=".*", show_default=True,
              help="A regular expression for topics.")  # fmt: skip
@click.option("--time", "time_ms", type=click.IntRange(-2), default=LATEST, show_default=True,
              help="Where to begin: a time in milliseconds, -1: the end, -2: the beginning.")  # fmt: skip
@click.option("--report-interval-ms", type=click.IntRange(1), default=30_000, show_default=True,
              help="How often to tell the greatest lag.")  # fmt: skip
def command(
    bootstrap_server: str,
    config_file: str | None,
    fetch_size: int,
    max_wait_ms: int,
    topics: str,
    time_ms: int,
    report_interval_ms: int,
) -> None:
    """Compare the replicas of partitions with each other until Ctrl-C."""
    import threading

    from odradek import Admin

    configs = client_configs(bootstrap_server, config_file, client_id="odradek-replica-verification")
    with NotedSignals() as signals, Admin(**configs) as admin:
        verifier = Verifier(
            admin, configs, matching(topics, admin.list_topics(internal=True)), time_ms, fetch_size
        )
        _say("verification process is started")
        reported = monotonic()
        try:
            while signals.ended_by is None:
                moved = verifier.verify()
                if monotonic() - reported > report_interval_ms / 1000:
                    _say(verifier.report())
                    reported = monotonic()
                if not moved:
                    threading.Event().wait(max_wait_ms / 1000)
        finally:
            verifier.close()
    signals.leave()


def _say(text: str) -> None:
    now = datetime.now()
    click.echo(f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}: {text}")


class Verifier:
    """Reads from every replica, and compares.

    Args:
        admin: the cluster.
        configs: of clients, for connections to its brokers.
        topics: which.
        time_ms: where to begin.
        fetch_size: bytes of an answer.

    Raises:
        OdradekError: there are no such topics.
    """

    def __init__(
        self, admin: Admin, configs: Mapping[str, Any], topics: Sequence[str], time_ms: int, fetch_size: int
    ) -> None:
        if not topics:
            raise OdradekError("No topics found. --topics-include leaves none, or there is none.")
        self._configs = {
            name: value
            for name, value in configs.items()
            if name not in ("bootstrap_servers", "default_api_timeout_ms", "client_id")
        }
        self._client_id = str(configs["client_id"])
        self._fetch_size = fetch_size
        self._nodes = {node.id: node for node in admin.describe_cluster().nodes}
        self._brokers: dict[int, SimpleConsumer] = {}
        self._replicas = {
            TopicPartition(name, p.partition): p.replicas
            for name, topic in admin.describe_topics(topics).items()
            for p in topic.partitions
        }
        starts = admin.list_offsets(dict.fromkeys(self._replicas, time_ms))
        #: Where to go on. A time that no record has is the end.
        self.positions = {tp: at.offset for tp, at in starts.items()}
        young = [tp for tp, offset in self.positions.items() if offset < 0]
        if young:
            ends = admin.list_offsets(dict.fromkeys(young, LATEST))
            self.positions |= {tp: at.offset for tp, at in ends.items()}
        self._lags = dict.fromkeys(self._replicas, 0)

    def close(self) -> None:
        """Close all connections."""
        for broker in self._brokers.values():
            broker.close()

    def verify(self) -> bool:
        """Compare what has come in each partition; say what differs.

        Returns: whether anything was compared.

        Raises:
            OdradekError: offsets of replicas differ.
        """
        moved = False
        for tp in sorted(self._replicas):
            replicas = list(self._fetched(tp))
            if len(replicas) < len(self._replicas[tp]):
                continue  # a broker is down: later
            outcome = compare(tp, self.positions[tp], replicas)
            for text in outcome.unmatched:
                _say(text)
            if outcome.diverged is not None:
                _say(outcome.diverged)
                raise OdradekError(f"the replicas of {tp} have gone apart")
            moved = moved or outcome.next_offset > self.positions[tp]
            self.positions[tp] = outcome.next_offset
            self._lags[tp] = max(replica.high_watermark for replica in replicas) - outcome.next_offset
        return moved

    def report(self) -> str:
        """Return the line about the partition that is most behind."""
        tp = max(self._lags, key=lambda tp: self._lags[tp])
        return (
            f"max lag is {self._lags[tp]} for partition {tp} at offset {self.positions[tp]} among "
            f"{len(self._lags)} partitions"
        )

    def _fetched(self, tp: TopicPartition) -> Iterator[Replica]:
        for broker_id in self._replicas[tp]:
            try:
                fetched = self._broker(broker_id).fetch(
                    tp.topic, tp.partition, self.positions[tp], max_bytes=self._fetch_size, max_wait_ms=0
                )
            except (ConnectionFailedError, KafkaError) as error:
                click.echo(f"broker {broker_id}, {tp}: {error}", err=True)
                return
            entries = [Entry(record.offset, checksum(record)) for record in fetched.records]
            yield Replica(broker_id, entries, fetched.high_watermark)

    def _broker(self, broker_id: int) -> SimpleConsumer:
        from odradek.client.simple import SimpleConsumer

        if broker_id not in self._nodes:
            raise ConnectionFailedError(f"broker {broker_id} is not there")
        if broker_id not in self._brokers:
            node = self._nodes[broker_id]
            self._brokers[broker_id] = SimpleConsumer(
                node.host, node.port, client_id=self._client_id, **self._configs
            )
        return self._brokers[broker_id]
