"""The topic `_schemas`: written by one registry, and read by all that have it.

Confluent's registry elects one of many that writes. Here the one that was started last does: all have the
same `transactional.id`, so the brokers refuse what an older one still wants to write, and it refuses requests
from then on (`docs/schema_registry.md`). All of them read the topic, and answer what only asks. Transactions
serve for that alone: a record counts as soon as it is in the topic, as Confluent's registry has it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.client.errors import ClientTimeoutError
from odradek.client.sync.admin import Admin
from odradek.client.sync.consumer import Consumer
from odradek.client.sync.producer import Producer
from odradek.client.types import ConsumerRecord, NewTopic
from odradek.errors import InvalidProducerEpochError, OdradekError, ProducerFencedError, TopicExistsError
from odradek.errors.exceptions import RecordTooLargeError
from odradek.schema_registry.errors import not_the_writer, schema_too_large, store_failed, timed_out
from odradek.schema_registry.service import Replay
from odradek.schema_registry.topic_records import (
    NOOP,
    Key,
    Record,
    UnreadableRecordError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

logger = logging.getLogger(__name__)

TOPIC = "_schemas"
_POLL_MS = 500
_AFTER_FAILURE_S = 1


class SchemasTopicError(OdradekError):
    """The topic cannot be what a registry keeps its schemas in; the message says why."""


class KafkaStore:
    """A topic with the records of a registry.

    Args:
        replay: of the registry; called by the thread that reads, in the order of the topic.
        configs: of the clients, under Kafka's names, with `bootstrap.servers`.
        topic: its name.
        replication_factor: that it is made with where it is missing; fewer brokers have fewer replicas.
        timeout_s: for each write, and for its being read back.
        init_timeout_s: for all to be read at the start.

    Raises:
        SchemasTopicError: the topic has several partitions, or is not compacted, or is not read in time.
        OdradekError: the brokers cannot be reached, or refuse.
    """

    def __init__(
        self,
        replay: Replay,
        configs: Mapping[str, Any],
        topic: str = TOPIC,
        *,
        replication_factor: int = 3,
        timeout_s: float = 30,
        init_timeout_s: float = 60,
    ) -> None:
        self._replay = replay
        self._configs = dict(configs)
        self._topic = topic
        self._timeout_s = timeout_s
        self._producer: Producer | None = None
        self._fenced = False
        self._keys: dict[Key, bytes] = {}
        """Keys that another registry has written in other bytes: they go on being written in those."""
        self._read_up_to = -1
        self._progress = threading.Condition()
        self._stop = threading.Event()
        _make_topic(self._configs, topic, replication_factor)
        self._consumer = Consumer(
            {
                **self._configs,
                "client.id": f"schema-registry-{topic}",
                # What an aborted transaction has left is what other registries read, too: it counts.
                "isolation.level": "read_uncommitted",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([(topic, 0)])
        self._consumer.seek_to_beginning((topic, 0))
        self._thread = threading.Thread(target=self._read, name="schemas-topic", daemon=True)
        self._thread.start()
        try:
            # What was read back up to here is all that there is: nobody else writes any more.
            self._write([Record(Key(NOOP), None)], init_timeout_s)
        except BaseException:
            self.close()
            raise

    def write(self, records: Sequence[Record]) -> None:
        """See `Store.write`."""
        self._write(records, self._timeout_s)

    def _write(self, records: Sequence[Record], timeout_s: float) -> None:
        if self._fenced:
            raise not_the_writer(
                f"Another registry writes the topic {self._topic} now; this one answers what only asks"
            )
        try:
            last = self._transaction(records)
        except (ProducerFencedError, InvalidProducerEpochError):
            self._fenced = True
            self._give_up_producer()
            logger.warning("another registry writes the topic %s from now on", self._topic)
            raise not_the_writer(f"Another registry writes the topic {self._topic} now") from None
        except RecordTooLargeError:
            self._give_up_producer()
            raise schema_too_large() from None
        except ClientTimeoutError as problem:
            # The next producer of the id has the brokers end the transaction, one way or the other.
            self._give_up_producer()
            raise timed_out(f"The topic {self._topic} was not written in time: {problem}") from problem
        except OdradekError as problem:
            self._give_up_producer()
            raise store_failed(f"The topic {self._topic} could not be written: {problem}") from problem
        self._wait_for(last, timeout_s)

    def _transaction(self, records: Sequence[Record]) -> int:
        """Write records, and return the offset of the last one."""
        if self._producer is None:
            self._producer = self._make_producer()
        producer = self._producer
        with producer.begin_transaction():
            sent = [
                producer.send(
                    self._topic,
                    encode_value(record.value),
                    key=self._keys.get(record.key) or encode_key(record.key),
                    partition=0,
                )
                for record in records
            ]
        return max(int(future.result(timeout=self._timeout_s).offset) for future in sent)

    def _make_producer(self) -> Producer:
        producer = Producer(
            {
                **self._configs,
                "client.id": f"schema-registry-{self._topic}",
                "transactional.id": f"schema-registry-{self._topic}",
                "acks": "all",
                "max.block.ms": int(self._timeout_s * 1000),
                "delivery.timeout.ms": int(self._timeout_s * 1000),
                "request.timeout.ms": min(30_000, int(self._timeout_s * 1000)),
                "linger.ms": 0,
            }
        )
        try:
            producer.init_transactions()
        except BaseException:
            producer.close(0)
            raise
        return producer

    def _give_up_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(0)

    def _wait_for(self, offset: int, timeout_s: float) -> None:
        with self._progress:
            if not self._progress.wait_for(lambda: self._read_up_to >= offset, timeout_s):
                raise timed_out(
                    f"The topic {self._topic} was written up to offset {offset}, and read up to "
                    f"{self._read_up_to} only in {timeout_s:g} seconds"
                )

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                records = self._consumer.poll(_POLL_MS)
            except OdradekError as problem:
                if not self._stop.is_set():
                    logger.warning("the topic %s cannot be read: %s", self._topic, problem)
                self._stop.wait(_AFTER_FAILURE_S)
                continue
            for record in records:
                self._take(record)
            if records:
                with self._progress:
                    self._read_up_to = records[-1].offset
                    self._progress.notify_all()

    def _take(self, record: ConsumerRecord) -> None:
        try:
            key = decode_key(record.key)
            if key.subject is not None and key.subject.startswith(":."):
                logger.warning(
                    "offset %d of %s is about %s: there are no contexts here",
                    record.offset,
                    self._topic,
                    key.subject,
                )
                return
            if record.key is not None and record.key != encode_key(key):
                self._keys[key] = record.key
            self._replay(key, decode_value(record.value))
        except UnreadableRecordError as problem:
            logger.error("offset %d of %s is passed over: %s", record.offset, self._topic, problem)
        except Exception:
            # A fault of ours: what follows in the topic is read all the same.
            logger.exception("offset %d of %s is passed over", record.offset, self._topic)

    def close(self) -> None:
        """See `Store.close`."""
        self._stop.set()
        self._thread.join()
        self._consumer.close()
        self._give_up_producer()


def _make_topic(configs: Mapping[str, Any], topic: str, replication_factor: int) -> None:
    """Make the topic, unless it is there; then look whether it will do."""
    with Admin({**configs, "client.id": f"schema-registry-{topic}"}) as admin:
        if topic not in admin.list_topics(internal=True):
            brokers = len(admin.describe_cluster().nodes)
            if brokers < replication_factor:
                logger.warning("the topic %s gets %d replicas, as there are no more brokers", topic, brokers)
            new = NewTopic(topic, 1, min(brokers, replication_factor), configs={"cleanup.policy": "compact"})
            try:
                admin.create_topics([new])
            except TopicExistsError:
                logger.info("the topic %s was made by somebody else", topic)
            else:
                return
        partitions = len(admin.describe_topics([topic])[topic].partitions)
        if partitions != 1:
            raise SchemasTopicError(
                f"the topic {topic} has {partitions} partitions: schemas need an order, so it is to have one"
            )
        resource = ("topic", topic)
        policy = admin.describe_configs([resource], names=["cleanup.policy"])[resource][
            "cleanup.policy"
        ].value
        if policy != "compact":
            raise SchemasTopicError(
                f"the topic {topic} has cleanup.policy={policy}, and would lose schemas: set it to compact"
            )
