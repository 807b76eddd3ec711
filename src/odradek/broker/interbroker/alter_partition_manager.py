"""A leader's wishes for its in-sync sets, brought to the controller (AlterPartition, KIP-497).

A request has all wishes that have come by then (`UnsentIsrUpdates`). What does not reach a controller is sent
again until something answers, or the wish is over. Kafka: `DefaultAlterPartitionManager`,
`Partition.handleAlterPartitionError`.

| the controller answers | what becomes of the wish |
|---|---|
| the partition's state | `Leadership.take_isr` |
| INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED | it was not and will not be granted: `Leadership.give_isr_up` |
| one of `AWAIT_LEADER_AND_ISR` | the controller knows more than this leader: LeaderAndIsr will tell |
| anything else, for one or for all | it may have been granted or not: sent again |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.interbroker.unsent_isr_updates import UnsentIsrUpdates
from odradek.errors import OdradekError
from odradek.errors.codes import ErrorCode, error_name, to_code
from odradek.util.repeats import Repeats
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.errors import InvalidMessageError
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.interbroker.unsent_isr_updates import AlterPartitionItem, Replicas
    from odradek.replication.leadership import Leadership
    from odradek.util.clock import Clock
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

NEWEST = 3
_WITHOUT_EPOCHS = 2
_BY_NAME = 1
REFUSED_REST_MS = 100
"""So long after INELIGIBLE_REPLICA no new member of a partition is asked for: a broker that is leaving
fetches until it has gone."""

NEVER_GRANTED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The controller's state is the one that the wish was made in, and has not been changed."""

AWAIT_LEADER_AND_ISR = frozenset(
    {
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    }
)
"""The controller knows more than this leader, and will tell; until then the larger of both sets counts."""


class ControllerChannel(Protocol):
    """The way to the controller: `interbroker.channels.InterBrokerChannels`."""

    async def to_controller(self, request: Any, newest: int, purpose: str) -> Any:
        """See `InterBrokerChannels.to_controller`."""


class AlterPartitionManager:
    """Asks the controller for other in-sync sets. Used in the event loop's thread."""

    def __init__(
        self,
        *,
        broker_id: int,
        channels: ControllerChannel,
        replicas: Replicas,
        clock: Clock,
        broker_epoch: Callable[[], int],
        is_eligible: Callable[[int], bool],
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """
        Args:
            broker_id: this broker.
            channels: the way to the controller.
            replicas: those that take what the controller answers.
            clock: time.
            broker_epoch: of this broker's registration; -1 while it has none, and nothing is sent.
            is_eligible: whether a broker may be in an ISR: it is live as far as this broker knows.
            pause: waits so many seconds before something is sent again.
        """
        self._broker_id = broker_id
        self._channels = channels
        self._replicas = replicas
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._updates = UnsentIsrUpdates(broker_id, replicas, is_eligible, self._send, pause)
        self._rest_until_ms: dict[TopicPartition, float] = {}
        """Partitions whose last new member was refused: each fetch of it would have it asked for again."""

    def want(self, partition: Leadership, isr: tuple[int, ...]) -> bool:
        """See `OnIsrWanted`: have the controller asked for this ISR, unless a new member is not live."""
        if len(isr) > len(partition.isr) and self._rests(partition.key):
            return False
        return self._updates.add(partition, isr)

    def _rests(self, key: TopicPartition) -> bool:
        until_ms = self._rest_until_ms.get(key)
        if until_ms is None:
            return False
        if self._clock.monotonic_ms() < until_ms:
            return True
        del self._rest_until_ms[key]
        return False

    def stop(self) -> None:
        """Ask for nothing more."""
        self._updates.stop()

    async def _send(self) -> bool:
        """Ask once for everything; return whether all of it was answered for good."""
        updates = self._updates
        items = {key: item for key, item in list(updates.items.items()) if updates.partition_of(key, item)}
        if not items:
            return True
        if self._broker_epoch() == NO_EPOCH:
            return False
        try:
            response = await self._ask(items)
        except OdradekError as error:
            repeats.log(logging.INFO, None, "the controller is not reached for in-sync replicas: %s", error)
            return False
        if response.error_code:
            repeats.log(
                logging.INFO,
                None,
                "the controller refuses to change in-sync replicas: %s",
                error_name(response.error_code),
            )
            return False
        names = {item.topic_id: key[0] for key, item in items.items() if item.topic_id != ZERO_UUID}
        settled: set[TopicPartition] = set()
        for topic in response.topics:
            for answer in topic.partitions:
                key = (names.get(topic.topic_id, topic.topic_name), answer.partition_index)
                item = items.get(key)
                if item is not None and self._settle(key, item, answer):
                    settled.add(key)
        return settled == items.keys()

    async def _ask(self, items: dict[TopicPartition, AlterPartitionItem]) -> AlterPartitionResponse:
        purpose = "alter-partition"
        if any(item.topic_id == ZERO_UUID for item in items.values()):
            request = self._request(items, with_epochs=False)
            answer = await self._channels.to_controller(request, _BY_NAME, purpose)
        else:
            try:
                request = self._request(items, with_epochs=True)
                answer = await self._channels.to_controller(request, NEWEST, purpose)
            except InvalidMessageError:
                # A controller before 3.5 knows no epochs of members, and has its own field for them.
                request = self._request(items, with_epochs=False)
                answer = await self._channels.to_controller(request, _WITHOUT_EPOCHS, purpose)
        assert isinstance(answer, AlterPartitionResponse)
        return answer

    def _request(
        self, items: dict[TopicPartition, AlterPartitionItem], *, with_epochs: bool
    ) -> AlterPartitionRequest:
        topics: dict[str, TopicData] = {}
        for (name, index), item in items.items():
            topic = topics.setdefault(name, TopicData(topic_name=name, topic_id=item.topic_id, partitions=[]))
            data = PartitionData(
                partition_index=index, leader_epoch=item.leader_epoch, partition_epoch=item.partition_epoch
            )
            if with_epochs:
                # Kafka's leaders say them with KRaft alone (KIP-903); its controllers with ZooKeeper do not
                # look at them, ours do.
                data.new_isr_with_epochs = [
                    BrokerState(broker_id=broker_id, broker_epoch=epoch)
                    for broker_id, epoch in zip(item.isr, item.broker_epochs, strict=True)
                ]
            else:
                data.new_isr = list(item.isr)
            topic.partitions.append(data)
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _settle(self, key: TopicPartition, item: AlterPartitionItem, answer: ResponsePartitionData) -> bool:
        """Do what an answer says; return whether the item is done with."""
        error = to_code(answer.error_code)
        if error is not ErrorCode.NONE:
            repeats.log(
                logging.INFO,
                (*key, error),
                "in-sync replicas not changed topic=%s partition=%d error=%s",
                *key,
                error.name,
            )
            if error not in NEVER_GRANTED and error not in AWAIT_LEADER_AND_ISR:
                return False
        partition = self._replicas.find(*key)
        if partition is None:
            pass
        elif error in NEVER_GRANTED:
            # A later fetch, or the next look for laggards, asks again.
            self._rest_until_ms[key] = self._clock.monotonic_ms() + REFUSED_REST_MS
            partition.give_isr_up(item.leader_epoch, item.partition_epoch)
        elif error is ErrorCode.NONE and partition.take_isr(
            answer.leader_epoch, answer.isr, answer.partition_epoch, self._clock.now_ms()
        ):
            logger.info(
                "in-sync replicas topic=%s partition=%d isr=%s partition_epoch=%d",
                *key,
                ",".join(map(str, answer.isr)),
                answer.partition_epoch,
            )
        # Last, as what fails before is asked for again.
        self._updates.settle(key, item)
        return True
