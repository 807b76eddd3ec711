"""Incremental fetches of a whole broker: a session tells what a full fetch would tell, and nothing twice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.fetch import reading as fetch_reading
from odradek.broker.handlers import fetch as fetch_handler
from odradek.broker.requests.authorization import Operation
from odradek.cluster.image import ClusterImage
from odradek.errors.codes import ErrorCode
from odradek.wire.headers import encode_request
from odradek.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from seeds import each_seed

from ..admin_world import Denying
from ..dispatching import Later, dispatch, dispatcher_of, plain
from ..fetch_frames import abort_transaction, fill
from ..live import append, batch, connect, create_topic, delete_topics, running
from ..net import run

Wanted = dict[tuple[str, int], FetchPartition]


class Reader:
    """A consumer with a session beside fetches that have none."""

    def __init__(self, broker: Any, version: int, ids: dict[str, bytes], isolation: int) -> None:
        self.dispatcher = dispatcher_of(broker)
        self.version = version
        self.by_id = version >= 13
        self.ids = ids
        self.isolation = isolation
        self.session_id = 0
        self.epoch = 0

    def topics(self, wanted: Wanted) -> list[FetchTopic]:
        return [
            FetchTopic(
                topic="" if self.by_id else name,
                topic_id=self.ids[name] if self.by_id else bytes(16),
                partitions=[one for (topic, _), one in wanted.items() if topic == name],
            )
            for name in dict.fromkeys(topic for topic, _ in wanted)
        ]

    def call(self, **fields: Any) -> FetchResponse:
        message = FetchRequest(max_bytes=2**30, isolation_level=self.isolation, **fields)
        frame = b"".join(encode_request(1, self.version, 1, "x", message))[4:]
        answer = plain(dispatch(self.dispatcher, frame, Later()))
        response, _ = FetchResponse.decode_from(answer, self.version, 8 if self.version < 12 else 9)
        assert response.error_code == 0
        return response

    def told(self, response: FetchResponse) -> dict[tuple[Any, int], PartitionData]:
        return {
            (topic.topic_id if self.by_id else topic.topic, one.partition_index): one
            for topic in response.responses
            for one in topic.partitions
        }

    def in_session(self, wanted: Wanted, forgotten: list[tuple[str, int]]) -> dict[Any, PartitionData]:
        response = self.call(
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=self.topics(wanted),
            forgotten_topics_data=[
                ForgottenTopic(
                    topic="" if self.by_id else name,
                    topic_id=self.ids[name] if self.by_id else bytes(16),
                    partitions=[index],
                )
                for name, index in forgotten
            ],
        )
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        assert self.session_id
        return self.told(response)

    def in_full(self, wanted: Wanted) -> dict[Any, PartitionData]:
        return self.told(self.call(topics=self.topics(wanted)))


@pytest.mark.parametrize("at_once", [2, 100])
@each_seed(6)
def test_a_session_tells_what_is_new_of_what_a_full_fetch_tells(
    seed: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_reading, "RANGE_FROM_BYTES", 65_536)
    monkeypatch.setattr(fetch_handler, "AT_ONCE", at_once)

    async def main() -> None:
        chance = random.Random(seed)
        async with running(tmp_path) as broker:
            ids = await fill(broker, chance)
            reader = Reader(broker, chance.randrange(10, 19), ids, seed % 2)
            wanted: Wanted = {}
            picture: dict[Any, tuple[int, int]] = {}
            everything = [one.key for one in broker.replicas if one.topic in ids]
            silent = 0

            def draw(key: tuple[str, int]) -> FetchPartition:
                replica = broker.replicas.find(*key)
                start = end = 0
                if replica is not None:
                    start, end = replica.log.log_start_offset, replica.log.log_end_offset
                offset = 99 if chance.random() < 0.02 else chance.choice((start, end, end, end))
                epoch = chance.choice((-1, -1, -1, 0, 7))
                return FetchPartition(
                    partition=key[1],
                    fetch_offset=offset,
                    partition_max_bytes=2**20,  # the order of serving may not matter
                    current_leader_epoch=epoch,
                )

            for step in range(150):
                some = chance.sample(everything, 8 if not step else chance.choice((0, 1, 3)))
                changed = {key: draw(key) for key in some}
                gone = [chance.choice(list(wanted))] if len(wanted) > 3 and chance.random() < 0.1 else []
                told = reader.in_session(changed, gone)
                wanted |= changed
                for key in gone:
                    del wanted[key]
                full = reader.in_full(wanted)
                assert set(told) <= set(full)
                for name, one in full.items():
                    if one.error_code == ErrorCode.UNKNOWN_TOPIC_ID and step:
                        # A session knows the name of a topic that has gone, as Kafka's do.
                        one.error_code = told[name].error_code
                        assert one.error_code in (
                            ErrorCode.UNKNOWN_TOPIC_ID,
                            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        )
                    if one.records or one.error_code or name in told:
                        assert told[name] == one
                    else:
                        silent += 1
                        assert picture[name] == (one.high_watermark, one.log_start_offset)
                    picture[name] = (one.high_watermark, one.log_start_offset)
                topic, index = chance.choice(everything)
                replica = broker.replicas.find(topic, index)
                what = chance.random()
                if what < 0.03:
                    await delete_topics(broker, [topic])
                    if not reader.by_id:
                        await create_topic(broker, topic, 3)
                elif replica is not None and what < 0.6:
                    replica.append(batch(), required_acks=1, now_ms=broker.clock.now_ms())
                elif replica is not None and what < 0.7:
                    abort_transaction(broker, topic, index)
                elif replica is not None and what < 0.8:
                    replica.delete_records_before(-1)
            assert silent > 50

    run(main)


def test_a_topic_is_found_once_it_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            ids = {"a": await create_topic(broker, "a"), "b": b"b" * 16}
            reader = Reader(broker, 13, ids, 0)
            wanted = {(name, 0): FetchPartition(partition_max_bytes=100) for name in ids}
            told = reader.in_session(wanted, [])
            assert [one.error_code for one in told.values()] == [0, 100]
            assert [one.error_code for one in reader.in_session({}, []).values()] == [100]
            # The topic is there, and the session finds its name.
            ids["b"] = await create_topic(broker, "b")
            reader.session_id = reader.epoch = 0
            assert [one.error_code for one in reader.in_session(wanted, []).values()] == [0, 0]
            assert reader.in_session({}, []) == {}

    run(main)


def test_a_topic_that_becomes_known_is_read_by_those_who_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            topic_id = await create_topic(broker, "a")
            client = await connect(broker)
            assert (await append(client, "a", batch(), acks=1)).error_code == 0
            client.close()
            reader = Reader(broker, 13, {"a": topic_id}, 0)
            wanted = {("a", 0): FetchPartition(partition_max_bytes=100)}
            # The broker learns of the topic after the session does.
            with monkeypatch.context() as before:
                before.setattr(ClusterImage, "topic_name", lambda self, topic_id: None)
                assert [one.error_code for one in reader.in_session(wanted, []).values()] == [100]
            broker.authorizer = Denying((Operation.READ, "a"))
            (told,) = reader.in_session({}, []).values()
            assert told.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(main)
