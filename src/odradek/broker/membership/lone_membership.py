"""Membership in a cluster of one: a broker with a metadata store of its own, which is always the controller.

What the controller says goes through the same queue to the same state changes as in a cluster of several, as
objects instead of bytes. What differs from `membership` is what there is not: a session that could end,
others that lead, follow or take over.

- A change of the metadata is over when this broker has followed it (`until_told`): a topic can be used when
  its creation is answered, and is gone when its deletion is.
- A start returns when everything has been taken up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.broker.folders.adoption import adopt_topics
from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.controller_channel_manager import ControllerChannelManager
from odradek.broker.interbroker.replica_fetcher_manager import ReplicaFetcherManager
from odradek.broker.membership.control_messages import update_metadata_response
from odradek.broker.membership.restored_store import known, tell_store
from odradek.broker.membership.state_changes import StateChanges
from odradek.broker.membership.unclean_return import look_for_doubts
from odradek.cluster.loading import load_image
from odradek.util.futures import then
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.wire.messages.stop_replica import StopReplicaRequest
from odradek.wire.messages.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.event_loop.slices import Slicer
    from odradek.broker.interbroker.channel import InterBrokerChannel
    from odradek.broker.metadata.metadata_cache import MetadataCache
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.nodes import BrokerRegistration
    from odradek.cluster.store.store import MetadataStore
    from odradek.log.folders.log_manager import LogManager
    from odradek.util.clock import Clock
    from odradek.util.timers import Periodic, Timers

T = TypeVar("T")

_NEWEST_IBP = "3.9"
"""With itself a broker speaks as the newest does, whatever `inter.broker.protocol.version` is."""

_LOOK_AGAIN_MS = 5_000
_TRY_AGAIN_S = 0.01


class LoneMembership:
    """One broker's membership. Made and used in the event loop's thread.

    Attributes:
        channels: None: there are no other brokers.
        fetchers: follow nobody.
        state_changes: does what the controller says.
        is_stopped: whether `let_go` was called.
        is_told: whether the controller has told of this broker.
        on_session: never called, as there is one session.
    """

    channels: None = None

    def __init__(
        self,
        *,
        config: BrokerConfig,
        controller: KafkaController,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        logs: LogManager,
        clock: Clock,
        timers: Timers,  # noqa: ARG002 - nobody lags, and nobody else could lead
        pauses: Timers,
        slicer: Slicer,
        registration: Callable[[], BrokerRegistration],
        on_leadership: Callable[[set[str]], object],
    ) -> None:
        """See `Membership`. What is led at the start is not told: it is loaded after the start."""
        self._config = config
        self._controller = controller
        self._replicas = replicas
        self._logs = logs
        self._registration = registration
        self._on_leadership = on_leadership
        self._metadata = metadata
        self._pauses = pauses
        self.on_session: list[Callable[[], object]] = []
        self.is_stopped = False
        # What is led by then is loaded after the start (`Coordinators.load`), so that the start is quick.
        self._has_started = False
        # Empty until this broker has registered.
        self._periodic: list[Periodic] = []
        # Hands nothing over before the constructor ends: the controller says nothing until `join`.
        self._transport = _OwnTransport(self._hand_over)
        self._to_broker = ControllerChannelManager(
            self._transport, _NEWEST_IBP, pauses, config.inter_broker_listener, controller
        )
        controller.add_control_listener(self._to_broker)
        controller.add_config_listener(metadata.update_configs)
        self.fetchers = ReplicaFetcherManager(
            self._transport,
            config,
            clock,
            pauses,
            slicer,
            broker_id=config.broker_id,
            ibp=_NEWEST_IBP,
            endpoint_of=lambda _: None,
        )
        self.state_changes = StateChanges(
            broker_id=config.broker_id,
            replicas=replicas,
            logs=logs,
            metadata=metadata,
            store=lambda: controller.store,
            fetchers=self.fetchers,
            broker_epoch=lambda: controller.broker_epoch,
            on_leadership=self._tell_leadership,
            topic_id=self._topic_id,
        )

    @property
    def is_told(self) -> bool:
        """Return whether the controller has told of this broker."""
        return self._config.broker_id in self._metadata.image.brokers

    async def join(self) -> None:
        """Register, be the controller, and take everything up. Returns early once `let_go` was called.

        Raises:
            StoreError: the store cannot be read or written, or another broker has this id.
        """
        queue = self._controller.event_queue
        # The second is behind what the answers to the first requests have the controller do.
        for work in (self._start, _nothing):
            await queue.run(work)
            if self.is_stopped:
                return
        self._has_started = True
        look_again = partial(queue.post, self._controller.look_again)
        self._periodic = [self._pauses.every("controller", _LOOK_AGAIN_MS, look_again)]

    def _start(self) -> None:
        logs, store, broker_id = self._logs, self._controller.store, self._config.broker_id
        # A node that cannot be read stops the start: nobody but this broker has written it.
        if load_image(store).topics:
            # Without any, topics are made of the logs, and what these know is taken over.
            tell_store(store, broker_id, known(logs, self._replicas))
        doubts = look_for_doubts(store, broker_id, logs.stopped_cleanly, logs.offline.lacks)
        logs.offline.note_lost(doubts.lost)
        self._controller.start(self._registration())
        adopt_topics(logs, self._controller, self._config)

    def _tell_leadership(self, topics: set[str]) -> None:
        if self._has_started:
            self._on_leadership(topics)

    def _topic_id(self, topic: str) -> bytes | None:
        topic_image = self._controller.image.topics.get(topic)
        return None if topic_image is None else topic_image.topic_id

    async def until_told(self) -> None:
        """Wait until this broker has followed all that its controller has said so far."""
        await asyncio.sleep(0)
        while self._to_broker.unanswered(self._config.broker_id):
            answer = self._transport.answer
            if answer is not None and not answer.done():
                await asyncio.wait([answer])
            else:
                # Sent again after a while, where it has failed.
                await asyncio.sleep(_TRY_AGAIN_S)
            await asyncio.sleep(0)

    async def ask_until_answered(self, work: Callable[[MetadataStore], T]) -> T:
        """Ask the store, which is here.

        Raises:
            StoreError: it refuses it, or cannot be read or written.
        """
        return work(self._controller.store)

    async def leave(self, all_stop: Callable[[], bool]) -> None:
        """See `Membership.leave`: nobody else could lead."""

    def let_go(self) -> None:
        """End what goes on; nothing is unregistered. Harmless twice."""
        self.is_stopped = True
        for periodic in self._periodic:
            periodic.stop()
        self.fetchers.stop()
        self.state_changes.let_go()
        self._to_broker.stop()

    def _hand_over(self, request: Any, version: int) -> asyncio.Future[Any]:
        changes = self.state_changes
        if isinstance(request, LeaderAndIsrRequest):
            return changes.lead_or_follow(request, version)
        if isinstance(request, StopReplicaRequest):
            return changes.stop_replicas(request, version)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(request, UpdateMetadataRequest):
            outcome = changes.update_metadata(request, version)
            if isinstance(outcome, asyncio.Future):
                return then(outcome, update_metadata_response)
            future.set_result(update_metadata_response(outcome))
        else:
            future.set_exception(ChannelBroken("there is no other broker"))
        return future


class _OwnTransport:
    """An `InterBrokerTransport` of one: its channels hand requests to the broker of this process.

    Args:
        hand_over: does what a request of some version says; a future of the answer.

    Attributes:
        answer: to the last request.
    """

    def __init__(self, hand_over: Callable[[Any, int], asyncio.Future[Any]]) -> None:
        self.hand_over = hand_over
        self.answer: asyncio.Future[Any] | None = None

    def channel(self, *_: object, **__: object) -> InterBrokerChannel:
        """See `InterBrokerTransport.channel`."""
        return _OwnChannel(self)


class _OwnChannel:
    """A channel that cannot break; who asks for another broker is told that there is none."""

    def __init__(self, transport: _OwnTransport) -> None:
        self._transport = transport
        self.on_broken: Callable[[], object] | None = None

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        """See `InterBrokerChannel.send`."""
        answer = self._transport.answer = self._transport.hand_over(request, version)
        return answer

    def send_negotiated(self, request: Any, newest: int) -> asyncio.Future[Any]:
        """See `InterBrokerChannel.send_negotiated`."""
        return self.send(request, newest)

    def reset(self, reason: str) -> None:
        """See `InterBrokerChannel.reset`: there is no connection."""

    def close(self) -> None:
        """See `InterBrokerChannel.close`: there is no connection."""


def _nothing() -> None:
    """Be reached when everything before it is done."""
