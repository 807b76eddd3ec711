"""The controller's channels: what is sent when, again, and what the controller hears of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.controller_channel_manager import ControllerChannelManager
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage, PartitionImage, TopicImage
from odradek.cluster.nodes import BrokerRegistration, Endpoint
from odradek.errors import NotControllerError, ProtocolError
from odradek.errors.codes import ErrorCode
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaResponse
from odradek.wire.messages.update_metadata import UpdateMetadataResponse


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


def _broker(broker: int, epoch: int) -> BrokerImage:
    endpoint = Endpoint("PLAINTEXT", "h", 9000 + broker)
    return BrokerImage(broker, epoch, BrokerRegistration((endpoint,)))


TOPIC = TopicImage(
    "t", b"\x01" * 16, {0: PartitionImage((2, 1), (2, 1), 2, 0, 0), 1: PartitionImage((2,), (2,), 2, 0, 0)}
)
IMAGE = ClusterImage("c", 1, 5).apply(
    ClusterDelta(brokers={1: _broker(1, 11), 2: _broker(2, 12)}, topics={"t": TOPIC})
)


class Channel:
    def __init__(self, broker: int, endpoint: Callable[[], Endpoint | None], client_id: str) -> None:
        self.broker, self.endpoint, self.client_id = broker, endpoint, client_id
        self.sent: list[tuple[str, asyncio.Future[Any]]] = []
        self.closed = False
        self.resets = 0

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        assert not self.closed
        future = asyncio.get_running_loop().create_future()
        self.sent.append((type(request).__name__.removesuffix("Request"), future))
        return future

    def reset(self, reason: str) -> None:
        self.resets += 1

    def close(self) -> None:
        self.closed = True
        for _, future in self.sent:
            if not future.done():
                future.set_exception(ChannelBroken("closed"))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.sent]


class Transport:
    def __init__(self) -> None:
        self.channels: list[Channel] = []

    def channel(self, broker_id: int, endpoint: Any, client_id: str, timeout_ms: int) -> Any:
        self.channels.append(Channel(broker_id, endpoint, client_id))
        return self.channels[-1]

    def to(self, broker: int) -> Channel:
        """The newest channel to a broker."""
        return [one for one in self.channels if one.broker == broker][-1]


class Controller:
    """Notes what it hears; its event queue is itself."""

    broker_id = 1
    offline_replicas: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        self.event_queue = self
        self.refused: dict[int, int] = {}
        self.shutting_down: dict[int, int] = {}
        self.heard: list[Any] = []

    def post(self, work: Callable[[], object]) -> None:
        work()

    def on_broker_refused(self, broker: int, epoch: int) -> None:
        self.heard.append(("refused", broker, epoch))

    def give_way(self, broker: int, epoch: int) -> None:
        self.heard.append(("give way", broker, epoch))

    def on_broker_reachable(self, broker: int) -> None:
        self.heard.append(("reachable", broker))

    def note_offline(self, broker: int, partitions: Any, *, broker_epoch: int) -> None:
        self.heard.append(("offline", broker, partitions, broker_epoch))

    def note_deleted(self, broker: int, partitions: Any) -> None:
        self.heard.append(("deleted", broker, partitions))
        raise NotControllerError

    def look_again(self) -> None:
        self.heard.append("look again")


class World:
    def __init__(self, **more: Any) -> None:
        self.transport, self.controller = Transport(), Controller()
        self.timers = ManualTimers(ManualClock())
        manager: Any = ControllerChannelManager
        self.manager: ControllerChannelManager = manager(
            self.transport, "3.9", self.timers, "PLAINTEXT", self.controller, **more
        )

    async def answer(self, broker: int, response: Any) -> None:
        """The newest request to a broker is answered, or fails."""
        future = self.transport.to(broker).sent[-1][1]
        if isinstance(response, Exception):
            future.set_exception(response)
        else:
            future.set_result(response)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@in_a_loop
async def test_requests_go_one_after_the_other_and_answers_are_reported() -> None:
    world = World()
    world.manager.on_image(IMAGE, ClusterDelta())
    assert world.transport.channels == []
    world.manager.start(IMAGE)
    channel = world.transport.to(2)
    assert (channel.client_id, channel.endpoint()) == ("broker-1-watch", Endpoint("PLAINTEXT", "h", 9002))
    assert channel.names == ["UpdateMetadata"]
    assert world.transport.to(1).names == ["UpdateMetadata"]
    await world.answer(2, UpdateMetadataResponse())
    assert channel.names == ["UpdateMetadata", "LeaderAndIsr"]
    errors = [
        LeaderAndIsrPartitionError(partition_index=0, error_code=int(ErrorCode.KAFKA_STORAGE_ERROR)),
        LeaderAndIsrPartitionError(partition_index=1, error_code=int(ErrorCode.STALE_CONTROLLER_EPOCH)),
    ]
    topics = [LeaderAndIsrTopicError(topic_id=TOPIC.topic_id, partition_errors=errors)]
    await world.answer(2, LeaderAndIsrResponse(topics=topics))
    epoch = IMAGE.brokers[2].epoch
    assert world.controller.heard == [("offline", 2, [("t", 0)], epoch)]
    await world.answer(2, UpdateMetadataResponse(error_code=int(ErrorCode.STALE_CONTROLLER_EPOCH)))
    assert world.controller.heard[1:] == ["look again"]
    assert world.manager.unanswered(2) == 0
    world.manager.resend(2)
    assert channel.names[3:] == ["LeaderAndIsr"]


@in_a_loop
async def test_what_was_deleted_is_what_was_answered_without_an_error() -> None:
    world = World()
    world.manager.start(IMAGE)
    marked = ClusterDelta(topics_marked=frozenset({"t"}))
    world.manager.on_image(IMAGE.apply(marked), marked)
    while world.transport.to(2).names[-1] != "StopReplica":
        response: Any = LeaderAndIsrResponse if world.transport.to(2).names[-1] == "LeaderAndIsr" else None
        await world.answer(2, (response or UpdateMetadataResponse)())
    errors = [
        StopReplicaPartitionError(topic_name="t", partition_index=0, error_code=0),
        StopReplicaPartitionError(topic_name="t", partition_index=1, error_code=56),
    ]
    await world.answer(2, StopReplicaResponse(partition_errors=errors))
    assert world.controller.heard == [("deleted", 2, {("t", 0)})]


@in_a_loop
async def test_a_broken_channel_is_tried_again_after_a_pause() -> None:
    world = World()
    world.manager.start(IMAGE)
    await world.answer(2, ChannelBroken("broke"))
    channel = world.transport.to(2)
    world.manager.on_image(IMAGE, ClusterDelta())
    assert len(channel.sent) == 1
    world.timers.advance(100)
    assert channel.names == ["UpdateMetadata", "UpdateMetadata"]
    await world.answer(2, ProtocolError("nonsense"))
    assert channel.resets == 1
    world.timers.advance(100)
    assert len(channel.sent) == 3
    assert world.controller.heard == []


@in_a_loop
async def test_a_look_and_a_request_that_break_together_are_one_pause() -> None:
    world = World()
    world.manager.start(IMAGE)
    for response in (UpdateMetadataResponse(), LeaderAndIsrResponse(), UpdateMetadataResponse()):
        await world.answer(2, response)
    assert world.manager.unanswered(2) == 0
    channel: Any = world.transport.to(2)
    channel.on_broken()
    world.manager.resend(2)
    assert channel.names[3:] == ["ApiVersions", "LeaderAndIsr"]
    for _, future in channel.sent[3:]:
        future.set_exception(ChannelBroken("hung up"))
    await asyncio.sleep(0)
    world.timers.advance(100)
    assert channel.names[5:] == ["LeaderAndIsr"]
    world.manager.stop()
    assert world.timers.pending == 0


@in_a_loop
async def test_another_epoch_and_the_end_of_a_term_drop_what_was_under_way() -> None:
    world = World()
    world.manager.start(IMAGE)
    old = world.transport.to(2)
    again = ClusterDelta(brokers={2: _broker(2, 99)})
    world.manager.on_image(IMAGE.apply(again), again)
    assert old.closed
    new = world.transport.to(2)
    assert new is not old
    assert new.names == ["UpdateMetadata"]
    await asyncio.sleep(0)
    world.manager.stop()
    assert all(channel.closed for channel in world.transport.channels)
    await asyncio.sleep(0)
    assert world.timers.pending == 0
    assert world.controller.heard == []
    world.manager.resend(2)
    assert len(new.sent) == 1


@in_a_loop
async def test_a_refused_broker_is_reported_and_tried_until_it_is_reached() -> None:
    world = World()
    world.manager.start(IMAGE)
    await world.answer(2, ChannelBroken("refused", refused=True))
    assert world.controller.heard == [("refused", 2, 12)]
    # The controller has not come to it yet.
    world.timers.advance(100)
    await world.answer(2, ChannelBroken("refused", refused=True))
    assert world.controller.heard == [("refused", 2, 12)]
    world.controller.refused[2] = 12
    gone = ClusterDelta(brokers_gone=frozenset({2}))
    world.manager.on_image(IMAGE.apply(gone), gone)
    world.timers.advance(1000)
    probe = world.transport.to(2)
    assert probe.endpoint() == Endpoint("PLAINTEXT", "h", 9002)
    assert probe.names == ["ApiVersions"]
    await world.answer(2, ChannelBroken("refused", refused=True))
    world.timers.advance(1000)
    await world.answer(2, object())
    assert world.controller.heard[1:] == [("reachable", 2)]
    assert probe.closed
    world.timers.advance(5000)
    assert len(probe.sent) == 2


@in_a_loop
async def test_a_broker_that_is_reached_before_it_was_given_up_is_reported_after_that() -> None:
    world = World()
    world.manager.start(IMAGE)
    await world.answer(2, ChannelBroken("refused", refused=True))
    world.timers.advance(100)
    await world.answer(2, UpdateMetadataResponse())
    assert world.controller.heard == [("refused", 2, 12), ("reachable", 2)]


@in_a_loop
async def test_a_broker_that_a_term_begins_without_is_tried_until_it_is_reached() -> None:
    world = World()
    gone = ClusterDelta(brokers_gone=frozenset({2}))
    world.controller.refused[2] = 12
    world.manager.start(IMAGE.apply(gone))
    world.manager.await_return(_broker(2, 12))
    world.timers.advance(1000)
    probe = world.transport.to(2)
    assert probe.endpoint() == Endpoint("PLAINTEXT", "h", 9002)
    await world.answer(2, ChannelBroken("refused", refused=True))
    world.timers.advance(1000)
    await world.answer(2, object())
    assert world.controller.heard == [("reachable", 2)]
    assert probe.closed


@in_a_loop
async def test_a_refused_broker_whose_registration_goes_is_not_tried_any_more() -> None:
    world = World()
    world.manager.start(IMAGE)
    await world.answer(2, ChannelBroken("refused", refused=True))
    gone = ClusterDelta(brokers_gone=frozenset({2}))
    world.manager.on_image(IMAGE.apply(gone), gone)
    world.timers.advance(5000)
    assert world.transport.to(2).names == ["UpdateMetadata"]
    assert world.timers.pending == 0


@in_a_loop
async def test_an_answer_that_cannot_be_taken_is_followed_by_the_next_request() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    world = World()
    world.manager.start(IMAGE)
    channel = world.transport.to(2)
    waiting = world.manager.unanswered(2)
    assert waiting > 1
    await world.answer(2, object())
    assert len(channel.sent) == 2
    assert world.manager.unanswered(2) == waiting - 1


@in_a_loop
async def test_a_broker_that_refuses_and_that_others_reach_is_tried_again_and_not_reported() -> None:
    asked: list[tuple[int, Callable[[bool], object]]] = []
    world = World(ask=lambda broker, then: asked.append((broker, then)))
    world.manager.start(IMAGE)
    await world.answer(2, ChannelBroken("refused", refused=True))
    ((broker, then),) = asked
    assert broker == 2
    assert world.controller.heard == []
    then(True)
    assert world.controller.heard == []
    world.timers.advance(100)
    assert world.transport.to(2).names == ["UpdateMetadata"] * 2
    await world.answer(2, ChannelBroken("refused", refused=True))
    asked[1][1](True)
    assert world.controller.heard == [("give way", 2, IMAGE.brokers[2].epoch)]
    world.timers.advance(100)
    await world.answer(2, ChannelBroken("refused", refused=True))
    asked[2][1](False)
    assert world.controller.heard[1:] == [("refused", 2, IMAGE.brokers[2].epoch)]


@in_a_loop
async def test_what_was_asked_in_an_earlier_term_counts_for_nothing_and_holds_up_nothing() -> None:
    asked: list[Callable[[bool], object]] = []
    world = World(ask=lambda broker, then: asked.append(then))
    world.manager.start(IMAGE)
    await world.answer(2, ChannelBroken("refused", refused=True))
    world.manager.start(IMAGE)
    await world.answer(2, ChannelBroken("refused", refused=True))
    for then in asked[:1]:
        then(False)
    assert world.controller.heard == []
    world.timers.advance(100)
    assert world.transport.to(2).names == ["UpdateMetadata"] * 2
    world.manager.stop()
    asked[1](False)
    assert world.controller.heard == []
