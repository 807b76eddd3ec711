"""The other brokers that are connected to this one: who is, lives, though its port may refuse this one.

A broker's port that refuses a connection is a sign that its process is gone, but not a sure one: a packet
filter on the way refuses as well. The other sign is that the connections end that it had itself: the kernel
ends them with the process. Each broker keeps one to the controller, and the controller one to each broker,
over which it says what it has to say; both say who they are by the client id, `broker-N-watch`, as soon as
they are connected. Only both signs together count as a death; after a doubt one looks again, soon and then
less often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.requests.between_brokers import client_id_of, purpose_of

if TYPE_CHECKING:
    from odradek.broker.requests.peer import Peer

WATCH = "watch"
"""What the connection is for by which a broker watches the controller, or the controller a broker."""

FIRST_LOOK_MS = 20
"""After a refusal by somebody who is connected: its other connections may be about to end as well."""

LONGEST_PAUSE_MS = 1_000


def watch_id(broker_id: int) -> str:
    """The client id of a broker that watches another."""
    return client_id_of(broker_id, WATCH)


def watcher(client_id: str) -> int | None:
    """The broker that watches another by a connection with this client id; None for anybody else."""
    purpose = purpose_of(client_id)
    return purpose[0] if purpose is not None and purpose[1] == WATCH else None


def pause_ms(doubts: int) -> int:
    """Return how long to wait before one looks again, after so many refusals by somebody who lives."""
    return int(min(FIRST_LOOK_MS << min(doubts, 10), LONGEST_PAUSE_MS))


class Presence:
    """Knows who is connected. Used in the event loop's thread."""

    def __init__(self) -> None:
        self.brokers: dict[Peer, int] = {}
        """The id of the broker behind each connection that has asked what only brokers may."""

    def note(self, broker_id: int, peer: Peer) -> None:
        """A broker has asked something by this connection, as nobody but brokers may."""
        if peer not in self.brokers:
            # As many as there are connections, whatever strangers claim to be.
            self.brokers = {
                connected: connected_id
                for connected, connected_id in self.brokers.items()
                if connected.is_open
            }
        self.brokers[peer] = broker_id

    def is_connected(self, broker_id: int) -> bool:
        """Return whether a connection by which the broker has asked something is still open."""
        return any(peer.is_open and connected_id == broker_id for peer, connected_id in self.brokers.items())
