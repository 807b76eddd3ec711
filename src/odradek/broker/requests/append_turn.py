"""The order in which what one connection produces is appended: that in which it has come.

A produce may have to wait before it is appended: for the coordinator of its transaction, for a conversion in
a thread. What comes behind it by the same connection is asked for and converted meanwhile, but appended after
it. Otherwise a producer's batches would reach a partition in another order than they were sent in, and the
log would refuse them (OUT_OF_ORDER_SEQUENCE_NUMBER), or take them where they have no sequence.

    arrives ── nothing waits, neither this nor one before it ──────────────────────────────────► append
            └─ takes a turn ── waits for what it needs ── `come`: those before have appended ──► append, `end`

Kafka has no such order to keep, because it takes the next request of a connection up when the one before is
answered (`SocketServer`). Here only the append is waited for, not the replicas: answers leave in the order of
the requests anyway. Requests of other connections are not waited for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from odradek.broker.event_loop.slices import Steps

if TYPE_CHECKING:
    from odradek.broker.requests.peer import Peer


class AppendTurn:
    """The turn of one request to append, behind all of its connection that have come before."""

    __slots__ = ("_before", "_over", "_peer")

    def __init__(self, peer: Peer, loop: asyncio.AbstractEventLoop) -> None:
        """Take the turn; at the arrival of the request, before anything is waited for.

        Args:
            peer: whose `unappended` is what comes last of its connection.
            loop: for the wait of who comes next.
        """
        self._peer = peer
        self._before = peer.unappended
        self._over: asyncio.Future[None] = loop.create_future()
        peer.unappended = self._over

    @property
    def has_to_wait(self) -> bool:
        """Return whether something that came before is neither appended nor refused yet."""
        return self._before is not None and not self._before.done()

    def come(self) -> Steps[None]:
        """Wait until what came before has been appended, or refused."""
        if self._before is not None and not self._before.done():
            yield self._before

    def end(self) -> None:
        """Let the next one append. Call it in any case: also when nothing was appended."""
        over = self._over
        # Steps that nobody takes any more end with the process, when there is no loop to tell.
        if not over.done() and not over.get_loop().is_closed():
            over.set_result(None)
        if self._peer.unappended is over:
            self._peer.unappended = None
