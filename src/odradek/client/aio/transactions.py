"""Transactions of the producers: the shell around `core.transactions`, and what both faces call."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from typing import Any

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.connection import Connection
from odradek.client.aio.group_link import COORDINATOR
from odradek.client.arguments import offsets_of
from odradek.client.config import ProducerConfig
from odradek.client.core.backoff import Backoff
from odradek.client.core.find_coordinator import learn_coordinator
from odradek.client.core.record_accumulator import RecordAccumulator
from odradek.client.core.transactions.requests import TxnRequest, build
from odradek.client.core.transactions.state_machine import TxnState
from odradek.client.core.transactions.transaction_manager import TransactionManager
from odradek.client.core.transactions.transactional_request_result import TransactionalRequestResult
from odradek.client.core.versions import v2_if_known
from odradek.client.errors import (
    ArgumentTypeError,
    ClientTimeoutError,
    ClosedError,
    IllegalArgumentError,
    IllegalStateError,
)
from odradek.client.types import (
    ConsumerGroupMetadata,
    Offsets,
    PreparedTxnState,
)
from odradek.errors import ErrorCode, KafkaError, OdradekError, error_for
from odradek.wire.api import ApiKey

logger = logging.getLogger("odradek.client.producer")


class TransactionRequests:
    """Sends what the manager has due, one request at a time. Runs in the client's loop.

    Args:
        config, cluster: the producer's.
        manager: decides.
        wake: makes the sender look again.
    """

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        manager: TransactionManager,
        wake: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._manager = manager
        self._wake = wake
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def send(self, request: TxnRequest) -> None:
        """Send one request, and hand its answer to the manager."""
        self._cluster.spawn(self._send(request))

    async def _send(self, request: TxnRequest) -> None:
        manager = self._manager
        delay_ms = manager.delay_ms(request, self._backoff.delay_ms(min(request.tries, 8)))
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        try:
            await self._ask(request)
        except ClosedError:
            return
        except KafkaError as problem:
            logger.debug("%s: %s", request.api.api_name, problem)
            if problem.retriable:
                self._cluster.last_failure = problem
                manager.not_answered(request)
            else:
                manager.refused(request, problem)
        except Exception as bug:
            # Nobody may wait for ever because of a mistake here.
            logger.exception("%s could not be dealt with", request.api.api_name)
            manager.refused(request, error_for(ErrorCode.UNKNOWN_SERVER_ERROR, repr(bug)))
        self._wake()

    async def _ask(self, request: TxnRequest) -> None:
        node = self._manager.target(request)
        connection: Connection
        if node is None:
            connection = await self._cluster.any_connection()
        else:
            connection = await self._cluster.connection(node, COORDINATOR)
        versions = connection.state.versions
        assert versions is not None
        self._manager.learned(v2=v2_if_known(self._cluster.versions()))
        message, version = build(request, self._manager.me, versions)
        response = await connection.send(message, version)
        if request.api is ApiKey.FIND_COORDINATOR:
            with contextlib.suppress(KafkaError):  # which is the manager's to deal with
                learn_coordinator(self._cluster.metadata, response)
        self._manager.answered(request, response, versions.highest(ApiKey.INIT_PRODUCER_ID))


class Transactions:
    """The calls of the application, as coroutines in the client's loop.

    Args:
        config, cluster, accumulator: the producer's.
        manager: its transactions.
        lock: that of the accumulator.
        wake: makes the sender look.
    """

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        manager: TransactionManager,
        lock: AbstractContextManager[Any],
        wake: Callable[[], None],
    ) -> None:
        self.manager = manager
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._lock = lock
        self._wake = wake

    async def init(self, keep_prepared: bool) -> PreparedTxnState:
        """See `Producer.init_transactions`."""
        await self._done(self.manager.init_transactions(keep_prepared=keep_prepared))
        return self.manager.prepared

    async def begin(self) -> None:
        """See `Producer.begin_transaction`."""
        self.begin_now()

    def begin_now(self) -> None:
        """`begin`; nothing of it waits."""
        with self._lock:
            self._accumulator.appender.forget()
            self.manager.begin(v2=v2_if_known(self._cluster.versions()))

    async def send_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata | str) -> None:
        """See `Producer.send_offsets_to_transaction`."""
        if isinstance(group, str):
            group = ConsumerGroupMetadata(group)
        if not isinstance(group, ConsumerGroupMetadata):
            raise ArgumentTypeError(
                f"group is {group!r}: give the consumer's group_metadata(), or the group's name"
            )
        to_commit = offsets_of(offsets)
        if not group.group_id:
            raise IllegalArgumentError("the consumer has no group")
        if group.generation_id > 0 and not group.member_id:
            raise IllegalArgumentError(f"generation {group.generation_id} without a member")
        if to_commit:
            await self._done(self.manager.send_offsets(to_commit, group))

    async def prepare(self, flush: Callable[[], Coroutine[Any, Any, None]]) -> PreparedTxnState:
        """See `Producer.prepare_transaction`. `flush`: waits for all records."""
        with self._lock:
            self._accumulator.appender.forget()
        await flush()
        return self.manager.prepare()

    async def commit(self) -> None:
        """See `Producer.commit_transaction`."""
        await self._end(self.manager.commit)

    async def abort(self) -> None:
        """See `Producer.abort_transaction`."""
        await self._end(self.manager.abort)

    async def complete(self, prepared: PreparedTxnState) -> bool:
        """See `Producer.complete_transaction`."""
        return (await self._end(lambda: self.manager.complete(prepared))).commits

    async def leave(self, failed: bool) -> None:
        """At the end of a `with` block: commit, or abort if it failed or the commit cannot be. Whatever was
        ended or prepared in the block stays so.
        """
        manager = self.manager
        if not failed and manager.state is TxnState.IN_TRANSACTION:
            try:
                await self.commit()
            except OdradekError as problem:
                if problem.requires_abort:
                    await self._take_back()
                raise
        elif manager.state in (TxnState.IN_TRANSACTION, TxnState.ABORTABLE_ERROR):
            cause = manager.last_error
            await self._take_back()
            if not failed:
                assert cause is not None
                raise cause

    async def _take_back(self) -> None:
        """Abort, as the block failed, which is the news."""
        try:
            await self.abort()
        except OdradekError as problem:
            logger.warning("the transaction could not be aborted: %s", problem)

    async def _end(self, begin: Callable[[], TransactionalRequestResult]) -> TransactionalRequestResult:
        with self._in_a_hurry():
            call = begin()
            await self._done(call)
        return call

    @contextlib.contextmanager
    def _in_a_hurry(self) -> Iterator[None]:
        """Send batches that wait for company at once; records sent from here on take the way that looks."""
        with self._lock:
            self._accumulator.appender.forget()
            self._accumulator.flushing += 1
        try:
            yield
        finally:
            with self._lock:
                self._accumulator.flushing -= 1

    async def _done(self, call: TransactionalRequestResult) -> None:
        """Wait at most `max_block_ms`."""
        self._wake()
        if not call.done:
            event = asyncio.Event()
            call.when_done(event.set)
            try:
                async with asyncio.timeout(self._config.max_block_ms / 1000):
                    await event.wait()
            except TimeoutError:
                raise ClientTimeoutError(
                    f"{call.name} was not done within {self._config.max_block_ms} ms: {self._cluster.why()}; "
                    "it may be called again"
                ) from None
        call.outcome()

    async def close(self) -> None:
        """End what is open, so that nobody has to wait for it to time out: abort it, unless it is being
        committed. Never raises.
        """
        if self.manager.is_open and self.manager.producer_id >= 0:
            try:
                # An end that was given up goes on; it cannot become another one.
                pending = self.manager.pending if self.manager.is_completing else None
                if pending is None and self.manager.partitions:
                    logger.warning(
                        "the producer is closed amid a transaction: what was sent in it is aborted"
                    )
                await self._end(lambda: pending or self.manager.abort())
            except OdradekError as problem:
                logger.warning("the open transaction was not ended while closing: %s", problem)


def no_transactions() -> IllegalStateError:
    """The error of transactional calls on another producer."""
    return IllegalStateError("this producer has no transactional.id")
