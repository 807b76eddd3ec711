"""The sessions of a broker with the metadata store, one after the other; the controller has the newest.

Kafka: `ZooKeeperClient.reinitialize`, with its `StateChangeHandler`s. There the client replaces a session by
itself when it has expired; here who needs another one opens it, together with what it is needed for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from odradek.broker.membership.start_sessions import until_answered

if TYPE_CHECKING:
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.store.store import MetadataStore

T = TypeVar("T")


class StoreSessions:
    """Made in the event loop's thread; work with the store is done in the controller's turn.

    Attributes:
        on_session: called in the controller's turn when there is a new session, after the first. Kafka:
            `StateChangeHandler.afterInitializingSession`.
        is_stopped: whether nobody needs a session any more.
    """

    def __init__(
        self,
        open_store: Callable[[], MetadataStore],
        controller: KafkaController,
        on_expired: Callable[[], object],
    ) -> None:
        """
        Args:
            open_store: opens a session; may wait.
            controller: has the first session already, and gets those that take its place.
            on_expired: called in the event loop's thread when a session has ended by itself.
        """
        self._open_store = open_store
        self._controller = controller
        self._on_expired = on_expired
        self._loop = asyncio.get_running_loop()
        self.on_session: list[Callable[[], object]] = []
        self.is_stopped = False
        self._expired: MetadataStore | None = None
        """The last session that has ended by itself; it may have been replaced since."""
        self._listen_for_expiry(controller.store)

    @property
    def has_expired(self) -> bool:
        """Return whether the session of now has ended: nothing that it registered is there any more."""
        return self._expired is self._controller.store

    def run(self, work: Callable[[MetadataStore], T]) -> Awaitable[T]:
        """Do something with the session of now; an awaitable of the result."""
        running: Awaitable[T] = self._controller.event_queue.run(partial(self._work, work))
        return running

    async def ask_until_answered(self, work: Callable[[MetadataStore], T]) -> T:
        """As `run`, again until the store answers: in another session where one has ended.

        Raises:
            StoreError: the store refuses it, or is away while this broker stops.
        """

        async def ask(is_over: bool) -> T:
            asking = partial(self._work, work)
            if is_over:
                asking = partial(self.open_and, asking)
            answer: T = await self._controller.event_queue.run(asking)
            return answer

        return await until_answered(ask, lambda: self.is_stopped)

    def open_and(self, work: Callable[[], T]) -> T:
        """Do something in a new session, which takes the place of the one before. In the controller's turn.

        Raises:
            StoreError: no session can be opened, or the store refuses what is done in it.
        """
        before = self._controller.store
        self._controller.session_ended()
        store = self._open_store()
        try:
            self._listen_for_expiry(store)
            self._controller.store = store
            for follow in self.on_session:
                follow()
            done = work()
        except BaseException:
            store.close()
            raise
        finally:
            with suppress(Exception):
                before.close()
        if self.is_stopped:
            # Nobody else knows of this session.
            store.close()
        return done

    def _work(self, work: Callable[[MetadataStore], T]) -> T:
        return work(self._controller.store)

    def _listen_for_expiry(self, store: MetadataStore) -> None:
        store.on_expired(partial(self._expired_elsewhere, store))

    def _expired_elsewhere(self, store: MetadataStore) -> None:
        # The store tells in a thread of its own, perhaps after this broker has stopped.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._note_expired, store)

    def _note_expired(self, store: MetadataStore) -> None:
        # Also of a session that has just replaced another: who has opened it asks `has_expired` at the end.
        self._expired = store
        self._on_expired()
