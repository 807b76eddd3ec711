"""DescribeProducers against a whole broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek.broker.requests.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

from ..admin_world import Denying
from ..live import append, batch, connect, create_topic, producer_states, running
from ..net import run


def request(topic: str, *indexes: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=list(indexes))])


def states(partition: Any) -> list[tuple[int, ...]]:
    return sorted(producer_states(partition))


def test_producers_of_a_partition(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 2)
            client = await connect(broker)
            await append(client, "t", batch([b"plain"]))
            idempotent = batch([b"a", b"b"], producer_id=70, producer_epoch=3, base_sequence=0)
            open_ended = batch([b"c"], producer_id=71, producer_epoch=0, base_sequence=0, transactional=True)
            assert (await append(client, "t", idempotent)).error_code == 0
            # A client's would be refused: nobody coordinates transactions.
            log = broker.replicas.get("t", 0).log
            log.append(open_ended, leader_epoch=0, now_ms=broker.clock.now_ms())
            asked = request("t", 0, 1, 9, 0, 0)
            asked.topics += request("t", 1).topics
            answer = await client.call(asked, 0)
            (topic,) = answer.topics
            first, second, missing = topic.partitions
            assert states(first) == [(70, 3, 1, -1, -1), (71, 0, 0, -1, 3)]
            assert all(one.last_timestamp > 0 for one in first.active_producers)
            assert (first.error_code, first.error_message) == (0, None)
            assert (second.error_code, second.active_producers) == (0, [])
            assert (missing.partition_index, missing.error_code) == (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            client.close()

    run(main)


def test_topics_that_have_none_to_tell(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 1)
            client = await connect(broker)
            for name, error in (
                ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                ("not/a/topic", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ):
                answer = await client.call(request(name, 0, 1), 0)
                assert [one.error_code for one in answer.topics[0].partitions] == [error] * 2
            broker.authorizer = Denying((Operation.READ, "t"))
            answer = await client.call(request("t", 0), 0)
            (partition,) = answer.topics[0].partitions
            assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            client.close()

    run(main)
