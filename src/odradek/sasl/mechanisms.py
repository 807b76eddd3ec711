"""The interface of a SASL mechanism, on either side of a connection.

Each is a state machine over byte strings: the client's `evaluate` takes challenges and gives responses, the
server's takes responses and gives challenges, until both are complete. Nothing here reads or writes sockets.
"""

from __future__ import annotations

from odradek.errors import OdradekError

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"

MODULE_OF = {
    PLAIN: "PlainLoginModule",
    SCRAM_SHA_256: "ScramLoginModule",
    SCRAM_SHA_512: "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
    GSSAPI: "Krb5LoginModule",
}
"""Mechanism → its login module, without the package; these are the mechanisms that are known here."""


class LoginError(OdradekError):
    """There is no login in the configs, or none that is known here."""


class SaslError(OdradekError):
    """A step of an exchange failed.

    The message is for the log of the side that raises it: a broker tells its peer only that the credentials
    are invalid, since anything more says which users there are.
    """


class SaslRefusal(SaslError):
    """A step failed for a reason that the peer may be told, in Kafka's words."""


class ServerMechanism:
    """The broker's half of one exchange.

    Attributes:
        name: the mechanism's.
        blocks: whether `evaluate` may take more than a millisecond, or wait: then it belongs into a thread.
        is_complete: whether the client has proved who it is; the attributes below are good from then on.
        user: who it is, without the type: `alice`.
        expires_at_ms: wall-clock time at which the proof loses its worth, None for never.
        is_token: whether the proof was a delegation token, which may not get further tokens.
    """

    name: str = ""
    blocks: bool = False

    def __init__(self) -> None:
        self.is_complete = False
        self.user = ""
        self.expires_at_ms: int | None = None
        self.is_token = False

    def evaluate(self, response: bytes) -> bytes:
        """Take the client's message; returns what it gets back.

        Raises:
            SaslError: it is not what it has to be; the exchange is over.
        """
        raise NotImplementedError


class ClientMechanism:
    """The client's half of one exchange.

    Attributes:
        name: the mechanism's.
        blocks: whether the next `evaluate` may take more than a millisecond, or wait.
        is_complete: whether the broker has been shown everything, and has proved what it had to.
    """

    name: str = ""
    blocks: bool = False

    def __init__(self) -> None:
        self.is_complete = False

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Take the broker's message, empty at first; returns the next of ours, None when there is none.

        Raises:
            SaslError: the broker is not what it has to be, or there are no credentials.
        """
        raise NotImplementedError
