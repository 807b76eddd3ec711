"""Requests in slices: others are served between them, order holds, the world may change amid."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.broker.event_loop import slices
from odradek.broker.requests.answer import Answer
from odradek.errors.codes import ErrorCode
from odradek.wire.codec import GeneratedCodec
from odradek.wire.headers import encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from waiting import until_async

from .. import live
from ..dispatching import Later, dispatch, dispatcher_of
from ..net import run

MANY = 3_000


def many_names(first: str) -> MetadataRequest:
    names = [first, *(f"none-{n}" for n in range(MANY)), "last"]
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )


def every_pause(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every slice end at its first pause."""
    monkeypatch.setattr(slices, "SLICE_S", -1.0)


def test_others_are_served_while_a_large_request_is_worked_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t")
            every_pause(broker, monkeypatch)
            client, neighbour = await live.connect(broker), await live.connect(broker)
            client.send(many_names("t"), 8)
            answering = asyncio.ensure_future(client.receive())
            served = 0
            while not answering.done():
                assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
                served += 1
            assert served > 20
            answer = answering.result()
            assert [answer.topics[0].error_code, len(answer.topics)] == [0, MANY + 2]
            assert not broker.slicer.is_busy
            client.close()
            neighbour.close()

    run(main)


def test_answers_of_one_connection_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t")
            every_pause(broker, monkeypatch)
            client = await live.connect(broker)
            for _ in range(2):
                client.send(many_names("t"), 8)
                client.send(ApiVersionsRequest(), 0)
                client.send(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 8)
            for _ in range(2):
                assert len((await client.receive()).topics) == MANY + 2
                assert (await client.receive()).api_keys
                assert [topic.name for topic in (await client.receive()).topics] == ["t"]
            client.close()

    run(main)


def test_a_topic_is_deleted_while_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "last")
            every_pause(broker, monkeypatch)
            client = await live.connect(broker)
            partitions = [
                OffsetCommitRequestPartition(partition_index=0, committed_offset=n) for n in range(2_000)
            ]
            topics = [OffsetCommitRequestTopic(name="last", partitions=partitions)]
            request = OffsetCommitRequest(
                group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
            )
            await broker.controller.event_queue.run(broker.groups.ensure_topic)
            client.send(request, 7)
            await until_async(lambda: broker.slicer.is_busy, "the first slice", every_s=0)
            await live.delete_topics(broker, ["last"])
            answer = await client.receive()
            errors = [one.error_code for topic in answer.topics for one in topic.partitions]
            assert len(errors) == 2_000
            assert set(errors) <= {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            client.close()

    run(main)


def test_a_long_commit_is_written_whole_and_the_last_word_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t", 300)
            await broker.controller.event_queue.run(broker.groups.ensure_topic)
            every_pause(broker, monkeypatch)
            client = await live.connect(broker)
            partitions = [
                OffsetCommitRequestPartition(partition_index=n % 310, committed_offset=n) for n in range(930)
            ]
            topics = [
                OffsetCommitRequestTopic(name="gone", partitions=partitions[:5]),
                OffsetCommitRequestTopic(name="t", partitions=partitions),
            ]
            committed = await client.call(
                OffsetCommitRequest(
                    group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
                ),
                7,
            )
            errors = {
                topic.name: [(one.partition_index, one.error_code) for one in topic.partitions]
                for topic in committed.topics
            }
            assert set(errors) == {"gone", "t"}
            assert {code for _, code in errors["gone"]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert len(errors["t"]) == 930
            assert all((code == 0) == (index < 300) for index, code in errors["t"])
            wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=list(range(300)))]
            fetched = await client.call(OffsetFetchRequest(group_id="g", topics=wanted), 7)
            offsets = [one.committed_offset for one in fetched.topics[0].partitions]
            assert offsets == [620 + n for n in range(300)]
            client.close()

    run(main)


def test_a_produce_of_many_partitions_comes_before_what_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t", 200)
            every_pause(broker, monkeypatch)
            client = await live.connect(broker)
            values = [b"first", b"second"]

            def produce(value: bytes, indexes: Any) -> ProduceRequest:
                data = [PartitionProduceData(index=n, records=live.batch([value])) for n in indexes]
                return ProduceRequest(
                    acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=data)]
                )

            client.send(produce(values[0], range(200)), 7)
            client.send(produce(values[1], [199]), 7)
            first, second = await client.receive(), await client.receive()
            answered = first.responses[0].partition_responses
            assert [(one.index, one.error_code, one.base_offset) for one in answered] == [
                (n, 0, 0) for n in range(200)
            ]
            assert second.responses[0].partition_responses[0].base_offset == 1
            client.close()

    run(main)


def test_a_large_frame_that_is_malformed_closes_its_own_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            await live.create_topic(broker, "t")
            client, neighbour = await live.connect(broker), await live.connect(broker)
            whole = b"".join(encode_request(3, 8, 1, "x", many_names("t")))
            broken = whole[4:-20]
            client.writer.write(len(broken).to_bytes(4, "big") + broken)
            assert await client.closed()
            assert (await neighbour.call(ApiVersionsRequest(), 0)).error_code == 0
            assert broker.listeners[0].queued_bytes == 0
            assert not broker.slicer.is_busy
            client.close()
            neighbour.close()

    run(main)


@pytest.mark.parametrize("topics", [1, 5000])
@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_malformed_is_not_counted_as_a_request(
    compiled: bool, topics: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Kafka, with either codec and in steps."""

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            if not compiled:
                monkeypatch.setitem(MetadataRequest._codecs, 8, GeneratedCodec(MetadataRequest, 8))
            names = [MetadataRequestTopic(name="t")] * topics
            request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
            whole = b"".join(encode_request(3, 8, 1, "x", request))[4:]
            dispatcher, counted = dispatcher_of(broker), broker.metrics.requests.of("Metadata")
            for cut in (1, 4, len(whole) // 2):
                refused = dispatch(dispatcher, whole[:-cut], Later())
                assert isinstance(refused, str)
            assert (counted.requests, counted.request_bytes) == (0, 0)
            assert isinstance(dispatch(dispatcher, whole, Later()), Answer)
            assert (counted.requests, counted.request_bytes) == (1, len(whole))

    run(main)


def test_a_peer_that_goes_amid_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with live.running(tmp_path) as broker:
            every_pause(broker, monkeypatch)
            client, neighbour = await live.connect(broker), await live.connect(broker)
            client.send(many_names("t"), 8)
            await until_async(lambda: broker.slicer.is_busy, "the first slice", every_s=0)
            client.abort()
            await until_async(
                lambda: neighbour.call(ApiVersionsRequest(), 0),
                "the end of the slices",
                holds=lambda answer: answer.error_code == 0 and not broker.slicer.is_busy,
                every_s=0,
            )
            queued = broker.listeners[0]
            await until_async(lambda: not queued.queued_bytes, "the end of what it had sent", every_s=0)
            neighbour.close()

    run(main)
