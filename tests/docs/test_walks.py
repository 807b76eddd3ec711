"""ARCHITECTURE.md's walks are those that requests take: each is sent to a broker, and the files are noted."""

from __future__ import annotations

import random
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from compiled_walk import only_interpreted
from odradek.client import Consumer, Producer
from odradek.testing import Broker, Cluster
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from waiting import WITHIN_S, joined

from .blocks import ROOT

pytestmark = only_interpreted

SOURCE = ROOT / "src" / "odradek"
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
_PATH = re.compile(r"`((?:\w+/)+\w+\.py)`")


def _between(start: str, end: str) -> str:
    return PAGE.partition(start)[2].partition(end)[0]


def _file(path: str) -> str:
    """A path as the page has it, from the package on; handlers are named without their room."""
    return path if (SOURCE / path).exists() else f"broker/{path}"


STEPS = re.split(r"^(?=\d\. )", _between("Read these files in this order", "A fetch is"), flags=re.M)[1:]
PRODUCE = [_file(_PATH.findall(step)[0]) for step in STEPS]
FETCH = [_file(path) for path in _PATH.findall(_between("A fetch is the same walk back", "With too little"))]
REST = [_file(path) for path in _PATH.findall(_between("With too little to read", "\n\n"))]
CONVERSION = [_file(path) for path in _PATH.findall(_between("Clients and topics of an older", "\n\n"))]
COMMIT = [_file(path) for path in _PATH.findall(_between("A commit of a consumer group", "\n\n"))]
END = [_file(path) for path in _PATH.findall(_between("The end of a transaction", "\n\n"))]


CLUSTER_PAGE = (
    (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8").partition("## Two walks to follow")[2]
)
LEADER_AND_ISR, REPLICATION = (
    [_file(path) for path in _PATH.findall(part.partition("\n\n")[2].partition("\n\n")[0])]
    for part in CLUSTER_PAGE.split("\nA **")[1:3]
)


class Visits:
    """Files of the package in the order in which the broker's thread first comes to them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.files: list[str] = []
        self._seen: set[str] = set()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name not in self._seen:
            self._seen.add(name)
            if Path(name).is_relative_to(SOURCE):
                self.files.append(Path(name).relative_to(SOURCE).as_posix())

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is visited in the block."""
        self.files.clear()
        self._seen.clear()
        self.broker.call(lambda _: sys.setprofile(self._profile))
        try:
            yield
        finally:
            self.broker.call(lambda _: sys.setprofile(None))

    def wait_for(self, file: str) -> None:
        """Return when a file has been visited."""
        deadline = time.monotonic() + 60
        while file not in self.files:
            assert time.monotonic() < deadline, self.files
            time.sleep(0.001)

    def places(self, walk: list[str]) -> list[int]:
        """Where the files of a walk come in the visits."""
        missing = [file for file in walk if file not in self.files]
        assert not missing, f"named, but not visited: {missing}"
        return [self.files.index(file) for file in walk]


@pytest.fixture(scope="module")
def visits() -> Iterator[Visits]:
    with Broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1) as broker:
        yield Visits(broker)


def test_the_walk_of_a_produce_request(visits: Visits) -> None:
    assert len(PRODUCE) == 8
    assert PRODUCE[-1] == PRODUCE[0], "the last step is where the first was"
    with Producer(bootstrap_servers=visits.broker.bootstrap_servers, acks="all") as producer:
        producer.send("walked", b"first: what is imported on first use is").result(WITHIN_S)
        with visits.noted():
            producer.send("walked", b"second").result(WITHIN_S)
    places = visits.places(PRODUCE[:-1])
    assert places == sorted(places), visits.files


def test_the_walk_of_a_fetch(visits: Visits) -> None:
    assert len(FETCH) >= 6
    servers = visits.broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("fetched", b"value").result(WITHIN_S)
    options: dict[str, Any] = {"group_id": "f", "auto_offset_reset": "earliest"}
    with Consumer("fetched", bootstrap_servers=servers, **options) as consumer, visits.noted():
        assert next(iter(consumer)).value == b"value"
    visits.places(FETCH)


def test_a_fetch_that_waits_and_one_of_much(visits: Visits) -> None:
    assert len(REST) >= 3
    servers = visits.broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, batch_size=1 << 20, linger_ms=1000) as producer:
        producer.send("waited-for", b"first").result(WITHIN_S)
        options: dict[str, Any] = {
            "fetch_max_wait_ms": 60_000,
            "auto_offset_reset": "latest",
            "group_id": "w",
        }
        with Consumer("waited-for", bootstrap_servers=servers, **options) as consumer, visits.noted():
            got: list[bytes | None] = []
            reader = threading.Thread(target=lambda: got.append(next(iter(consumer)).value))
            reader.start()
            visits.wait_for("replication/delayed.py")
            # More than is read into memory, in one batch.
            producer.send("waited-for", bytes(600_000)).result(WITHIN_S)
            joined(reader)
            assert got == [bytes(600_000)]
            visits.places(REST)


def fetch_as_of_old(broker: Broker, topic: str) -> bytes:
    """What a consumer of Kafka 0.10 gets of a topic."""
    host, port = broker.bootstrap_servers.split(":")
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(b"".join(encode_request(ApiKey.FETCH, 3, 1, "old", request)))
        stream = connection.makefile("rb")
        frame = stream.read(int.from_bytes(stream.read(4), "big"))
    _, response = decode_response(frame, ApiKey.FETCH, 3)
    return bytes(response.responses[0].partitions[0].records)


class ThreadVisits:
    """As `Visits`, of every thread that is started while it is set, by the thread."""

    def __init__(self) -> None:
        self.noting = False
        self.files: dict[int, list[str]] = {}

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.noting or event != "call":
            return
        name = frame.f_code.co_filename
        files = self.files.setdefault(threading.get_ident(), [])
        if name.startswith(f"{SOURCE}/") and (path := name[len(f"{SOURCE}/") :]) not in files:
            files.append(path)

    def everywhere(self) -> set[str]:
        """What any of them has visited."""
        return {file for files in self.files.values() for file in files}

    def in_order(self, walk: list[str]) -> bool:
        """Whether one thread has come to these files in this order."""
        return any(
            set(walk) <= set(files) and [file for file in files if file in walk] == walk
            for files in list(self.files.values())
        )


@contextmanager
def noting_threads() -> Iterator[ThreadVisits]:
    """Have what is started in the block noted."""
    visits = ThreadVisits()
    threading.setprofile(visits.profile)
    try:
        yield visits
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]


def test_the_walk_of_what_is_converted() -> None:
    assert len(CONVERSION) == 4
    # Versions of requests that have older messages.
    with noting_threads() as visits, Broker(inter_broker_protocol_version="2.8") as broker:
        broker.create_topic("old", configs={"message.format.version": "0.10.2"})
        broker.create_topic("new")
        value = random.Random(1).randbytes(300_000)
        with Producer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False) as producer:
            producer.send("new", value).result(WITHIN_S)
            visits.noting = True
            producer.send("old", value).result(WITHIN_S)
        assert len(fetch_as_of_old(broker, "new")) > len(value)
        visits.noting = False
    assert set(CONVERSION) <= visits.everywhere(), set(CONVERSION) - visits.everywhere()


@pytest.fixture(scope="module")
def followed() -> Iterator[ThreadVisits]:
    """What the brokers of a cluster visit for a topic of two replicas, to which records are produced."""
    with noting_threads() as visits, Cluster(2) as cluster:
        cluster.create_topic("before")  # what is imported on first use is
        visits.noting = True
        cluster.create_topic("replicated", 2)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
            for partition in range(2):
                producer.send("replicated", b"value", partition=partition).result(WITHIN_S)
        visits.noting = False
        yield visits


def test_the_walk_of_a_leader_and_isr(followed: ThreadVisits) -> None:
    assert len(LEADER_AND_ISR) >= 9
    assert set(LEADER_AND_ISR) <= followed.everywhere(), set(LEADER_AND_ISR) - followed.everywhere()
    begin = LEADER_AND_ISR.index("broker/handlers/controller_requests.py")
    end = LEADER_AND_ISR.index("replication/leadership.py")
    assert followed.in_order(LEADER_AND_ISR[begin : end + 1])


def test_the_walk_of_a_follower_s_fetch(followed: ThreadVisits) -> None:
    assert len(REPLICATION) >= 5
    assert set(REPLICATION) <= followed.everywhere(), set(REPLICATION) - followed.everywhere()
    at = REPLICATION.index("broker/handlers/fetch.py")
    follower = [*REPLICATION[:at], *REPLICATION[at + 2 :]]
    assert followed.in_order(list(dict.fromkeys(follower))), follower
    assert followed.in_order(REPLICATION[at : at + 2]) or followed.in_order(REPLICATION[at : at + 2][::-1])


def test_the_walk_of_a_commit(visits: Visits) -> None:
    servers = visits.broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("committed", b"value").result(WITHIN_S)
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer("committed", bootstrap_servers=servers, **options) as consumer:
        assert next(iter(consumer)).value == b"value"
        with visits.noted():
            consumer.commit()
    places = visits.places(COMMIT)
    assert places == sorted(places)


def test_the_walk_of_a_transaction_s_end(visits: Visits) -> None:
    with Producer(bootstrap_servers=visits.broker.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("in-transaction", b"value")
        producer.flush()
        with visits.noted():
            producer.commit_transaction()
    places = visits.places(END)
    assert (places[0], places[-1]) == (min(places), max(places)), visits.files
