"""A broker that hangs, its connections open, is not waited for when others say that it is dead."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

import pytest

from odradek.client import Consumer, Producer
from odradek.client.aio.cluster import Cluster
from odradek.client.aio.first_answer import NobodyAnswered, by_promise, first_answer
from odradek.client.blocking import BlockingCluster
from odradek.client.config import CommonConfig, build
from odradek.client.core.silence import SILENCE_MS, next_look_ms
from odradek.client.errors import ClosedError, ConnectionFailedError
from odradek.client.raw import RawReader
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, TopicAuthorizationError
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from waiting import until, until_async

from .scripted import ScriptedBroker, Silence

NEVER_MS = 600_000
"""A test in which this runs out has failed."""
TP = TopicPartition("t", 0)


class Pair:
    """Broker 1 leads, and says nothing; broker 2 leads from then on when it is the only one that lives.

    Attributes:
        asked: the requests for which broker 1 owes an answer.
        dead: whether broker 1 counts as dead.
        looks: how often broker 2 was asked for metadata since broker 1 fell silent.
    """

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.dead = threading.Event()
        self.fell_silent = threading.Event()
        self.looks = 0
        self.brokers: dict[int, ScriptedBroker] = {}

    def silence(self, request: Any, version: int) -> NoReturn:
        self.asked.append(request.API_KEY)
        self.fell_silent.set()
        raise Silence

    def metadata(self, broker: int) -> Any:
        def answer(request: Any, version: int) -> MetadataResponse:
            if broker == 1 and self.fell_silent.is_set():
                self.silence(request, version)
            self.looks += self.fell_silent.is_set()
            live = [2] if self.dead.is_set() else [1, 2]
            part = MetadataResponsePartition(
                partition_index=0,
                leader_id=live[0],
                leader_epoch=live[0],
                replica_nodes=[1, 2],
                isr_nodes=live,
            )
            return MetadataResponse(
                brokers=[
                    MetadataResponseBroker(node_id=one, host="127.0.0.1", port=self.brokers[one].port)
                    for one in live
                ],
                topics=[MetadataResponseTopic(name="t", partitions=[part])],
            )

        return answer


def written(request: Any, version: int) -> ProduceResponse:
    part = PartitionProduceResponse(index=0, base_offset=7)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[part])])


def refuses_fetch(request: Any, version: int) -> FetchResponse:
    part = PartitionData(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])


@contextmanager
def pair(fetched: Any = None) -> Iterator[Pair]:
    found = Pair()
    versions = {ApiKey.METADATA: (0, 9), ApiKey.PRODUCE: (3, 8), ApiKey.FETCH: (4, 11), 18: (0, 0)}
    with ExitStack() as stack:
        for broker in (1, 2):
            answers: dict[int, Any] = {ApiKey.METADATA: found.metadata(broker), ApiKey.PRODUCE: written}
            if fetched is not None:
                answers[ApiKey.FETCH] = fetched
            if broker == 1:
                answers.update({ApiKey.PRODUCE: found.silence, ApiKey.FETCH: found.silence})
            found.brokers[broker] = stack.enter_context(ScriptedBroker(answers, versions))
        yield found


def test_a_record_goes_to_the_next_leader_when_the_silent_one_counts_as_dead() -> None:
    with (
        pair() as brokers,
        Producer(
            bootstrap_servers=f"{brokers.brokers[1].at},{brokers.brokers[2].at}",
            enable_idempotence=False,
            request_timeout_ms=NEVER_MS,
            delivery_timeout_ms=2 * NEVER_MS,
            max_block_ms=NEVER_MS,
        ) as producer,
    ):
        sent = producer.send("t", b"value", partition=0)
        assert brokers.fell_silent.wait(60)
        brokers.dead.set()
        assert sent.result(60).offset == 7
        assert brokers.asked.count(ApiKey.PRODUCE) == 1


def test_a_silent_broker_that_counts_as_alive_is_waited_for() -> None:
    async def wait(brokers: Pair) -> None:
        cluster = Cluster(config(brokers, brokers.brokers[2].at))
        cluster.want(["t"])
        assert await cluster.wait_update(60_000)
        connection = await cluster.connection(1)
        asked = asyncio.ensure_future(
            connection.send(MetadataRequest(topics=[]), connection.pick(ApiKey.METADATA))
        )
        brokers.fell_silent.set()
        await until_async(lambda: brokers.looks, "three looks", holds=lambda looks: looks >= 3)
        assert not connection.closed and not asked.done()
        brokers.dead.set()
        with pytest.raises(ConnectionFailedError, match="is not among the live brokers any more"):
            await asked
        assert cluster.open_connection(2) is not None
        await cluster.close()

    with pair() as brokers:
        brokers.fell_silent.set()
        asyncio.run(wait(brokers))


def config(brokers: Pair, servers: str) -> CommonConfig:
    return build(CommonConfig, {"bootstrap_servers": servers, "request_timeout_ms": NEVER_MS})


def test_metadata_comes_from_the_next_one_where_the_first_is_silent() -> None:
    async def ask(brokers: Pair) -> None:
        both = f"{brokers.brokers[1].at},{brokers.brokers[2].at}"
        cluster = Cluster(config(brokers, both))
        cluster.want(["t"])
        assert await cluster.wait_update(60_000)
        assert set(cluster.metadata.brokers) == {1, 2}
        assert brokers.asked == [ApiKey.METADATA]
        await cluster.close()

    with pair() as brokers:
        brokers.fell_silent.set()
        asyncio.run(ask(brokers))


def test_a_consumer_reads_on_at_the_next_leader() -> None:
    with pair() as brokers:
        at = f"{brokers.brokers[1].at},{brokers.brokers[2].at}"
        with Consumer(bootstrap_servers=at, request_timeout_ms=NEVER_MS, fetch_max_wait_ms=10) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            consumer.poll(10)
            assert brokers.fell_silent.wait(60)
            brokers.dead.set()
            asked = brokers.brokers[2].asked
            until(lambda: consumer.poll(10) or (ApiKey.FETCH, 11) in asked, "a fetch at the other broker")


def test_whole_partitions_are_read_on_at_the_next_leader() -> None:
    with pair(refuses_fetch) as brokers:
        at = f"{brokers.brokers[1].at},{brokers.brokers[2].at}"
        with (
            RawReader(at, {"request_timeout_ms": NEVER_MS, "fetch_max_wait_ms": 10}) as reader,
            ThreadPoolExecutor(1) as pool,
        ):
            reading = pool.submit(lambda: list(reader.fetch_columns("t", 0, 0, 10)))
            assert brokers.fell_silent.wait(60)
            brokers.dead.set()
            with pytest.raises(TopicAuthorizationError):
                reading.result(60)
        assert brokers.asked.count(ApiKey.FETCH) == 1


def test_a_thread_waits_for_a_silent_broker_while_that_counts_as_alive() -> None:
    def wait() -> None:
        cluster.connection(1).call(MetadataRequest(topics=[]))

    with pair() as brokers, ThreadPoolExecutor(1) as pool:
        cluster = BlockingCluster(config(brokers, brokers.brokers[2].at), allow_auto_create=False)
        cluster.refresh(["t"])
        brokers.fell_silent.set()
        waiting = pool.submit(wait)
        until(lambda: brokers.looks >= 3 or waiting.done(), "three looks")
        assert not waiting.done()
        brokers.dead.set()
        with pytest.raises(ConnectionFailedError, match="is not among the live brokers any more"):
            waiting.result(60)
        cluster.close()


def test_several_silent_brokers_cost_one_question() -> None:
    with pair() as brokers:
        cluster = BlockingCluster(config(brokers, brokers.brokers[2].at), allow_auto_create=False)
        cluster.refresh(["t"])
        brokers.dead.set()
        brokers.fell_silent.set()
        assert cluster.dead_of([3, 1, 2]) == [3, 1]
        assert brokers.looks == 1
        cluster.close()


def test_a_thread_gets_metadata_from_the_next_one_where_the_first_is_silent() -> None:
    with pair() as brokers:
        brokers.fell_silent.set()
        both = f"{brokers.brokers[1].at},{brokers.brokers[2].at}"
        cluster = BlockingCluster(config(brokers, both), allow_auto_create=False)
        assert cluster.ensure_topic("t") == [0]
        assert brokers.asked == [ApiKey.METADATA]
        cluster.close()


def test_the_first_answer_is_taken_and_who_is_asked_later_may_give_it() -> None:
    asked: list[int] = []

    async def ask(node: int) -> int:
        asked.append(node)
        if node == 1:
            raise ConnectionFailedError("1 refuses")
        if node == 2:
            await asyncio.sleep(NEVER_MS / 1000)
        return node

    assert asyncio.run(first_answer([1, 2, 3, 4], ask)) == 3
    assert asked == [1, 2, 3]


def test_nobody_answers() -> None:
    async def refuse(node: int) -> int:
        raise ConnectionFailedError(f"{node} refuses")

    async def closed(node: int) -> int:
        raise ClosedError("closed")

    with pytest.raises(NobodyAnswered, match="1 refuses; 2 refuses"):
        asyncio.run(first_answer([1, 2], refuse))
    with pytest.raises(NobodyAnswered):
        asyncio.run(first_answer([], refuse))
    with pytest.raises(ClosedError):
        asyncio.run(first_answer([1, 2], closed))


def test_who_owes_an_answer_is_asked_last_but_for_the_bootstrap_servers() -> None:
    connections = {(1, ""): False, (2, ""): True, (3, "fetch"): False, (-2, ""): False}
    in_order = by_promise(connections, [1, 2, 3], 2)
    assert set(in_order[:2]) == {1, -2}
    assert in_order[2:] == [3, 2, -1]
    # A broker that is silent on one connection is so on all.
    assert by_promise({(1, ""): False, (1, "fetch"): True}, [1, 2], 1) == [2, 1, -1]
    assert by_promise({}, [], 2) == [-1, -2]


def test_an_outage_grows_by_a_twenty_fifth_at_most_or_a_tenth_of_a_second() -> None:
    assert next_look_ms(SILENCE_MS) == 100
    assert next_look_ms(30_000) == 1_200
