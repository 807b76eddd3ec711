"""Sessions with the metadata store of a broker that starts: it waits for all but the first.

As in Kafka: the first connection takes `zookeeper.connection.timeout.ms` at most (the constructor of its
ZooKeeperClient). From then on a request whose connection is lost is made again until there is an answer
(KafkaZkClient), however long the store is away. A session that expires meanwhile ends the start of Kafka's
broker; here another one takes its place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from odradek.cluster.store.store import SessionExpired, StoreUnavailable

if TYPE_CHECKING:
    from odradek.cluster.store.store import MetadataStore

logger = logging.getLogger(__name__)

AGAIN_S = 0.25

T = TypeVar("T")


async def until_answered(ask: Callable[[bool], Awaitable[T]], is_stopped: Callable[[], bool]) -> T:
    """Ask the metadata store until it answers.

    Args:
        ask: asks; told whether the session is over, so that another has to be opened.
        is_stopped: whether nobody waits for the answer any more: an error then ends it.

    Raises:
        StoreError: it refuses what is asked, or has not answered when this is stopped.
    """
    is_over = False
    while True:
        try:
            return await ask(is_over)
        except (SessionExpired, StoreUnavailable) as error:
            if is_stopped():
                raise
            logger.warning("the start goes on when the metadata store is back: %s", error)
            is_over = is_over or isinstance(error, SessionExpired)
            await asyncio.sleep(AGAIN_S)
            if is_stopped():
                # In the pause: a session that is opened from now on nobody would close.
                raise


class StartSession:
    """The session for what is asked before there is a membership, which goes on with it.

    Attributes:
        store: the session of now.
    """

    def __init__(self, open_store: Callable[[], MetadataStore]) -> None:
        """
        Args:
            open_store: opens a session.

        Raises:
            StoreError: the first connection cannot be made.
        """
        self._open_store = open_store
        self._stopped = False
        self.store = open_store()

    def stop(self) -> None:
        """End what is waited for: nobody wants to know any more."""
        self._stopped = True

    async def ask(self, work: Callable[[MetadataStore], T]) -> T:
        """Do something with the store, from its beginning again whenever the store has gone away.

        Raises:
            StoreError: the store refuses it, or is away when this is stopped.
        """

        async def ask(is_over: bool) -> T:
            if is_over:
                self._replace()
            return work(self.store)

        return await until_answered(ask, lambda: self._stopped)

    def _replace(self) -> None:
        before, self.store = self.store, self._open_store()
        with suppress(Exception):
            before.close()
