"""One data folder with transactions: Kafka's, then ours, killed in the middle of one, then Kafka's again.

Markers carry the leader epoch of the coordinator's partition, and ours are above Kafka's: we began a new one,
of which Kafka's controller does not know. On return, the producers that we have ended no transaction of
go on at once, the others when its epochs have come as far.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop import members, topics_of_kafka
from interop.conftest import OdradekServer
from interop.kafka_peer import RealKafka
from odradek import Admin, Consumer, NewTopic, Producer
from waiting import gathered

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("kafka_toolchain")]

TOPIC, GROUP = "ledger", "readers"


def transact(bootstrap: str, transactional_id: str, value: bytes, outcome: str) -> None:
    """A transaction with one record, and an offset of the group when it is to be committed."""
    with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        sent = producer.send(TOPIC, value, partition=0).result(30)
        if outcome == "commit":
            producer.send_offsets_to_transaction({(TOPIC, 0): sent.offset + 1}, GROUP)
            producer.commit_transaction()
        elif outcome == "abort":
            producer.abort_transaction()


@contextmanager
def left_open(bootstrap: str, transactional_id: str, value: bytes) -> Iterator[None]:
    """A transaction that is open when the broker ends."""
    with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(TOPIC, value, partition=0).result(30)
        yield
        producer.close(timeout=0)


def committed(bootstrap: str, group: str) -> tuple[list[bytes], int]:
    """What a read_committed reader sees, and where the group stands."""
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        isolation_level="read_committed",
    ) as consumer:
        found = consumer.committed([(TOPIC, 0)])[TOPIC, 0]
        consumer.assign([(TOPIC, 0)])
        [end] = consumer.end_offsets([(TOPIC, 0)]).values()
        consumer.seek_to_beginning()
        records = gathered(
            lambda: consumer.poll(1000),
            lambda: consumer.position((TOPIC, 0)) >= end,
            f"the committed records up to {end}",
        )
        values = [record.value or b"" for record in records]
        return values, -1 if found is None else found.offset


@pytest.mark.parametrize(("version", "words"), [("2.2.2", ("--kafka-version", "2.2")), ("3.9.1", ())])
def test_transactions_are_handed_over(version: str, words: tuple[str, ...], tmp_path: Path) -> None:
    kafka = RealKafka(version, tmp_path)
    ours = OdradekServer(tmp_path, words=words)
    kafka.start()
    try:
        at = kafka.bootstrap_servers
        with Admin(bootstrap_servers=at) as admin:
            topics_of_kafka.create(admin, NewTopic(TOPIC, 1, 1))
        transact(at, "ship", b"kafka-1", "commit")
        transact(at, "ship", b"kafka-2", "abort")
        with left_open(at, "left", b"kafka-3"):
            kafka.stop()

        ours.start()
        at = ours.bootstrap_servers
        assert committed(at, GROUP) == ([b"kafka-1"], 1)
        transact(at, "left", b"ours-1", "commit")
        transact(at, "ship", b"ours-2", "abort")
        transact(at, "ship", b"ours-3", "commit")
        after = [b"kafka-1", b"ours-1", b"ours-3"]
        values, offset = committed(at, GROUP)
        assert values == after
        with left_open(at, "new", b"ours-4"):
            ours.stop(signal.SIGKILL)

        kafka.start()
        at = kafka.bootstrap_servers
        assert committed(at, GROUP) == (after, offset)
        # "ship" has markers of ours: it would wait for a leader epoch above ours.
        transact(at, "new", b"kafka-4", "abort")
        transact(at, "new", b"kafka-5", "commit")
        after.append(b"kafka-5")
        # Kafka answers before the markers are written.
        members.until("the commit is seen", lambda: committed(at, GROUP)[0] == after)
        assert committed(at, GROUP)[1] > offset
    finally:
        ours.stop(signal.SIGKILL)
        kafka.stop()
