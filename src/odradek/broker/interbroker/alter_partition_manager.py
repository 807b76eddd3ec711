"""A leader's wishes for its in-sync sets, brought to the controller (AlterPartition, KIP-497).

One wish of each partition, one request under way at a time, with all wishes that have come by then. What does
not reach a controller is sent again until something answers, or the wish is over. Kafka:
`AlterPartitionManager`, `Partition.handleAlterPartitionError`.

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
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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
    from odradek.replication.leadership import Leadership
    from odradek.util.clock import Clock
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

NEWEST = 3
_WITHOUT_EPOCHS = 2
_BY_NAME = 1
RETRY_S = 0.05
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


class Replicas(Protocol):
    """Finds the replicas of this broker: `ReplicaManager`."""

    def find(self, topic: str, index: int) -> Leadership | None:
        """The replica of a partition, None if there is none."""


class _Wish(NamedTuple):
    topic_id: bytes
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Of the members, as they have fetched when it was wished for: who has begun another life since may not
    have what it had."""


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
        self._is_eligible = is_eligible
        self._pause = pause
        self._wishes: dict[TopicPartition, _Wish] = {}
        self._rest_until_ms: dict[TopicPartition, float] = {}
        """Partitions whose last new member was refused: each fetch of it would have it asked for again."""
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    def want(self, partition: Leadership, isr: tuple[int, ...]) -> bool:
        """See `OnIsrWanted`: have the controller asked for this ISR, unless a new member is not live."""
        if self._stopped or not all(
            one in partition.isr or one == self._broker_id or self._is_eligible(one) for one in isr
        ):
            return False
        if len(isr) > len(partition.isr) and self._rests(partition.key):
            return False
        self._wishes[partition.key] = _Wish(
            partition.log.topic_id or ZERO_UUID,
            partition.leader_epoch,
            partition.partition_epoch,
            isr,
            tuple(map(partition.broker_epoch_of, isr)),
        )
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_all())
        return True

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
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _send_all(self) -> None:
        try:
            while self._forget_what_is_over():
                try:
                    settled = await self._send(dict(self._wishes))
                except Exception:
                    # The wishes stay, and nobody else would bring them.
                    logger.exception("in-sync replicas cannot be asked for")
                    settled = False
                if not settled:
                    await self._pause(RETRY_S)
        finally:
            self._task = None

    def _forget_what_is_over(self) -> bool:
        """Drop the wishes of leaderships and states that are over; return whether others are left."""
        for key, wish in list(self._wishes.items()):
            partition = self._replicas.find(*key)
            if partition is None or not (
                partition.is_leader
                and partition.leader_epoch == wish.leader_epoch
                and partition.partition_epoch == wish.partition_epoch
            ):
                del self._wishes[key]
        return bool(self._wishes)

    async def _send(self, wishes: dict[TopicPartition, _Wish]) -> bool:
        """Ask once; return whether everything was answered for good."""
        if self._broker_epoch() == NO_EPOCH:
            return False
        try:
            response = await self._ask(wishes)
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
        names = {wish.topic_id: key[0] for key, wish in wishes.items() if wish.topic_id != ZERO_UUID}
        settled: set[TopicPartition] = set()
        for topic in response.topics:
            for answer in topic.partitions:
                key = (names.get(topic.topic_id, topic.topic_name), answer.partition_index)
                wish = wishes.get(key)
                if wish is not None and self._settle(key, wish, answer):
                    settled.add(key)
        return settled == wishes.keys()

    async def _ask(self, wishes: dict[TopicPartition, _Wish]) -> AlterPartitionResponse:
        purpose = "alter-partition"
        if any(wish.topic_id == ZERO_UUID for wish in wishes.values()):
            request = self._request(wishes, with_epochs=False)
            answer = await self._channels.to_controller(request, _BY_NAME, purpose)
        else:
            try:
                request = self._request(wishes, with_epochs=True)
                answer = await self._channels.to_controller(request, NEWEST, purpose)
            except InvalidMessageError:
                # A controller before 3.5 knows no epochs of members, and has its own field for them.
                request = self._request(wishes, with_epochs=False)
                answer = await self._channels.to_controller(request, _WITHOUT_EPOCHS, purpose)
        assert isinstance(answer, AlterPartitionResponse)
        return answer

    def _request(self, wishes: dict[TopicPartition, _Wish], *, with_epochs: bool) -> AlterPartitionRequest:
        topics: dict[str, TopicData] = {}
        for (name, index), wish in wishes.items():
            topic = topics.setdefault(name, TopicData(topic_name=name, topic_id=wish.topic_id, partitions=[]))
            data = PartitionData(
                partition_index=index, leader_epoch=wish.leader_epoch, partition_epoch=wish.partition_epoch
            )
            if with_epochs:
                # Kafka's leaders say them with KRaft alone (KIP-903); its controllers with ZooKeeper do not
                # look at them, ours do.
                data.new_isr_with_epochs = [
                    BrokerState(broker_id=one, broker_epoch=epoch)
                    for one, epoch in zip(wish.isr, wish.broker_epochs, strict=True)
                ]
            else:
                data.new_isr = list(wish.isr)
            topic.partitions.append(data)
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _settle(self, key: TopicPartition, wish: _Wish, answer: ResponsePartitionData) -> bool:
        """Do what an answer says; return whether the wish is done with."""
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
            partition.give_isr_up(wish.leader_epoch, wish.partition_epoch)
        elif error is ErrorCode.NONE and partition.take_isr(
            answer.leader_epoch, answer.isr, answer.partition_epoch, self._clock.now_ms()
        ):
            logger.info(
                "in-sync replicas topic=%s partition=%d isr=%s partition_epoch=%d",
                *key,
                ",".join(map(str, answer.isr)),
                answer.partition_epoch,
            )
        # Last, as what fails before is asked for again; the partition may have another wish by now.
        if self._wishes.get(key) is wish:
            del self._wishes[key]
        return True
