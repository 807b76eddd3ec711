"""Gathers what is to be sent to other brokers, so that one request at a time is under way to each.

    queue_of ──► queue of the broker ──(nothing under way)──► request ──► answer
                     └── what comes meanwhile goes together into the next request

Nothing is sent again here: what becomes of a request that came to nothing, whoever takes the answer knows.
Kafka: `InterBrokerSendThread`, for the coordinators of transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

Q = TypeVar("Q")
B = TypeVar("B", bound=Sized)


class InterBrokerSender(Generic[Q, B]):
    """The queues of the brokers. Used in the event loop's thread.

    A queue is there from when something is put into it until it is empty and all of it is answered: so a
    broker with a queue is one with a request under way, or about to be sent.

    Three more have one request under way at a time, by other rules, as what they send is kept until it is
    settled and sent again: `UnsentIsrUpdates` has one wish of each partition, which a newer one replaces, for
    whoever is the controller by then; `BrokerQueues` has an order that must hold, also where it sends again;
    a `ReplicaFetcher` has no queue, and makes each request anew of what it follows.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        new_queue: Callable[[], Q],
        take: Callable[[Q], B],
        send: Callable[[int, B], asyncio.Future[Any]],
        on_answer: Callable[[int, B, asyncio.Future[Any]], None],
    ) -> None:
        """
        Args:
            loop: gathers what comes in one of its turns.
            new_queue: makes an empty queue.
            take: takes out of a queue what goes into one request; nothing, and the queue is done with.
            send: sends it to a broker.
            on_answer: takes the answer, or why there is none. Whatever it raises, the next request is sent.
        """
        self._loop = loop
        self._new_queue = new_queue
        self._take = take
        self._send = send
        self._on_answer = on_answer
        self._queues: dict[int, Q] = {}

    @property
    def queues(self) -> Collection[Q]:
        """The queues of all brokers that have one."""
        return self._queues.values()

    def queue_of(self, broker_id: int) -> Q:
        """Return the queue of a broker, for something to be put into it before this turn of the loop ends."""
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = self._new_queue()
            # Those of the same turn go together.
            self._loop.call_soon(self._send_next, broker_id)
        return queue

    def _send_next(self, broker_id: int) -> None:
        batch = self._take(self._queues[broker_id])
        if not len(batch):
            del self._queues[broker_id]
            return
        self._send(broker_id, batch).add_done_callback(partial(self._answered, broker_id, batch))

    def _answered(self, broker_id: int, batch: B, answer: asyncio.Future[Any]) -> None:
        try:
            self._on_answer(broker_id, batch, answer)
        finally:
            self._send_next(broker_id)
