"""Requests, logins and handshakes leave nothing behind that only the garbage collector could free.

What hangs in a cycle keeps its buffers, a whole response among them, until the collector comes by; and its
coming is a pause for everybody.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.records.builder import build_batch
from odradek.testing import Broker, Security
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages import (
    api_versions,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sasl_authenticate,
    sasl_handshake,
)
from waiting import until

ROUNDS = 40
TOPIC = "t"


class Client:
    """A connection that sends and takes one frame at a time."""

    def __init__(self, broker: Broker) -> None:
        self._socket = socket.create_connection((broker.host, broker.port), timeout=30)
        self._stream = self._socket.makefile("rb")

    def send(self, key: ApiKey, version: int, message: object) -> None:
        self._socket.sendall(b"".join(encode_request(key, version, 1, "t", message)))

    def take(self, key: ApiKey, version: int) -> object:
        (size,) = struct.unpack(">i", self._stream.read(4))
        return decode_response(self._stream.read(size), key, version)[1]

    def call(self, key: ApiKey, version: int, message: object) -> object:
        self.send(key, version, message)
        return self.take(key, version)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


class World:
    """Two clients of a broker with one topic, and the collector switched off."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client, self.other = Client(broker), Client(broker)
        self.end = 0

    def produce(self, acks: int = -1) -> None:
        data = produce.PartitionProduceData(index=0, records=build_batch([(1_000, None, b"v" * 100, ())]))
        topic = produce.TopicProduceData(name=TOPIC, partition_data=[data])
        request = produce.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])
        answer = self.other.call(ApiKey.PRODUCE, 9, request)
        part = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        assert part.error_code == 0
        self.end = part.base_offset + 1

    def fetch_request(self, offset: int, wait_ms: int, partition: int = 0) -> fetch.FetchRequest:
        asked = fetch.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [fetch.FetchTopic(topic=TOPIC, partitions=[asked])]
        return fetch.FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=topics)

    def poll_that_is_answered(self) -> None:
        self.client.send(ApiKey.FETCH, 11, self.fetch_request(self.end, 30_000))
        self.waits()
        self.produce()
        self.client.take(ApiKey.FETCH, 11)

    def waits(self) -> None:
        until(lambda: self.broker.call(lambda broker: len(broker.purgatory)), "a fetch that waits", every_s=0)

    def poll_that_ends(self) -> None:
        self.client.call(ApiKey.FETCH, 11, self.fetch_request(self.end, 1))

    def poll_of_one_who_leaves(self) -> None:
        gone = Client(self.broker)
        gone.send(ApiKey.FETCH, 11, self.fetch_request(self.end, 30_000))
        self.waits()
        gone.close()
        while self.broker.call(lambda broker: len(broker.purgatory)):
            pass

    def fetch_at_once(self) -> None:
        self.client.call(ApiKey.FETCH, 11, self.fetch_request(self.end - 1, 0))

    def fetch_with_an_error(self) -> None:
        self.client.call(ApiKey.FETCH, 11, self.fetch_request(0, 0, partition=77))

    def list_offsets(self) -> None:
        asked = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
        topics = [list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[asked])]
        self.client.call(ApiKey.LIST_OFFSETS, 5, list_offsets.ListOffsetsRequest(topics=topics))

    def metadata(self) -> None:
        self.client.call(ApiKey.METADATA, 9, metadata.MetadataRequest(topics=None))

    def connection(self) -> None:
        client = Client(self.broker)
        client.call(ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest())
        client.close()

    def producer_id(self) -> None:
        request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
        self.client.call(ApiKey.INIT_PRODUCER_ID, 2, request)

    def commit(self) -> None:
        self.client.call(ApiKey.FIND_COORDINATOR, 1, find_coordinator.FindCoordinatorRequest(key="g"))
        part = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        topics = [offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
        self.client.call(
            ApiKey.OFFSET_COMMIT, 5, offset_commit.OffsetCommitRequest(group_id="g", topics=topics)
        )
        asked = offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        self.client.call(
            ApiKey.OFFSET_FETCH, 5, offset_fetch.OffsetFetchRequest(group_id="g", topics=[asked])
        )


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with Broker() as broker:
        broker.create_topic(TOPIC)
        world = World(broker)
        world.produce()
        yield world
        world.client.close()
        world.other.close()


@pytest.mark.parametrize(
    "work",
    [
        World.produce,
        World.poll_that_is_answered,
        World.poll_that_ends,
        World.poll_of_one_who_leaves,
        World.fetch_at_once,
        World.fetch_with_an_error,
        World.list_offsets,
        World.metadata,
        World.connection,
        World.producer_id,
        World.commit,
    ],
)
def test_nothing_is_left_for_the_collector(world: World, work: Callable[[World], None]) -> None:
    for _ in range(3):
        work(world)  # what is made once and kept
    world.metadata()
    left = left_by(world.broker, lambda: work(world))
    assert left < ROUNDS, f"{left / ROUNDS:.1f} objects per request"


def left_by(broker: Broker, work: Callable[[], None]) -> int:
    """How many objects only the collector could free after so many rounds of this."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            work()
        everybody_has_gone(broker)
        return gc.collect()
    finally:
        gc.enable()


def everybody_has_gone(broker: Broker) -> None:
    """Wait until the broker has noticed the end of all connections but those that stay open."""
    limit = time.monotonic() + 60
    while broker.call(lambda broker: sum(len(one.connections) for one in broker.listeners)) > 2:
        assert time.monotonic() < limit


# ---------------------------------------------------------------------------- at the door


class Door(Client):
    """A connection that logs in."""

    def shake_hands(self, mechanism: str) -> None:
        self.call(ApiKey.SASL_HANDSHAKE, 1, sasl_handshake.SaslHandshakeRequest(mechanism=mechanism))

    def show(self, token: bytes) -> bytes:
        request = sasl_authenticate.SaslAuthenticateRequest(auth_bytes=token)
        answer = self.call(ApiKey.SASL_AUTHENTICATE, 1, request)
        return bytes(answer.auth_bytes)  # type: ignore[attr-defined]

    def end(self) -> None:
        """Wait for the broker to close, which is part of being refused."""
        assert self._stream.read() == b""
        self.close()


def logs_in(broker: Broker) -> None:
    door = Door(broker)
    door.shake_hands("PLAIN")
    door.show(b"\0alice\0secret")
    door.call(ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest())
    door.close()


def has_a_wrong_password(broker: Broker) -> None:
    door = Door(broker)
    door.shake_hands("PLAIN")
    door.show(b"\0alice\0wrong")
    door.end()


def is_nobody(broker: Broker) -> None:
    door = Door(broker)
    door.shake_hands("SCRAM-SHA-256")
    challenge = door.show(b"n,,n=nobody,r=0123456789")
    proof = b",p=" + base64.b64encode(bytes(32))
    door.show(b"c=biws," + challenge.split(b",")[0] + proof)
    door.end()


def leaves_in_the_middle(broker: Broker) -> None:
    door = Door(broker)
    door.shake_hands("SCRAM-SHA-512")
    door.close()


def asks_before_it_logs_in(broker: Broker) -> None:
    door = Door(broker)
    door.send(ApiKey.METADATA, 1, metadata.MetadataRequest(topics=None))
    door.end()


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    security = Security(
        users={"admin": "master", "alice": "secret"},
        configs={"connection.failed.authentication.delay.ms": "1"},
    )
    with Broker(security=security) as broker:
        yield broker


@pytest.mark.parametrize(
    "work", [logs_in, has_a_wrong_password, is_nobody, leaves_in_the_middle, asks_before_it_logs_in]
)
def test_logins_leave_nothing_for_the_collector(guarded: Broker, work: Callable[[Broker], None]) -> None:
    for _ in range(3):
        work(guarded)
    left = left_by(guarded, lambda: work(guarded))
    assert left < ROUNDS, f"{left / ROUNDS:.1f} objects per login"


class Handshakes:
    """A broker with TLS, and what peers do at its door."""

    def __init__(self, broker: Broker, authority: Path) -> None:
        self.broker = broker
        self._context = ssl.create_default_context(cafile=str(authority))

    def _begin(self) -> tuple[socket.socket, ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO, bytes]:
        raw = socket.create_connection((self.broker.host, self.broker.port), timeout=30)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = self._context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with contextlib.suppress(ssl.SSLWantReadError):
            session.do_handshake()
        return raw, session, incoming, outgoing, outgoing.read()

    def gone_through_with(self) -> None:
        raw, session, incoming, outgoing, hello = self._begin()
        raw.sendall(hello)
        while True:
            incoming.write(raw.recv(65_536))
            with contextlib.suppress(ssl.SSLWantReadError):
                session.do_handshake()
                break
        raw.sendall(outgoing.read())
        raw.close()

    def left_after_the_hello(self) -> None:
        raw, *_, hello = self._begin()
        raw.sendall(hello)
        raw.recv(65_536)
        raw.close()

    def left_in_the_hello(self) -> None:
        raw, *_, hello = self._begin()
        raw.sendall(hello[:50])
        raw.close()

    def damaged(self) -> None:
        raw, *_ = self._begin()
        raw.sendall(b"x" * 200)
        with contextlib.suppress(ConnectionError):
            while raw.recv(4096):
                pass
        raw.close()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Handshakes]:
    pytest.importorskip("cryptography")
    with Broker(security=Security(tls=True)) as broker:
        assert broker.security is not None
        authority = tmp_path_factory.mktemp("authority") / "ca.pem"
        broker.security.authority.write_trust_store(authority)
        yield Handshakes(broker, authority)


@pytest.mark.parametrize(
    "work",
    [
        Handshakes.gone_through_with,
        Handshakes.left_after_the_hello,
        Handshakes.left_in_the_hello,
        Handshakes.damaged,
    ],
)
def test_handshakes_leave_nothing_for_the_collector(
    encrypted: Handshakes, work: Callable[[Handshakes], None]
) -> None:
    for _ in range(3):
        work(encrypted)
    left = left_by(encrypted.broker, lambda: work(encrypted))
    assert left < ROUNDS, f"{left / ROUNDS:.1f} objects per handshake"
