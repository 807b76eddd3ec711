# compiled: mypyc
"""The fetchers of a broker: who copies what from whom, and when.

There are `num.replica.fetchers` fetchers for each leader, each with a channel of its own and one request
under way; a partition always goes to the same one of them. What is asked, and what becomes of an answer, is
decided in `odradek.replication.replica_fetcher`. Kafka: `ReplicaFetcherManager`, `ReplicaFetcherThread`.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.broker.requests.between_brokers import client_id_of
from odradek.replication.replica_fetcher import FetchLimits, ReplicaFetcher
from odradek.util.futures import error_of
from odradek.util.repeats import Repeats
from odradek.wire.api import ApiKey
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.event_loop.slices import Slicer
    from odradek.broker.interbroker.channel import InterBrokerChannel, InterBrokerTransport
    from odradek.cluster.nodes import Endpoint
    from odradek.replication.fetched_replica import Replica
    from odradek.replication.replication_quota import ReplicationQuota
    from odradek.util.clock import Clock
    from odradek.util.timers import TimerHandle, Timers
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

MAX_ASKED_ANEW = 1_000
"""A fetcher of more partitions than this lets a newcomer wait for the end of the fetch under way, as Kafka's
do: to name them all once more costs the leader more than the newcomer gains."""

FetcherKey = tuple[int, int]
"""The leader's broker id, and which one of its fetchers."""


class Assignment(NamedTuple):
    """A partition that is to be followed.

    Attributes:
        replica: the partition, which follows already (`make_follower`).
        leader_id: whom it follows; -1 for nobody.
        leader_epoch: of that leader.
        topic_id: 16 bytes, zeros where the topic has none.
    """

    replica: Replica
    leader_id: int
    leader_epoch: int
    topic_id: bytes = ZERO_UUID


def fetcher_number(key: TopicPartition, count: int) -> int:
    """Return which of a leader's `count` fetchers copies a partition.

    Neighbours go to different fetchers, as by Kafka's `AbstractFetcherManager.getFetcherId`. Not by Python's
    hash of the topic, which is another one in each process.
    """
    topic, index = key
    return (31 * zlib.crc32(topic.encode()) + index) % count


class _Running:
    """One fetcher with its channel: it sends, waits, and takes what comes."""

    def __init__(
        self,
        fetcher: ReplicaFetcher,
        channel: InterBrokerChannel,
        clock: Clock,
        timers: Timers,
        slicer: Slicer,
    ) -> None:
        self.fetcher = fetcher
        self._channel = channel
        self._clock = clock
        self._timers = timers
        self._slicer = slicer
        self._timer: TimerHandle | None = None
        """Wakes it after a pause; only while nothing is under way."""
        self._is_busy = False
        """Whether a request is under way, or its answer is being taken: no other is sent then."""
        self._stopped = False
        self._fetch: asyncio.Future[Any] | None = None
        """The fetch under way; None while something else is, such as a question about leader epochs."""
        self._gives_up = False
        """Whether the channel is reset on purpose: that is no failure, and there is no pause after it."""

    def hurry(self) -> None:
        """Wake for new partitions; a fetch that waits at the leader is given up, as it does not name them."""
        # A new partition is not in the fetch that waits at the leader, and acks=all waits for this follower.
        fetch = self._fetch
        if fetch is None or fetch.done() or self._stopped or len(self.fetcher) > MAX_ASKED_ANEW:
            self.wake()
            return
        self._gives_up = True
        self._channel.reset("there are more partitions to fetch")

    def wake(self) -> None:
        """Send what is to be sent, unless a request is under way."""
        if self._is_busy or self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._clock.monotonic_ms()
        request = self.fetcher.next_request(now_ms)
        if request is None:
            # At least a millisecond, or a wait of nothing would become a busy loop.
            wait_ms = self.fetcher.wait_ms(now_ms)
            if wait_ms is not None:
                self._timer = self._timers.call_later(max(1.0, wait_ms), self.wake)
            return
        self._is_busy = True
        answer = self._channel.send(request.message, request.version)
        self._fetch = answer if request.message.API_KEY == ApiKey.FETCH else None
        answer.add_done_callback(self._arrived)

    def stop(self) -> None:
        """Send nothing any more, and take nothing, not even the rest of an answer that is being taken."""
        self._stopped = True
        # Its steps go on in the slicer. The broker closes its logs after this, and says what they hold: a log
        # that is cut or grows afterwards is damaged to the next start.
        self.fetcher.remove_all()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._channel.close()

    def _arrived(self, answered: asyncio.Future[Any]) -> None:
        self._fetch = None
        gives_up, self._gives_up = self._gives_up, False
        error = error_of(answered)
        if self._stopped:
            return
        # With an answer it had come before the reset.
        if gives_up and error is not None:
            self.fetcher.given_up()
            self._is_busy = False
            self.wake()
            return
        if error is not None:
            self._go_on(error)
            return
        steps = self.fetcher.take(answered.result(), self._clock.now_ms(), self._clock.monotonic_ms())
        # Nothing is asked before all is taken: the next fetch says from where, and so what is here.
        try:
            outcome = self._slicer.run(steps)
        except Exception as failure:
            self._go_on(failure)
            return
        if isinstance(outcome, asyncio.Future):
            outcome.add_done_callback(self._taken)
        else:
            self._go_on(None)

    def _taken(self, done: asyncio.Future[None]) -> None:
        self._go_on(error_of(done))

    def _go_on(self, error: BaseException | None) -> None:
        self._is_busy = False
        if self._stopped:
            return
        if error is not None:
            leader_id = self.fetcher.leader_id
            repeats.log(
                logging.WARNING,
                (leader_id, type(error).__name__),
                "the fetch from broker %d came to nothing: %s: %s",
                leader_id,
                type(error).__name__,
                error,
            )
            self.fetcher.broken(self._clock.monotonic_ms())
        self.wake()


class ReplicaFetcherManager:
    """See the module's docstring. Used in the event loop's thread."""

    def __init__(
        self,
        transport: InterBrokerTransport,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        slicer: Slicer,
        *,
        broker_id: int,
        ibp: str,
        endpoint_of: Callable[[int], Endpoint | None],
        broker_epoch: Callable[[], int] = lambda: -1,
        quota: ReplicationQuota | None = None,
        on_copied: Callable[[TopicPartition, int], object] | None = None,
    ) -> None:
        """
        Args:
            transport: makes the channels.
            config: `num.replica.fetchers`, `replica.fetch.*`, `replica.socket.timeout.ms`.
            clock, timers: for pauses.
            slicer: takes long answers in slices.
            broker_id: this broker.
            ibp: `inter.broker.protocol.version`.
            endpoint_of: where a broker is now, by the listener that brokers use among themselves.
            broker_epoch: of this broker; -1 while it is not registered.
            quota: the throttle of all that is copied; None for none.
            on_copied: told how many bytes of a partition have come.
        """
        self._transport = transport
        self._clock = clock
        self._timers = timers
        self._slicer = slicer
        self._broker_id = broker_id
        self._ibp = ibp
        self._endpoint_of = endpoint_of
        self._broker_epoch = broker_epoch
        self._last_broker_epoch = NO_EPOCH
        self._quota = quota
        self._on_copied = on_copied
        self._count = max(1, config.num_replica_fetchers)
        self._timeout_ms = config.replica_socket_timeout_ms
        self._limits = FetchLimits(
            max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            wait_max_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            backoff_ms=config.replica_fetch_backoff_ms,
        )
        self._running: dict[FetcherKey, _Running] = {}
        self._where: dict[TopicPartition, FetcherKey] = {}
        """Which fetcher follows a partition: at most one does, and it is in `_running`."""
        self._stopped = False

    def __len__(self) -> int:
        """Return the number of fetchers."""
        return len(self._running)

    def add(self, assignments: Iterable[Assignment]) -> None:
        """Follow partitions from now on; those followed elsewhere move. The same epoch again is no change."""
        if self._stopped:
            return
        touched: dict[FetcherKey, None] = {}
        for replica, leader_id, leader_epoch, topic_id in assignments:
            key = replica.key
            at = (leader_id, fetcher_number(key, self._count))
            before = self._where.get(key)
            # The same fetcher takes the new epoch itself.
            if before is not None and (before != at or leader_id < 0):
                self.remove([key])
            if leader_id < 0 or leader_id == self._broker_id:
                continue
            running = self._running.get(at) or self._start(at)
            running.fetcher.add(replica, leader_epoch, topic_id)
            self._where[key] = at
            touched[at] = None
        # Once for all: each hurry gives up a fetch.
        for at in touched:
            self._running[at].hurry()

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        """Follow partitions no more; what is under way for them counts no more. `add` may follow."""
        for key in keys:
            at = self._where.pop(key, None)
            if at is not None:
                self._running[at].fetcher.remove(key)

    def shutdown_idle_fetchers(self) -> None:
        """Stop the fetchers that have nothing to follow; called when a LeaderAndIsr has been worked on."""
        for at, running in list(self._running.items()):
            if not len(running.fetcher):
                running.stop()
                del self._running[at]

    def resize(self, count: int) -> None:
        """Share the partitions out anew among `count` fetchers for each leader (`num.replica.fetchers`)."""
        if count == self._count or count < 1:
            return
        self._count = count
        # Read off before any is moved.
        again = [
            Assignment(followed.replica, at[0], followed.leader_epoch, followed.topic_id)
            for at, running in self._running.items()
            for followed in running.fetcher.followed
        ]
        self.add(again)
        self.shutdown_idle_fetchers()

    def stop(self) -> None:
        """Stop all fetchers for good."""
        self._stopped = True
        for running in self._running.values():
            running.stop()
        self._running.clear()
        self._where.clear()

    # ------------------------------------------------------------------ gauges

    @property
    def max_lag(self) -> int:
        """Kafka's `ReplicaFetcherManager,name=MaxLag`: records that a partition is behind its leader."""
        return max((running.fetcher.max_lag for running in self._running.values()), default=0)

    @property
    def failed_partitions_count(self) -> int:
        """Kafka's `FailedPartitionsCount`: partitions that wait for a newer leader epoch."""
        return sum(running.fetcher.failed_count for running in self._running.values())

    def lags(self) -> Iterator[tuple[TopicPartition, int]]:
        """Kafka's `FetcherLagMetrics,name=ConsumerLag` of each partition that has been fetched."""
        for running in self._running.values():
            for followed in running.fetcher.followed:
                if followed.lag is not None:
                    yield followed.replica.key, followed.lag

    def _epoch_of_last_registration(self) -> int:
        # Also after the end of the session: without an epoch a leader would take what is here for what
        # another broker has that has taken this id (docs/decisions/lives-of-replicas-in-sync.md).
        broker_epoch = self._broker_epoch()
        if broker_epoch != NO_EPOCH:
            self._last_broker_epoch = broker_epoch
        return self._last_broker_epoch

    def _start(self, at: FetcherKey) -> _Running:
        leader_id, number = at
        fetcher = ReplicaFetcher(
            self._broker_id,
            leader_id,
            self._ibp,
            self._limits,
            broker_epoch=self._epoch_of_last_registration,
            quota=self._quota,
            on_copied=self._on_copied,
        )
        channel = self._transport.channel(
            leader_id,
            lambda: self._endpoint_of(leader_id),
            client_id=client_id_of(self._broker_id, f"fetcher-{number}"),
            timeout_ms=self._timeout_ms,
        )
        running = _Running(fetcher, channel, self._clock, self._timers, self._slicer)
        self._running[at] = running
        return running
