"""Missing topics, in a cluster whose controller is another broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.broker.handlers import find_coordinator
from odradek.broker.metadata.auto_creation import create_internal
from odradek.broker.metadata.remote_creation import have_created, have_internal_created
from odradek.errors import UnsupportedVersionError
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from waiting import until_async

from ..admin_world import World
from ..coordinated import FIRST, GROUPS, SECOND, TRANSACTIONS, Cluster, Node
from ..fake_channels import BROKEN, FakeChannels, turns
from ..live import connect, running
from ..net import run
from ..transactions.test_remote_markers import in_loop

AGAIN = ErrorCode.LEADER_NOT_AVAILABLE
BAD_FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR


def node() -> Node:
    """A broker that is not the controller."""
    return Cluster()[FIRST]


def response(**errors: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=int(error)) for name, error in errors.items()]
    )


def names(request: CreateTopicsRequest) -> list[str]:
    return [one.name for one in request.topics]


@in_loop
async def test_the_controller_is_asked_in_full() -> None:
    """Older controllers know no defaults; and they are this broker's, as in Kafka."""
    broker = node()
    asked = have_created(broker, ["t"])  # type: ignore[arg-type]
    internal = have_internal_created(broker, TRANSACTIONS)  # type: ignore[arg-type]
    first, second = await broker.channels.take()
    assert (first.purpose, first.version) == ("controller", 7)
    (topic,) = first.request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", 1, 1)
    assert first.request.timeout_ms == broker.config.request_timeout_ms
    (topic,) = second.request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (TRANSACTIONS, 50, 3)
    configs = {one.name: one.value for one in topic.configs}
    assert configs["cleanup.policy"] == "compact"
    assert configs["min.insync.replicas"] == "2"
    assert CreateTopicsRequest.decode(second.request.encode(2), 2).topics[0].num_partitions == 50
    first.answer.set_result(response(t=0))
    second.answer.set_result(response(**{TRANSACTIONS: 0}))
    assert await asked == {"t": AGAIN}
    assert await internal is ErrorCode.NONE


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        (ErrorCode.NONE, AGAIN),
        (ErrorCode.TOPIC_ALREADY_EXISTS, AGAIN),
        (ErrorCode.REQUEST_TIMED_OUT, AGAIN),
        (ErrorCode.NOT_CONTROLLER, AGAIN),
        (BAD_FACTOR, BAD_FACTOR),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (12345, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_the_client_is_told(said: int, seen: ErrorCode) -> None:
    async def main() -> None:
        broker = node()
        asked = have_created(broker, ["t", "bad name", "u"])  # type: ignore[arg-type]
        sent = await broker.channels.take_one()
        assert names(sent.request) == ["t", "u"]
        sent.answer.set_result(response(t=said, u=0))
        assert await asked == {"t": seen, "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION, "u": AGAIN}
        internal = have_internal_created(broker, GROUPS)  # type: ignore[arg-type]
        (await broker.channels.take_one()).answer.set_result(response(**{GROUPS: said}))
        told = ErrorCode.NONE if seen is AGAIN else ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await internal is told

    asyncio.run(main())


@pytest.mark.parametrize("error", [BROKEN, UnsupportedVersionError("too old")])
def test_a_controller_that_cannot_be_asked_is_asked_again(error: Exception) -> None:
    async def main() -> None:
        broker = node()
        for _ in range(2):
            asked = have_created(broker, ["t"])  # type: ignore[arg-type]
            (await broker.channels.take_one()).answer.set_exception(error)
            assert await asked == {"t": AGAIN}

    asyncio.run(main())


@in_loop
async def test_many_who_want_a_topic_send_one_request() -> None:
    broker = node()
    asked = [have_created(broker, ["t"]) for _ in range(10)]  # type: ignore[arg-type]
    first = await broker.channels.take_one()
    asked.append(have_created(broker, ["u", "t"]))  # type: ignore[arg-type]
    second = await broker.channels.take_one()
    assert (names(first.request), names(second.request)) == (["t"], ["u"])
    first.answer.set_result(response(t=BAD_FACTOR))
    second.answer.set_result(response(u=0))
    answers = [await one for one in asked]
    assert answers == [{"t": BAD_FACTOR}] * 10 + [{"u": AGAIN, "t": BAD_FACTOR}]
    assert broker.channels.creations == {}
    # What has failed may succeed now.
    again = have_created(broker, ["t"])  # type: ignore[arg-type]
    (await broker.channels.take_one()).answer.set_result(response(t=0))
    assert await again == {"t": AGAIN}


@in_loop
async def test_whoever_asked_first_may_go() -> None:
    broker = node()
    first, second = (have_created(broker, ["t"]) for _ in range(2))  # type: ignore[arg-type]
    sent = await broker.channels.take_one()
    first.cancel()
    await turns()
    sent.answer.set_result(response(t=0))
    assert await second == {"t": AGAIN}


@in_loop
async def test_one_request_names_so_many_topics() -> None:
    broker = node()
    wanted = [f"t{number}" for number in range(101)]
    asked = have_created(broker, wanted)  # type: ignore[arg-type]
    sent = await broker.channels.take_one()
    assert names(sent.request) == wanted[:100]
    sent.answer.set_result(response(**dict.fromkeys(wanted[:100], 0)))
    assert (await asked)["t100"] is AGAIN


@pytest.mark.parametrize(("others", "seen"), [((1,), ErrorCode.COORDINATOR_NOT_AVAILABLE), ((1, 2), 0)])
def test_an_internal_topic_waits_for_as_many_brokers_as_it_has_replicas(
    others: tuple[int, ...], seen: int
) -> None:
    world = World({"offsets.topic.replication.factor": "3"}, others=others)
    assert create_internal(world.controller, world.config, GROUPS) == seen
    assert (GROUPS in world.image.topics) is (seen == 0)


# ---------------------------------------------------------------------- the handlers


def in_a_cluster(broker: Broker) -> FakeChannels:
    """Have a broker take another for the controller."""
    channels: Any = FakeChannels()
    broker.channels = channels
    broker.controller.context.is_active = False
    return channels  # type: ignore[no-any-return]


def test_metadata_asks_the_controller(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            channels = in_a_cluster(broker)
            client = await connect(broker)
            client.send(
                MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True), 9
            )
            await until_async(lambda: channels.sent, "a request to the controller", every_s=0.001)
            channels.sent[0].answer.set_result(response(t=BAD_FACTOR))
            answer = await client.receive()
            assert [(one.name, one.error_code) for one in answer.topics] == [("t", BAD_FACTOR)]
            broker.controller.context.is_active = True
            client.close()

    run(main)


@pytest.mark.parametrize(("key_type", "topic"), [(0, GROUPS), (1, TRANSACTIONS)])
def test_find_coordinator_asks_the_controller(tmp_path: Path, key_type: int, topic: str) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            channels = in_a_cluster(broker)
            client = await connect(broker)
            client.send(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"]), 4)
            await until_async(lambda: channels.sent, "a request to the controller", every_s=0.001)
            assert names(channels.sent[0].request) == [topic]
            channels.sent[0].answer.set_result(response(**{topic: BAD_FACTOR}))
            (found,) = (await client.receive()).coordinators
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            broker.controller.context.is_active = True
            client.close()

    run(main)


def test_the_controller_itself_asks_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            channels = in_a_cluster(broker)
            broker.controller.context.is_active = True
            client = await connect(broker)
            await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
            assert broker.image.topic(GROUPS) is not None
            assert channels.sent == []
            client.close()

    run(main)


@in_loop
async def test_find_coordinator_names_the_leader_by_the_clients_listener() -> None:
    cluster = Cluster(**{GROUPS: 1})

    async def found(leader: int) -> tuple[int, int, str]:
        cluster.show(GROUPS, {0: (leader, 1)})
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        (one,) = (await cluster[FIRST].serve(find_coordinator.handle, request, 4)).coordinators
        return one.error_code, one.node_id, one.host

    assert await found(SECOND) == (0, SECOND, "host-2")
    nobody = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "")
    assert await found(-1) == nobody
    assert await found(9) == nobody
