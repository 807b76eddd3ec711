"""Throttled connections of a whole broker, whose time is a test's: answers, muting, changes, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.errors.codes import ErrorCode
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.wire.api import ApiKey
from odradek.wire.messages import alter_client_quotas as altering
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from waiting import until_async

from .. import live
from ..net import run, settle

NOW_MS = 1_700_000_000_000
RECORDS = live.batch([b"x" * 1000], timestamp=NOW_MS)
MORE_THAN_SOCKETS_HOLD = 32 * 1024 * 1024
BIG = live.batch([b"x" * 30_000], timestamp=NOW_MS)


class Time:
    """Time of a test, for a broker."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS)
        self.timers = ManualTimers(self.clock)


@asynccontextmanager
async def running(
    path: Path, time: Time, quotas: Mapping[str, float], **config: Any
) -> AsyncIterator[Broker]:
    """A broker with a topic `t`, and quotas of client id `test`."""
    async with live.running(path, clock=time.clock, timers=time.timers, **config) as broker:
        if broker.image.topic("t") is None:
            await live.create_topic(broker, "t")
        client = await live.connect(broker)
        if quotas:
            await set_quotas(client, {"client-id": "test"}, quotas)
        client.close()
        yield broker


async def set_quotas(
    client: live.Client, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]
) -> None:
    request = altering.AlterClientQuotasRequest(
        entries=[
            altering.EntryData(
                entity=[altering.EntityData(entity_type=k, entity_name=v) for k, v in entity.items()],
                ops=[altering.OpData(key=k, value=v or 0.0, remove=v is None) for k, v in quotas.items()],
            )
        ]
    )
    (entry,) = (await client.call(request, 1, "admin")).entries
    assert entry.error_code == 0


def is_one_throttled(broker: Broker) -> bool:
    """Whether a client was told to wait, and still does."""
    quotas = broker.quotas
    return any(manager.queue_size for manager in (quotas.produce, quotas.fetch, quotas.request))


async def is_muted(client: live.Client, neighbour: live.Client) -> asyncio.Future[Any]:
    """Ask something; it is not answered, while others are. Returns the answer that is to come."""
    client.send(ApiVersionsRequest(), 0, "other")
    reading = asyncio.ensure_future(client.receive())
    for _ in range(5):
        assert (await neighbour.call(ApiVersionsRequest(), 0, "other")).error_code == 0
    assert not reading.done()
    return reading


def test_a_producer_is_told_to_wait_and_is_not_read_meanwhile(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"producer_byte_rate": 3000}) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            answer = await client.call(live.produce("t", RECORDS), 9)
            assert answer.throttle_time_ms == 0
            answer = await client.call(live.produce("t", BIG), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0  # it is in the log all the same
            told = answer.throttle_time_ms
            rate = broker.metrics.snapshot()[("kafka.server:Produce", "byte-rate", (("client-id", "test"),))]
            assert told == int((rate - 3000) / 3000 * 10_000 + 0.5)
            reading = await is_muted(client, neighbour)
            # More than the sockets hold: as nobody reads it, a part stays with the client.
            client.send(live.produce("t", bytes(MORE_THAN_SOCKETS_HOLD)), 9)
            unsent = client.writer.transport.get_write_buffer_size
            for _ in range(100):
                assert (await neighbour.call(ApiVersionsRequest(), 0, "other")).error_code == 0
            assert unsent() > 0
            time.timers.advance(told - 1)
            assert (await neighbour.call(ApiVersionsRequest(), 0, "other")).error_code == 0
            assert not reading.done()
            time.timers.advance(1)
            await settle(reading.done)
            assert reading.result().error_code == 0
            await settle(lambda: unsent() == 0)
            assert broker.quotas.produce.queue_size == 0

    run(main)


@pytest.mark.parametrize("version", [0, 1, 5, 9])
def test_every_version_is_throttled_and_those_that_can_are_told(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"producer_byte_rate": 1000}) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            if version < 3:
                from records.message_set_builder import MessageSetBuilder

                builder = MessageSetBuilder(magic=0)
                builder.append(-1, None, b"x" * 30_000)
                records = bytes(builder.build())
            else:
                records = BIG
            answer = await client.call(live.produce("t", records, acks=1), version)
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert (answer.throttle_time_ms > 19_000) is (version >= 1)
            reading = await is_muted(client, neighbour)
            time.timers.advance(22_000)
            await settle(reading.done)

    run(main)


def test_a_producer_without_acks_is_muted_too(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(
            tmp_path, time, {"producer_byte_rate": 1000, "request_percentage": 0.001}
        ) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            client.sent.clear()
            client.send(live.produce("t", BIG, acks=0), 9)
            client.sent.clear()
            await settle(lambda: is_one_throttled(broker))
            reading = await is_muted(client, neighbour)
            time.timers.advance(30_000)
            await settle(reading.done)

    run(main)


def test_pipelined_requests_of_a_muted_connection_wait_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"producer_byte_rate": 1000}) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            client.send(live.produce("t", BIG), 9)
            for _ in range(20):
                client.send(live.produce("t", RECORDS), 9)
            first = await client.receive()
            assert first.throttle_time_ms > 0
            reading = asyncio.ensure_future(client.receive())
            for _ in range(5):
                await neighbour.call(ApiVersionsRequest(), 0, "other")
            assert not reading.done()
            assert broker.replicas.get("t", 0).log.log_end_offset == 1
            for _ in range(21):
                time.timers.advance(40_000)
                if reading.done():
                    break
                await asyncio.sleep(0)
            await settle(reading.done)
            offsets = [reading.result().responses[0].partition_responses[0].base_offset]
            while len(offsets) < 20:
                time.timers.advance(40_000)
                answer = await client.receive()
                offsets.append(answer.responses[0].partition_responses[0].base_offset)
            assert offsets == list(range(1, 21))

    run(main)


def test_a_client_that_ignores_what_it_is_told_gets_no_more_than_its_quota(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"producer_byte_rate": 10_000}) as broker:
            client = await live.connect(broker)
            for _ in range(60):
                client.send(live.produce("t", BIG), 9)

            def go_on(reading: asyncio.Future[Any]) -> bool:
                if not reading.done() and is_one_throttled(broker):
                    time.timers.advance(100)
                return reading.done()

            began_ms = time.clock.monotonic_ms()
            for _ in range(60):
                reading = asyncio.ensure_future(client.receive())
                await until_async(lambda reading=reading: go_on(reading), "the next answer", every_s=0)
                await reading
            seconds = (time.clock.monotonic_ms() - began_ms) / 1000
            # Ten windows are free at the beginning, and one now and then.
            assert 60 * 30_000 / 10_000 * 0.85 - 11 <= seconds <= 60 * 30_000 / 10_000 + 11

    run(main)


def test_a_consumer_that_took_too_much_gets_an_empty_answer_and_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"consumer_byte_rate": 3200}) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            await live.append(neighbour, "t", BIG)
            await neighbour.call(live.produce("t", BIG), 9, "other")
            answer = await client.call(live.fetch("t", 0, partition_max_bytes=100), 11)
            assert answer.throttle_time_ms == 0
            assert len(answer.responses[0].partitions[0].records) == len(BIG)
            answer = await client.call(live.fetch("t", 1, partition_max_bytes=100), 11)
            assert answer.throttle_time_ms > 8_000
            assert answer.responses == [] and answer.error_code == 0 and answer.session_id == 0
            key = ("kafka.server:Fetch", "byte-rate", (("client-id", "test"),))
            assert broker.metrics.snapshot()[key] < 3200  # what was not given does not count
            reading = await is_muted(client, neighbour)
            time.timers.advance(answer.throttle_time_ms)
            await settle(reading.done)
            time.timers.advance(3_000)
            answer = await client.call(live.fetch("t", 1, partition_max_bytes=100), 11)
            assert answer.throttle_time_ms == 0
            assert len(answer.responses[0].partitions[0].records) == len(BIG)

    run(main)


def test_a_throttled_fetch_leaves_its_session_as_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"consumer_byte_rate": 3200}) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            await neighbour.call(live.produce("t", BIG), 9, "other")
            first = await client.call(live.fetch("t", 0, session_epoch=0), 11)
            session_id = first.session_id
            assert session_id > 0 and first.throttle_time_ms == 0
            await neighbour.call(live.produce("t", BIG), 9, "other")
            again = live.fetch("t", 1, session_id=session_id, session_epoch=1)
            answer = await client.call(again, 11)
            assert answer.throttle_time_ms > 0 and answer.session_id == session_id and not answer.responses
            time.timers.advance(15_000)
            again.session_epoch = 2
            again.topics = []
            answer = await client.call(again, 11)
            assert answer.error_code == 0 and answer.throttle_time_ms == 0
            assert len(answer.responses[0].partitions[0].records) == len(BIG)
            again.session_epoch = 1
            assert (await client.call(again, 11)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH

    run(main)


def test_no_more_is_read_than_all_windows_may_have(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"consumer_byte_rate": 300}) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            for _ in range(10):
                await neighbour.call(live.produce("t", RECORDS), 9, "other")
            answer = await client.call(live.fetch("t", 0), 11)
            # Three seconds' worth, less what is around the records.
            assert answer.throttle_time_ms == 0
            assert len(answer.responses[0].partitions[0].records) == 2 * len(RECORDS)
            assert len(
                (await neighbour.call(live.fetch("t", 0), 11, "other")).responses[0].partitions[0].records
            ) == (10 * len(RECORDS))

    run(main)


def test_followers_are_not_throttled_and_their_time_is_nobodys(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"consumer_byte_rate": 1, "request_percentage": 0.0001}) as broker:
            client = await live.connect(broker)
            request = live.fetch("t", 0)
            request.replica_id = 7
            for _ in range(3):
                assert (await client.call(request, 11)).throttle_time_ms == 0
            assert not is_one_throttled(broker)
            assert (await client.call(WriteTxnMarkersRequest(markers=[]), 1)).markers == []
            assert len(broker.quotas.fetch) == 0
            assert "test" not in {one.tags.client_id for one in broker.quotas.request.sensors()}

    run(main)


def test_the_time_of_requests_is_throttled_and_their_waiting_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"request_percentage": 1}) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            # 200 ms of work are 2 % of a thread in ten windows of a second.
            handler = broker.handlers.get(int(ApiKey.OFFSET_FOR_LEADER_EPOCH))
            assert handler is not None
            function = handler.function

            def slow(context: Any, request: Any) -> Any:
                time.clock.advance(200)
                return function(context, request)

            object.__setattr__(handler, "function", slow)
            question = OffsetForLeaderEpochRequest(topics=[])
            answer = await client.call(question, 3)
            assert answer.throttle_time_ms == 1_000  # a window at most
            reading = await is_muted(client, neighbour)
            assert (await neighbour.call(question, 3, "other")).throttle_time_ms == 0
            time.timers.advance(1_000)
            await settle(reading.done)
            time.timers.advance(20_000)
            waiting = live.fetch("t", 0, max_wait_ms=5_000)
            client.send(waiting, 11)
            reading = asyncio.ensure_future(client.receive())
            await settle(lambda: len(broker.purgatory) == 1)
            time.timers.advance(5_000)
            await settle(reading.done)
            assert reading.result().throttle_time_ms == 0
            object.__setattr__(handler, "function", function)

    run(main)


def create(name: str, partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)], timeout_ms=1000
    )


def test_changes_of_topics_are_refused_when_the_bucket_is_empty(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        config = {"controller_quota_window_num": 2}
        async with running(tmp_path, time, {"controller_mutation_rate": 2}, **config) as broker:
            client = await live.connect(broker)
            answer = await client.call(create("a", 10), 7)  # four are in the bucket, but it may go below
            assert answer.topics[0].error_code == 0 and answer.throttle_time_ms == 0
            answer = await client.call(create("b", 1), 7)
            assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert answer.throttle_time_ms == 3_000 and broker.image.topic("b") is None
            time.timers.advance(1_000)
            other = await live.connect(broker)  # another connection of the same client
            grown = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="a", count=11, assignments=None)], timeout_ms=1000
            )
            answer = await other.call(grown, 3)
            assert answer.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert answer.throttle_time_ms == 2_000
            third = await live.connect(broker)
            deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1000)
            answer = await third.call(deleted, 6)
            assert answer.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert broker.image.topic("a") is not None
            time.timers.advance(2_000)
            assert (await third.call(deleted, 6)).responses[0].error_code == 0
            assert broker.image.topic("a") is None
            # Only checking costs nothing.
            checked = create("c", 1)
            checked.validate_only = True
            fourth = await live.connect(broker)
            assert (await fourth.call(checked, 7)).topics[0].error_code == 0

    run(main)


def test_older_clients_have_it_done_and_wait(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        config = {"controller_quota_window_num": 1}
        async with running(tmp_path, time, {"controller_mutation_rate": 1}, **config) as broker:
            client, neighbour = await live.connect(broker), await live.connect(broker)
            answer = await client.call(create("a", 4), 5)
            assert answer.topics[0].error_code == 0 and answer.throttle_time_ms == 3_000
            reading = await is_muted(client, neighbour)
            time.timers.advance(3_000)
            await settle(reading.done)
            # What comes into being by being asked for counts too.
            question = MetadataRequest(
                topics=[MetadataRequestTopic(name="made")], allow_auto_topic_creation=True
            )
            await client.call(question, 9)
            other = await live.connect(broker)
            answer = await other.call(create("b", 2), 5)
            assert answer.throttle_time_ms == 3_000

    run(main)


def test_a_change_while_it_runs_holds_for_the_next_request(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {}) as broker:
            client, admin = await live.connect(broker), await live.connect(broker)
            assert broker.request_throttle is None and broker.listeners[0].dispatcher.throttle is None
            assert (await client.call(live.produce("t", BIG), 9)).throttle_time_ms == 0
            await set_quotas(admin, {"user": "ANONYMOUS"}, {"producer_byte_rate": 3000})
            answer = await client.call(live.produce("t", BIG), 9)
            assert answer.throttle_time_ms > 0
            time.timers.advance(answer.throttle_time_ms)
            await set_quotas(admin, {"user": "ANONYMOUS"}, {"producer_byte_rate": 100_000})
            assert (await client.call(live.produce("t", BIG), 9)).throttle_time_ms == 0
            await set_quotas(admin, {"user": "ANONYMOUS"}, {"producer_byte_rate": None})
            assert broker.request_throttle is None and broker.listeners[0].dispatcher.throttle is None
            for _ in range(30):
                assert (await client.call(live.produce("t", BIG), 9)).throttle_time_ms == 0

    run(main)


def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, Time(), {"producer_byte_rate": 1000}):
            pass
        async with running(tmp_path, Time(), {}) as broker:
            client = await live.connect(broker)
            assert (await client.call(live.produce("t", BIG), 9)).throttle_time_ms > 0

    run(main)


def test_before_kip_219_the_answer_itself_comes_later(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        quotas = {"producer_byte_rate": 1000, "consumer_byte_rate": 1000}
        async with running(tmp_path, time, {}, odradek_kafka_version="1.1") as broker:
            broker.controller.alter_config("clients/test", {k: str(v) for k, v in quotas.items()})
            client, neighbour = await live.connect(broker), await live.connect(broker)
            for request, version in ((live.produce("t", BIG), 5), (live.fetch("t", 0), 6)):
                client.send(request, version)
                reading = asyncio.ensure_future(client.receive())
                await settle(lambda: is_one_throttled(broker))
                assert (await neighbour.call(ApiVersionsRequest(), 0, "other")).error_code == 0
                assert not reading.done()
                time.timers.advance(30_000)
                await settle(reading.done)
                assert reading.result().throttle_time_ms > 0
            # It is the whole answer.
            assert len(reading.result().responses[0].partitions[0].records) == len(BIG)

    run(main)


def test_a_throttled_peer_that_goes_leaves_no_timer(tmp_path: Path) -> None:
    async def main() -> None:
        time = Time()
        async with running(tmp_path, time, {"producer_byte_rate": 1}) as broker:
            listener = broker.listeners[0]
            await settle(lambda: not listener.connections)
            before = time.timers.pending
            client = await live.connect(broker)
            await client.call(live.produce("t", BIG), 9)
            assert time.timers.pending == before + 1
            client.abort()
            await settle(lambda: not listener.connections)
            assert time.timers.pending == before
            assert listener.queued_bytes == 0

    run(main)
