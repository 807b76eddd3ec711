"""The producer id of an idempotent producer without transactions: asked for when it is needed, done without
where brokers know none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from odradek.client.aio.cluster import Cluster
from odradek.client.config import ProducerConfig
from odradek.client.core.backoff import Backoff
from odradek.client.core.sending import NO_IDEMPOTENCE
from odradek.client.core.sequences import IdState, Sequences
from odradek.client.errors import UnsupportedByBrokerError
from odradek.errors import ErrorCode, KafkaError, error_for
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

logger = logging.getLogger("odradek.client.producer")


class ProducerIds:
    """Gets producer ids for `sequences`. Runs in the client's loop.

    Args:
        config, cluster, sequences: the sender's.
        wake: makes the sender look.
        failed: called when no producer id can be had; nothing that waits can be sent.
        do_without: called when the brokers know no producer ids, and nobody asked for idempotence by name.
    """

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        sequences: Sequences,
        *,
        wake: Callable[[], None],
        failed: Callable[[KafkaError], None],
        do_without: Callable[[], None],
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._sequences = sequences
        self._wake = wake
        self._failed = failed
        self._do_without = do_without

    def ask(self) -> None:
        """Ask for one, unless that is under way."""
        if self._sequences.state is IdState.NEEDED:
            self._sequences.id_requested()
            self._cluster.spawn(self._init_producer_id())

    async def _init_producer_id(self) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        failures = 0
        while True:
            try:
                response = await self._cluster.request(
                    None, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
                )
                if response.error_code:
                    raise error_for(response.error_code)
            except KafkaError as problem:
                if not problem.retriable:
                    self._refused(problem)
                    return
                self._cluster.last_failure = problem
            else:
                self._sequences.id_received(response.producer_id, response.producer_epoch)
                self._wake()
                return
            failures += 1
            await asyncio.sleep(backoff.delay_ms(failures) / 1000)

    def _refused(self, problem: KafkaError) -> None:
        if problem.code == ErrorCode.UNSUPPORTED_VERSION:
            if self._sequences.producer_id < 0 and "enable_idempotence" not in self._config.given:
                logger.warning(
                    "%s; going on without, as enable.idempotence was not set: %s", NO_IDEMPOTENCE, problem
                )
                self._do_without()
                return
            problem = UnsupportedByBrokerError(f"{NO_IDEMPOTENCE} ({problem})")
        self._failed(problem)
        self._sequences.id_failed()
