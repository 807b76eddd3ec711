"""What is done to the broker in a soak, all at once: each kind of load is a thread that paces itself."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable

from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.records.builder import build_batch
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages import api_versions, fetch, list_offsets, metadata, produce

RETAINED, KEPT, GROUPED = "soak-retained", "soak-kept", "soak-grouped"
PARTITIONS = 4
RETENTION = {"segment.bytes": str(1 << 20), "retention.ms": "30000", "file.delete.delay.ms": "1000"}
KINDS = ("produce", "fetch", "list_offsets", "metadata", "connect", "commit", "rebalance", "topic")


class Latencies:
    """Durations in ms by kind, taken out with each sample."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, list[float]] = {kind: [] for kind in KINDS}

    def add(self, kind: str, began: float) -> None:
        """Something of `kind` that began at `time.perf_counter()` is done."""
        with self._lock:
            self._values[kind].append((time.perf_counter() - began) * 1000)

    def take(self) -> dict[str, list[float]]:
        """What has come since the last call."""
        with self._lock:
            taken, self._values = self._values, {kind: [] for kind in KINDS}
        return taken


class Raw:
    """One connection that speaks frames, one request at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")
        self._next = 0

    def call(self, key: ApiKey, version: int, message: object) -> object:
        """Send, and wait for the answer."""
        self._next += 1
        self._socket.sendall(b"".join(encode_request(key, version, self._next, "soak", message)))
        size = struct.unpack(">i", self._stream.read(4))[0]
        correlation_id, response = decode_response(self._stream.read(size), key, version)
        if correlation_id != self._next:
            raise RuntimeError("an answer out of order")
        return response

    def close(self) -> None:
        """Close."""
        self._stream.close()
        self._socket.close()


class Load:
    """All of the load.

    Attributes:
        latencies: how long things took.
        failures: what went wrong, by name.
        done: what was done, by name.
    """

    def __init__(self, servers: str, rate: float, seed: int) -> None:
        """
        Args:
            servers: the broker.
            rate: 1.0 is some 2,000 records and 150 requests a second.
            seed: for what is left to chance.
        """
        host, _, port = servers.rpartition(":")
        self.servers = servers
        self.address = (host, int(port))
        self.rate = rate
        self.latencies = Latencies()
        self.failures: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.last_failure = ""
        self._seed = seed
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Create the topics, and begin."""
        with Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics(
                [
                    NewTopic(RETAINED, PARTITIONS, 1, configs=RETENTION),
                    NewTopic(KEPT, PARTITIONS, 1, configs={**RETENTION, "retention.bytes": str(4 << 20)}),
                    NewTopic(GROUPED, PARTITIONS, 1, configs=RETENTION),
                ]
            )
        for part in (
            self.raw_requests,
            self.produce_plainly,
            self.produce_idempotently,
            self.read_by_assignment,
            self.group_member,
            self.group_member,
            self.churn_topics,
            self.churn_connections,
        ):
            number = len(self._threads)
            thread = threading.Thread(target=self._run, args=(part, number), name=part.__name__, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End, and wait for the threads."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, part: Callable[[random.Random], None], number: int) -> None:
        rng = random.Random(self._seed + number)
        while not self._stop.is_set():
            try:
                part(rng)
            except Exception as error:
                if self._stop.is_set():
                    return
                self.failures[part.__name__] += 1
                self.last_failure = f"{part.__name__}: {type(error).__name__}: {error}"
                self._stop.wait(1)

    def _pause(self, seconds: float) -> bool:
        """Wait; false when it is time to end."""
        return not self._stop.wait(seconds / self.rate)

    # ------------------------------------------------------------------ the parts

    def raw_requests(self, rng: random.Random) -> None:
        """Frames of the usual kinds, one after the other; a fetch session of its own."""
        raw = Raw(self.address)
        session, epoch = 0, 0
        position = 0
        try:
            while self._pause(0.02):
                records = [(int(time.time() * 1000), None, rng.randbytes(100), ()) for _ in range(5)]
                data = produce.PartitionProduceData(index=0, records=build_batch(records))
                began = time.perf_counter()
                answer = raw.call(
                    ApiKey.PRODUCE,
                    9,
                    produce.ProduceRequest(
                        acks=-1,
                        timeout_ms=10_000,
                        topic_data=[produce.TopicProduceData(name=RETAINED, partition_data=[data])],
                    ),
                )
                self.latencies.add("produce", began)
                part = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
                if part.error_code:
                    raise RuntimeError(f"produce: error {part.error_code}")
                position = part.base_offset
                topics = []
                if epoch == 0 or rng.random() < 0.5:
                    asked = fetch.FetchPartition(
                        partition=0,
                        fetch_offset=position,
                        partition_max_bytes=1 << 20,
                        current_leader_epoch=-1,
                    )
                    topics = [fetch.FetchTopic(topic=RETAINED, partitions=[asked])]
                began = time.perf_counter()
                answer = raw.call(
                    ApiKey.FETCH,
                    11,
                    fetch.FetchRequest(
                        max_wait_ms=0,
                        min_bytes=1,
                        max_bytes=1 << 20,
                        session_id=session,
                        session_epoch=epoch,
                        topics=topics,
                    ),
                )
                self.latencies.add("fetch", began)
                session, epoch = answer.session_id, epoch + 1  # type: ignore[attr-defined]
                if answer.error_code or not session:  # type: ignore[attr-defined]
                    raise RuntimeError(f"fetch: error {answer.error_code}")  # type: ignore[attr-defined]
                if epoch > 500:
                    # The session is left behind, as by a client that dies; the cache has to get rid of it.
                    session, epoch = 0, 0
                began = time.perf_counter()
                wanted = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-2)
                raw.call(
                    ApiKey.LIST_OFFSETS,
                    5,
                    list_offsets.ListOffsetsRequest(
                        topics=[list_offsets.ListOffsetsTopic(name=RETAINED, partitions=[wanted])]
                    ),
                )
                self.latencies.add("list_offsets", began)
                began = time.perf_counter()
                raw.call(ApiKey.METADATA, 9, metadata.MetadataRequest(topics=None))
                self.latencies.add("metadata", began)
                self.done["raw rounds"] += 1
        finally:
            raw.close()

    def produce_plainly(self, rng: random.Random) -> None:
        """Records with acks=1, compressed with one codec after the other."""
        for codec in ("none", "lz4", "zstd", "snappy", "gzip"):
            with Producer(
                bootstrap_servers=self.servers,
                acks=1,
                enable_idempotence=False,
                linger_ms=5,
                compression_type=codec,
            ) as producer:
                for _ in range(200):
                    if not self._pause(0.1):
                        return
                    for _ in range(100):
                        producer.send(KEPT, rng.randbytes(rng.randrange(200)), key=rng.randbytes(4))
                    self.done["records produced plainly"] += 100

    def produce_idempotently(self, rng: random.Random) -> None:
        """Records with acks=all and sequence numbers; a new producer id every so often."""
        with Producer(bootstrap_servers=self.servers, acks="all", enable_idempotence=True) as producer:
            for _ in range(300):
                if not self._pause(0.1):
                    return
                sent = [producer.send(GROUPED, rng.randbytes(100), key=rng.randbytes(4)) for _ in range(100)]
                for one in sent:
                    one.result(30)
                self.done["records produced idempotently"] += 100

    def read_by_assignment(self, rng: random.Random) -> None:
        """A consumer that stays, with a fetch session, at the end of two topics."""
        partitions = [TopicPartition(topic, n) for topic in (RETAINED, KEPT) for n in range(PARTITIONS)]
        consumer = Consumer(bootstrap_servers=self.servers, auto_offset_reset="latest")
        with consumer:
            consumer.assign(partitions)
            while self._pause(0.02):
                self.done["records read by assignment"] += len(consumer.poll(500))

    def group_member(self, rng: random.Random) -> None:
        """Join, read, commit, leave; two of these disturb each other."""
        group = f"soak-{rng.randrange(20)}" if rng.random() < 0.3 else "soak"
        began = time.perf_counter()
        consumer = Consumer(
            GROUPED,
            bootstrap_servers=self.servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        with consumer:
            joined = False
            for _ in range(rng.randrange(10, 60)):
                if not self._pause(0.1):
                    return
                read = len(consumer.poll(500))
                self.done["records read by groups"] += read
                if not joined and consumer.assignment():
                    joined = True
                    self.latencies.add("rebalance", began)
                if read:
                    began = time.perf_counter()
                    consumer.commit()
                    self.latencies.add("commit", began)
        self.done["members that came and went"] += 1

    def churn_topics(self, rng: random.Random) -> None:
        """Topics that are created, written to, read, and deleted."""
        with Admin(bootstrap_servers=self.servers) as admin:
            while self._pause(3):
                name = f"soak-passing-{rng.randrange(10**6)}"
                began = time.perf_counter()
                admin.create_topics([NewTopic(name, 3, 1)])
                with Producer(bootstrap_servers=self.servers) as producer:
                    for one in [producer.send(name, b"v" * 100, key=rng.randbytes(4)) for _ in range(50)]:
                        one.result(30)
                admin.delete_topics([name])
                self.latencies.add("topic", began)
                self.done["topics created and deleted"] += 1

    def churn_connections(self, rng: random.Random) -> None:
        """Connections that come, ask and go: properly, in the middle of a frame, with a request in work."""
        while self._pause(0.2):
            began = time.perf_counter()
            raw = Raw(self.address)
            raw.call(ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest())
            self.latencies.add("connect", began)
            kind = rng.randrange(4)
            if kind == 1:
                raw._socket.sendall(struct.pack(">i", 1000) + b"half of it")
            elif kind == 2:
                asked = fetch.FetchPartition(partition=1, fetch_offset=1 << 40, partition_max_bytes=1)
                topics = [fetch.FetchTopic(topic=KEPT, partitions=[asked])]
                request = fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics)
                raw._socket.sendall(b"".join(encode_request(ApiKey.FETCH, 11, 9, "soak", request)))
            raw.close()
            self.done["connections that came and went"] += 1
