"""The cluster as one client sees it: metadata kept fresh, connections made when needed and made again.

Everything runs in one event loop. Brokers are tried in turn: open connections first, then the brokers last
heard of, then the bootstrap servers, so that a cluster that came back under other addresses is found again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from odradek.client.aio.connection import Connection, connect
from odradek.client.aio.first_answer import NobodyAnswered, by_promise, first_answer
from odradek.client.config import CommonConfig
from odradek.client.core.backoff import Backoff
from odradek.client.core.handshake import known_brokers
from odradek.client.core.metadata import (
    CREATION_FROM,
    LOOKS_BEFORE_GONE,
    MetadataCache,
    asks_for_all,
    metadata_topics,
)
from odradek.client.core.outages import (
    ORDINARY_MS,
    Outages,
    unreachable,
    without_address,
)
from odradek.client.core.silence import SILENCE_MS
from odradek.client.core.stuck_partitions import StuckPartitions
from odradek.client.core.traffic import Traffic
from odradek.client.core.versions import NodeVersions
from odradek.client.errors import (
    AuthenticationError,
    ClientTimeoutError,
    ClosedError,
    ConnectionFailedError,
    IllegalArgumentError,
    IllegalStateError,
    NoBrokersAvailableError,
)
from odradek.client.types import Node, TopicPartition
from odradek.errors import ErrorCode, KafkaError, NetworkError, OdradekError, error_for
from odradek.util.futures import error_of
from odradek.wire.api import ApiKey

logger = logging.getLogger("odradek.client")

ConnectionKey = tuple[int, str]

_NO_METADATA = "the cluster's metadata cannot be had"
"""Names the outage in the log."""


def check_loop(cluster: Cluster) -> None:
    """Check that the event loop is the one in which the client was begun: its answers come nowhere else.

    Raises:
        IllegalStateError: it is another loop; a process that was forked has another, too.
    """
    if asyncio.get_running_loop() is not cluster.loop:
        raise IllegalStateError(
            "the client belongs to the event loop in which it was begun, and this is another one: make a "
            "client for each loop"
        )


class Cluster:
    """Connections and metadata of one client.

    Args:
        config: the client's.
        all_topics: keep the metadata of all topics, not only of wanted ones.
        allow_auto_create: let metadata requests create missing topics where the broker does that.
        may_wait_ms: how long a broker may hold an answer back because this client asks it to (a long fetch).

    Attributes:
        metadata: as of the newest answer, and the leaders that other answers have named since (KIP-951).
        on_update: each is called when an answer to Metadata has been taken in.
        last_failure: why no broker could be reached, or none tells metadata; None since metadata came.
        outages, stuck: what is told in the log, of brokers and of partitions.
        closed: nothing is sent or connected any more.
    """

    def __init__(
        self,
        config: CommonConfig,
        *,
        all_topics: bool = False,
        allow_auto_create: bool = True,
        may_wait_ms: float = 0.0,
    ) -> None:
        self.config = config
        self.metadata = MetadataCache()
        self.all_topics = all_topics
        self.closed = False
        self.on_update: list[Callable[[], None]] = []
        self.last_failure: Exception | None = None
        self.outages = Outages(config.client_id)
        self.stuck = StuckPartitions(config.client_id)
        self._allow_auto_create = allow_auto_create
        self._patience_ms = may_wait_ms + SILENCE_MS
        # Topic → when it was wanted last, monotonic ms; `drop_unused` goes by it.
        self._wanted: dict[str, float] = {}
        self.loop = asyncio.get_running_loop()
        # Of the connections that are closed.
        self._traffic_before = Traffic()
        # By broker and purpose. One that closes takes itself out (`_connection_closed`).
        self._connections: dict[ConnectionKey, Connection] = {}
        # One try at most for each key: all who want the connection wait for the same try.
        self._connecting: dict[ConnectionKey, asyncio.Task[Connection]] = {}
        # Tries that failed in a row, and the end of the pause after the last (KIP-144); gone with a success.
        self._failures: dict[ConnectionKey, int] = {}
        self._not_before: dict[ConnectionKey, float] = {}
        self._backoff = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        # A try gets longer the more of them have failed (KIP-601).
        self._setup_timeout = Backoff(
            config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms
        )
        self._retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        # Metadata is asked for by one task at most. `_refresh_again`: an update was requested while the task
        # was under way; its question may have left before what the caller wants to know.
        self._refresh: asyncio.Task[None] | None = None
        self._refresh_again = False
        # How often metadata has been asked for: by it `wait_update` tells whether an answer is new enough.
        self._questions = 0
        # Each gets the number of the question that was answered.
        self._update_waiters: list[asyncio.Future[int]] = []
        # Requests an update when the metadata has become old (`metadata.max.age.ms`); armed when none runs.
        self._age_timer: asyncio.TimerHandle | None = None
        # Referred to here, as the loop itself holds its tasks only weakly.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._known_brokers = known_brokers(config)

    def now_ms(self) -> float:
        """Monotonic milliseconds, the loop's."""
        return self.loop.time() * 1000

    # Connections

    def address_of(self, node_id: int) -> Node | None:
        """Return a broker's address; bootstrap servers have the ids -1, -2, …, as in Kafka's client."""
        if node_id < 0:
            servers = self.config.bootstrap_servers
            host, port = servers[-1 - node_id]
            return Node(node_id, host, port)
        return self.metadata.brokers.get(node_id)

    def open_connection(self, node_id: int, purpose: str = "") -> Connection | None:
        """Return the connection to a broker if it is open."""
        connection = self._connections.get((node_id, purpose))
        return connection if connection is not None and not connection.closed else None

    def versions(self) -> list[NodeVersions | None]:
        """Return the versions of the brokers of the open connections."""
        return [connection.state.versions for connection in list(self._connections.values())]

    def backoff_left_ms(self, node_id: int, purpose: str = "") -> float:
        """Return how long until the next try to connect to a broker that could not be reached; 0: now."""
        return max(0.0, self._not_before.get((node_id, purpose), 0.0) - self.now_ms())

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """Return a connection to a broker, made if there is none.

        Args:
            purpose: distinguishes connections to the same broker, so that what waits on one (a long fetch)
                does not hold up the other (heartbeats).

        Raises:
            ConnectionFailedError: it cannot be made; at once, without a try, while the broker's backoff runs.
        """
        existing = self.open_connection(node_id, purpose)
        if existing is not None:
            return existing
        key = (node_id, purpose)
        task = self._connecting.get(key)
        if task is None:
            if self.closed:
                raise ClosedError("the client was closed")
            if self.backoff_left_ms(node_id, purpose) > 0:
                raise ConnectionFailedError(f"broker {node_id} was not reachable a moment ago")
            task = self._connecting[key] = self.loop.create_task(self._connect(key))
            # A caller that waits hears of an error; if all have given up, asyncio must not complain of it.
            task.add_done_callback(error_of)
        # A caller that gives up waiting must not end the try for the others.
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # `close` cancels the try; that does not cancel the caller, unless it was cancelled itself.
            current = asyncio.current_task()
            if task.cancelled() and self.closed and not (current is not None and current.cancelling()):
                raise ClosedError("the client was closed meanwhile") from None
            raise

    async def _connect(self, key: ConnectionKey) -> Connection:
        try:
            node = self.address_of(key[0])
            if node is None:
                # A leader that an answer named may be younger than the metadata.
                self.request_update()
                raise ConnectionFailedError(f"broker {key[0]} is not in the cluster's metadata")
            failures = self._failures.get(key, 0)
            timeout = self._setup_timeout.delay_ms(failures + 1)
            try:
                connection = await connect(
                    node.host, node.port, self.config, timeout, self._known_brokers, self.outages
                )
            except OdradekError as problem:
                self._failures[key] = failures + 1
                self._not_before[key] = self.now_ms() + self._backoff.delay_ms(failures + 1)
                self.last_failure = problem
                address = f"{node.host}:{node.port}"
                self.outages.failed(unreachable(address), without_address(problem, address), self.now_ms())
                # The broker may have another address by now. Of a bootstrap server metadata would not tell.
                if key[0] >= 0:
                    self.request_update()
                raise
            self.outages.ended(unreachable(connection.address), self.now_ms())
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
            adopted = self.open_connection(*key)
            if adopted is not None:
                # A bootstrap connection turned out to be to this broker while this one was being made.
                connection.close()
                return adopted
            connection.on_close = self._connection_closed
            connection.on_silence = self.request_update
            connection.patience_ms = self._patience_ms
            self._connections[key] = connection
            connection.traffic.connections_made = 1
            return connection
        finally:
            self._connecting.pop(key, None)

    def _connection_closed(self, connection: Connection) -> None:
        for key, opened in list(self._connections.items()):
            if opened is connection:
                del self._connections[key]
                self._traffic_before.add(connection.traffic)
                self._traffic_before.connections_closed += 1
                # The broker that comes back may be of another release.
                self._known_brokers.lost(connection.address)
                if not self.closed:
                    # Without this, a broker that accepts and hangs up would be called in a tight loop.
                    self._not_before[key] = self.now_ms() + self._backoff.initial_ms
                    if key[0] >= 0:
                        self.request_update()

    def traffic(self) -> Traffic:
        """Return what has gone over all connections."""
        together = Traffic()
        for traffic in (self._traffic_before, *(c.traffic for c in list(self._connections.values()))):
            together.add(traffic)
        return together

    def waiting_for(self, node_id: int) -> int | None:
        """Return how many requests wait for a broker's answer; None: there is no connection to it."""
        to_node = [c for (node, _), c in list(self._connections.items()) if node == node_id]
        return sum(c.in_flight for c in to_node) if to_node else None

    def close_idle(self) -> None:
        """Close connections unused for `connections_max_idle_ms`."""
        limit = self.config.connections_max_idle_ms
        if limit < 0:
            return
        oldest = self.loop.time() - limit / 1000
        for connection in list(self._connections.values()):
            if not connection.in_flight and connection.last_used < oldest:
                connection.close()

    async def any_connection(self) -> Connection:
        """Return a connection to any broker.

        Raises:
            NoBrokersAvailableError: no broker can be reached; tells for each server why.
        """
        nodes = self._by_promise()
        # Mostly there is an open connection, and no task is needed.
        connection = self.open_connection(nodes[0]) if nodes else None
        if connection is not None and not connection.is_silent:
            return connection
        try:
            return await first_answer(nodes, self.connection)
        except NobodyAnswered as nobody:
            raise nobody.as_error(self.last_failure) from None

    def _by_promise(self) -> list[int]:
        """Return the brokers that may be asked now, those first that are most likely to answer."""
        connections = {key: connection.is_silent for key, connection in self._connections.items()}
        nodes = by_promise(connections, list(self.metadata.brokers), len(self.config.bootstrap_servers))
        return [n for n in nodes if self.open_connection(n) is not None or self.backoff_left_ms(n) <= 0]

    async def request(
        self,
        node_id: int | None,
        message: Any,
        *,
        purpose: str = "",
        at_most: int | None = None,
        at_least: int | None = None,
        timeout_ms: float | None = None,
    ) -> Any:
        """Ask a broker (None: any) once.

        Raises:
            KafkaError: it cannot be asked.
        """
        connection = await (self.any_connection() if node_id is None else self.connection(node_id, purpose))
        version = connection.pick(message.API_KEY, at_most, at_least)
        return await connection.send(message, version, timeout_ms)

    # Metadata

    def want(self, topics: Iterable[str]) -> bool:
        """Keep the metadata of these topics fresh. Returns whether any of them is new."""
        now = self.now_ms()
        new = False
        for topic in topics:
            new = new or topic not in self._wanted
            self._wanted[topic] = now
        return new

    def want_only(self, topics: Iterable[str]) -> None:
        """Keep the metadata of exactly these topics."""
        self._wanted = dict.fromkeys(topics, self.now_ms())

    def drop_unused(self, max_idle_ms: float) -> None:
        """Stop keeping topics that nobody wanted again for that long."""
        oldest = self.now_ms() - max_idle_ms
        for topic in [t for t, used in self._wanted.items() if used < oldest]:
            del self._wanted[topic]
            self.metadata.forget(topic)

    def request_update(self) -> None:
        """Refresh the metadata soon. Calls while that is under way cause one more round, all together."""
        if self.closed:
            return
        if self._refresh is None:
            self._refresh = self.loop.create_task(self._refresh_until_done())
        else:
            self._refresh_again = True

    async def wait_update(self, timeout_ms: float, *, asked_after: bool = False) -> bool:
        """Ask for fresh metadata and wait for it. Returns false when it did not come in time.

        Args:
            asked_after: only an answer to a question that was asked after the call will do.

        Raises:
            AuthenticationError: no broker can be reached, and TLS or the login failed with one.
        """
        questions = self._questions
        answered = questions
        try:
            async with asyncio.timeout(max(0.0, timeout_ms) / 1000):
                while answered == questions:
                    waiter: asyncio.Future[int] = self.loop.create_future()
                    self._update_waiters.append(waiter)
                    self.request_update()
                    answered = await waiter
                    if not asked_after:
                        break
        except TimeoutError:
            return False
        return True

    async def _refresh_until_done(self) -> None:
        failures = 0
        try:
            while not self.closed:
                self._refresh_again = False
                try:
                    unsettled = await self._refresh_once()
                except ClosedError:
                    return
                except OdradekError as problem:
                    failures += 1
                    self.last_failure = problem
                    if not self.outages or not isinstance(problem, NetworkError | NoBrokersAvailableError):
                        # Brokers that cannot be reached are told of one by one, where connecting fails.
                        self.outages.failed(_NO_METADATA, problem, self.now_ms())
                    # Waiting for brokers would not help; other failures may pass in the caller's time.
                    if isinstance(problem, AuthenticationError):
                        self._tell_waiters(problem)
                    await asyncio.sleep(self._retry.delay_ms(failures) / 1000)
                    continue
                failures = 0
                self.last_failure = None
                self.outages.ended(_NO_METADATA, self.now_ms())
                self._updated()
                if unsettled or self._refresh_again:
                    # Leaders are being elected, or an update was requested meanwhile: once more, not at once.
                    await asyncio.sleep(self._retry.delay_ms(1) / 1000)
                    if unsettled or self._refresh_again:
                        continue
                return
        finally:
            self._refresh = None
            self._arm_age_timer()

    async def _refresh_once(self) -> bool:
        from odradek.wire.messages.metadata import MetadataRequest

        topics = None if self.all_topics else sorted(self._wanted)
        question = self._questions + 1

        async def ask(node_id: int) -> tuple[Connection, int, Any]:
            connection = await self.connection(node_id)
            version = connection.pick(ApiKey.METADATA)
            request = MetadataRequest(
                topics=metadata_topics(topics, version, self._allow_auto_create),
                allow_auto_topic_creation=self._allow_auto_create or version < CREATION_FROM,
            )
            self._questions = question
            return connection, version, await connection.send(request, version)

        try:
            connection, version, response = await first_answer(self._by_promise(), ask)
        except NobodyAnswered as nobody:
            raise nobody.as_error(self.last_failure) from None
        # Asked for all, as it would create topics that it is asked for by name, an old broker does not say
        # which of the wanted are missing.
        expected = topics if asks_for_all(topics, version, self._allow_auto_create) else None
        unsettled = self.metadata.update(response, replace_all=topics is None, expected=expected or ())
        # A broker that is just starting may answer so (Kafka's NetworkClient.handleSuccessfulResponse).
        if not self.metadata.brokers:
            raise NoBrokersAvailableError(f"{connection.address} answered, but names no brokers")
        # Then the first request to this broker needs no second connection.
        self._adopt(connection)
        self._give_up_absent()
        self.close_idle()
        wanted_missing = topics is not None and any(
            t not in self.metadata.topics and t not in self.metadata.errors for t in topics
        )
        return bool(unsettled) or wanted_missing

    def _give_up_absent(self) -> None:
        """Close the connections to brokers that are silent, and do not count as alive any more."""
        for (node_id, _), connection in list(self._connections.items()):
            if node_id >= 0 and node_id not in self.metadata.brokers and connection.is_silent:
                connection.give_up()

    def _adopt(self, connection: Connection) -> None:
        """Make a bootstrap connection that of the broker with the same address."""
        for key, opened in list(self._connections.items()):
            if opened is not connection or key[0] >= 0:
                continue
            for node in self.metadata.brokers.values():
                if (
                    f"{node.host}:{node.port}" == connection.address
                    and (node.id, "") not in self._connections
                ):
                    del self._connections[key]
                    self._connections[(node.id, "")] = connection
                    return

    def _tell_waiters(self, problem: OdradekError) -> None:
        waiters, self._update_waiters = self._update_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(problem)

    def _updated(self) -> None:
        waiters, self._update_waiters = self._update_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(self._questions)
        for listener in list(self.on_update):
            listener()

    def _arm_age_timer(self) -> None:
        if self._age_timer is not None:
            self._age_timer.cancel()
        if not self.closed:
            # At least 50 ms, as 0 would ask without end.
            self._age_timer = self.loop.call_later(
                max(0.05, self.config.metadata_max_age_ms / 1000), self.request_update
            )

    async def topic_partitions(self, topic: str, timeout_ms: float) -> list[int]:
        """Return the partitions of a topic, ascending; ask until they are known.

        Raises:
            ClientTimeoutError: they are not known in time.
            KafkaError: the topic's own error, if it cannot be retried.
            IllegalArgumentError: no topic can have the name.
        """
        if not isinstance(topic, str) or not topic:
            raise IllegalArgumentError(f"a topic's name is text that is not empty, not {topic!r}")
        deadline = self.now_ms() + timeout_ms
        fresh = self.want([topic])
        while True:
            state = self.metadata.topics.get(topic)
            if state is not None and state.partitions:
                return sorted(state.partitions)
            error = self.metadata.errors.get(topic)
            # Of a topic that was not wanted until now, the error is of an earlier time.
            if error is not None and not error.retriable and not fresh:
                raise error_for(error, f"topic {topic!r}: {error.message}")
            fresh = False
            left = deadline - self.now_ms()
            if left <= 0 or not await self.wait_update(left):
                raise self.timeout_error(f"topic {topic!r} is not in the metadata", timeout_ms, topic)

    async def look_for_partition(self, topic: str, partition: int | None, timeout_ms: float) -> list[int]:
        """Return the partitions of a topic, ascending.

        If `partition` is not among them, it is looked for in further answers (`LOOKS_BEFORE_GONE` at most, as
        time allows), each to a question asked after the call: brokers learn of new partitions one after the
        other.

        Raises:
            KafkaError: as `topic_partitions`.
        """
        deadline = self.now_ms() + max(0.0, timeout_ms)
        numbers = await self.topic_partitions(topic, max(0.0, timeout_ms))
        for look in range(LOOKS_BEFORE_GONE):
            if partition is None or partition in numbers:
                break
            if look:
                delay_ms = self._retry.delay_ms(look)
                if delay_ms >= deadline - self.now_ms():
                    break
                await asyncio.sleep(delay_ms / 1000)
            if not await self.wait_update(deadline - self.now_ms(), asked_after=True):
                raise self.timeout_error(f"partition {topic}-{partition} is not in the metadata", timeout_ms)
            numbers = await self.topic_partitions(topic, max(0.0, deadline - self.now_ms()))
        return numbers

    async def check_partitions(self, partitions: Iterable[TopicPartition], timeout_ms: float) -> None:
        """Make sure that partitions exist.

        Raises:
            UnknownTopicOrPartitionError: one does not.
            KafkaError: as `look_for_partition`.
        """
        for tp in partitions:
            if tp.partition not in await self.look_for_partition(tp.topic, tp.partition, timeout_ms):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise error_for(code, f"topic {tp.topic!r} has no partition {tp.partition}")

    def timeout_error(self, symptom: str, timeout_ms: float, topic: str | None = None) -> KafkaError:
        """Return a timeout that says what stood in the way."""
        reason = self.why()
        # Brokers answer, so the topic is what is missing.
        if self.last_failure is None and topic is not None and topic in self.metadata.errors:
            error = self.metadata.errors[topic]
            if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return error_for(error, f"{symptom} after {timeout_ms:.0f} ms: {error.message}")
            reason = error.message
        return ClientTimeoutError(f"{symptom} after {timeout_ms:.0f} ms: {reason}")

    def tell_if_it_lasts(self, symptom: str, problem: OdradekError) -> None:
        """Log a failure that may pass by itself (a group's coordinator moves, a leader is elected) if it
        lasts. Brokers that cannot be reached are told of already.
        """
        if not isinstance(problem, NetworkError | NoBrokersAvailableError):
            self.outages.failed(symptom, problem, self.now_ms(), after_ms=ORDINARY_MS)

    def tell_leaderless(self, partitions: Iterable[TopicPartition]) -> None:
        """Log that nobody is known to lead these partitions, which are wanted, if that lasts."""
        self.stuck.leaderless(partitions, self.metadata, self.now_ms())

    def why(self) -> str:
        """Return why an answer has not come, as far as is known: the last failure, or who is silent."""
        if self.last_failure is not None:
            return str(self.last_failure)
        nodes = [self.address_of(node_id) for node_id, _ in self._connecting]
        silent = [f"{node.host}:{node.port}" for node in nodes if node is not None]
        silent += [connection.address for connection in self._connections.values() if connection.in_flight]
        if silent:
            return f"no answer yet from {', '.join(dict.fromkeys(silent))}"
        servers = ", ".join(f"{host}:{port}" for host, port in self.config.bootstrap_servers)
        return f"nothing has failed; the servers are {servers}"

    def spawn(self, coroutine: Any, *, watched: bool = False) -> asyncio.Task[Any]:
        """Run something until it ends or the client is closed.

        Args:
            watched: the caller looks at its result; if not, a failure is logged.
        """
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard if watched else self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = error_of(task)
        if isinstance(error, Exception) and not self.closed:
            logger.error("a background task of the client failed", exc_info=error)

    async def close(self) -> None:
        """Close all connections and end all tasks."""
        self.closed = True
        if self._age_timer is not None:
            self._age_timer.cancel()
        tasks = [*self._tasks, *self._connecting.values()]
        if self._refresh is not None:
            tasks.append(self._refresh)
        # `close` may be called by one of these tasks, which must not end itself.
        current = asyncio.current_task()
        for task in tasks:
            if task is not current:
                task.cancel()
        connections = list(dict.fromkeys(self._connections.values()))
        for connection in connections:
            connection.close()
        self._connections.clear()
        for waiter in self._update_waiters:
            if not waiter.done():
                # Looked at here, as asyncio complains of errors that nobody fetches.
                waiter.set_exception(ClosedError("the client was closed"))
                waiter.exception()
        await asyncio.gather(*(t for t in tasks if t is not current), return_exceptions=True)
        await asyncio.gather(*(connection.wait_closed() for connection in connections))
        # A connection that was given up while it was being made closes a turn or two of the loop later.
        for _ in range(3):
            await asyncio.sleep(0)
