"""A connection's view of logins: a gate that it asks instead of the dispatcher, while it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from odradek.broker.requests.answer import Answer, Later

if TYPE_CHECKING:
    from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


class Login(NamedTuple):
    """A principal that is logged in.

    Attributes:
        user: without the type.
        mechanism: how.
        is_token: whether by a delegation token.
        lifetime_ms: how long from then on, in milliseconds; None for as long as the connection lasts.
    """

    user: str
    mechanism: str
    is_token: bool
    lifetime_ms: int | None


class LoginGate(Protocol):
    """See `odradek.broker.sasl.gate.SaslGate`.

    Attributes:
        login: who is logged in; None at first.
    """

    login: Login | None

    def dispatch(self, peer: Any, frame: Any, later: Later) -> Answer | None:
        """See `Dispatcher.dispatch`."""
        ...

    def closed(self) -> None:
        """The connection has ended."""
        ...

    def authenticate_again(self, version: int, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        """Begin another login (KIP-368)."""
        ...


class GateKeeper(Protocol):
    """See `odradek.broker.sasl.gate.SaslListener`."""

    def open(self, connection: Any, max_request_bytes: int) -> LoginGate:
        """A gate for a connection that begins; puts itself into its `gate`, and into its peer's `sasl`."""
        ...

    def check(self, config: Any) -> None:
        """Check the broker's configs before they are taken over.

        Raises:
            ConfigError: logins could not go on with them.
        """
        ...

    def reconfigure(self, config: Any) -> None:
        """Take over the broker's changed configs; they hold for logins that begin from now on."""
        ...
