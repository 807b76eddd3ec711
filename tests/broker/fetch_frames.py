"""Fetch requests drawn at random, and a broker with something to be fetched."""

from __future__ import annotations

import random

from odradek.broker.app import Broker
from odradek.log.producers.producer_state import Origin
from odradek.records.compression import Codec
from odradek.records.control import ControlType, end_marker_batch
from odradek.wire.headers import encode_request
from odradek.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

from .live import append, batch, connect, create_topic

TOPICS = ("a", "topic-with-a-longer-name", "many")


class Shape:
    """Draws requests, the unusual among them."""

    def __init__(
        self, seed: int, ids: dict[str, bytes], bounds: dict[tuple[str, int], tuple[int, int]] | None = None
    ) -> None:
        self.chance = random.Random(seed)
        self.ids = ids
        self.bounds = bounds or {(name, index): (0, 9) for name in ids for index in range(3)}

    def partition(self, topic: str, version: int, *, odd: float) -> FetchPartition:
        chance = self.chance
        index = chance.choice([index for name, index in self.bounds if name == topic] or [0])
        one = FetchPartition(
            partition=index,
            fetch_offset=chance.randint(*self.bounds.get((topic, index), (0, 9))),
            partition_max_bytes=chance.choice((0, 1, 200, 1000, 70_000, 2**20, 2**31 - 1)),
        )
        if version >= 9:
            one.current_leader_epoch = chance.choice((-1, -1, 0))
        if version >= 5:
            one.log_start_offset = chance.choice((-1, 0, 3))
        if chance.random() < odd:
            one.fetch_offset = chance.choice((-1, 99, 2**62))
        if chance.random() < odd:
            one.partition = chance.choice((-1, 7, 2**31 - 1))
        if chance.random() < odd:
            one.partition_max_bytes = -5
        if version >= 9 and chance.random() < odd:
            one.current_leader_epoch = chance.choice((-2, 5))
        if version >= 12 and chance.random() < odd:
            one.last_fetched_epoch = chance.choice((-2, 0, 5))
        if version >= 17 and chance.random() < odd:
            one.replica_directory_id = bytes(range(16))
        if version >= 18 and chance.random() < odd:
            one.high_watermark = 3
        return one

    def request(self, version: int, odd: float = 0.03) -> FetchRequest:
        chance = self.chance
        names = list(self.ids)
        if chance.random() < odd:
            names.append("unknown")
        if chance.random() < odd:
            names.append("ümläut")
        wanted = chance.sample(names, chance.randint(1, len(names)))
        if chance.random() < odd:
            wanted.append(chance.choice(wanted))
        message = FetchRequest(
            max_wait_ms=chance.choice((0, 100)),
            min_bytes=chance.choice((-1, 0, 1, 1, 1000, 10**6)),
            max_bytes=chance.choice((0, 1, 500, 100_000, 2**31 - 1)),
            isolation_level=chance.choice((0, 1)),
            topics=[
                FetchTopic(
                    topic=name if version < 13 else "",
                    topic_id=self.ids.get(name, bytes(15) + b"x") if version >= 13 else bytes(16),
                    partitions=[
                        self.partition(name, version, odd=odd)
                        for _ in range(0 if chance.random() < odd else chance.randint(1, 3))
                    ],
                )
                for name in wanted
            ],
        )
        if chance.random() < odd:
            message.topics = []
        if chance.random() < odd:
            message.isolation_level = chance.choice((-1, 2))
        if chance.random() < odd:
            message.max_bytes = -1
        if version < 15 and chance.random() < odd:
            message.replica_id = chance.choice((-2, 0, 1))
        if version >= 15 and chance.random() < odd:
            message.replica_state = ReplicaState(replica_id=chance.choice((-2, 1)))
        if version >= 7 and chance.random() < odd:
            message.session_id = chance.choice((-1, 5))
        if version >= 7 and chance.random() < odd:
            message.session_epoch = chance.choice((1, 2))
        if version >= 7 and chance.random() < odd:
            message.forgotten_topics_data = [
                ForgottenTopic(topic="a" if version < 13 else "", partitions=[1, 2])
            ]
        if version >= 11 and chance.random() < odd:
            message.rack_id = chance.choice(("rack", "räck"))
        if version >= 12 and chance.random() < odd:
            message.cluster_id = "c"
        return message

    def frame(self, version: int, odd: float = 0.03) -> bytes:
        chance = self.chance
        client = chance.choice((None, "", "client", "clïent"))
        whole = b"".join(
            encode_request(1, version, chance.randrange(2**31), client, self.request(version, odd))
        )
        frame = whole[4:]
        return frame + b"\0\0\0" if chance.random() < odd else frame

    def mutated(self, frame: bytes) -> bytes:
        chance = self.chance
        data = bytearray(frame)
        for _ in range(chance.randint(1, 3)):
            kind, at = chance.randrange(4), chance.randrange(len(data) or 1)
            if kind == 0:
                del data[at:]
            elif data and kind == 1:
                data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif data and kind == 2:
                data[at] ^= 1 << chance.randrange(8)
            else:
                data[at:at] = bytes([chance.randrange(256)])
        return bytes(data)


def abort_transaction(broker: Broker, topic: str, index: int) -> None:
    partition = broker.replicas.get(topic, index)
    now_ms = broker.clock.now_ms()
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    partition.append(records, required_acks=1, now_ms=now_ms, origin=Origin.COORDINATOR)
    marker = end_marker_batch(
        ControlType.ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=now_ms
    )
    partition.append(marker, required_acks=1, now_ms=now_ms, origin=Origin.COORDINATOR)


async def fill(broker: Broker, chance: random.Random) -> dict[str, bytes]:
    ids = {"a": await create_topic(broker, "a", 3, {"segment.bytes": "250000", "file.delete.delay.ms": "0"})}
    ids[TOPICS[1]] = await create_topic(broker, TOPICS[1], 2)
    ids["many"] = await create_topic(broker, "many", 3, {"compression.type": "zstd"})
    client = await connect(broker)
    for topic in ids:
        for index in range(3 if topic != TOPICS[1] else 2):
            for _ in range(chance.randrange(9)):
                size = chance.choice((10, 1000, 70_000))
                records = batch([chance.randbytes(size)] * chance.randint(1, 3), codec=Codec.NONE)
                assert (await append(client, topic, records, acks=1, index=index)).error_code == 0
    broker.replicas.get("a", 1).delete_records_before(-1)
    client.close()
    return ids
