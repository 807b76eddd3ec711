"""OAUTHBEARER (RFC 7628): an access token that somebody else has made, and its holder shows.

`n,[a=name],^Aauth=Bearer <token>^A[key=value^A…]^A`, where ^A is the byte 1. What is wrong with a token the
broker tells as JSON; the client says ^A, and gets the failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.sasl.mechanisms import OAUTHBEARER, ClientMechanism, SaslError, SaslRefusal, ServerMechanism
from odradek.sasl.names import NAME, unescaped

MAX_MESSAGE_BYTES = 64 * 1024
"""The longest message that is read, before anybody knows who has sent it: tokens have a few kilobytes, and go
through what takes headers of HTTP."""

_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e \t\r\n]+\x01)+)\x01"
)
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)")
_EXTENSION = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_SEPARATOR = "\x01"


class Token(NamedTuple):
    """An access token that has been looked at.

    Attributes:
        user: whom it is for.
        expires_at_ms: wall-clock time until which it is good.
        scope: what its holder may do, for whoever cares.
    """

    user: str
    expires_at_ms: int | None
    scope: tuple[str, ...] = ()


class TokenRefused(SaslError):
    """A token is not good.

    Args:
        why: for our log.
        status: what the client gets to see: `invalid_token` or `insufficient_scope`.
        scope: what the token should have had.
    """

    def __init__(self, why: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.scope = scope


Validate = Callable[[str], Token]
"""The token's text → what it says; raises `TokenRefused`."""


class OAuthBearerServer(ServerMechanism):
    """Checks an access token.

    Attributes:
        why: for the log, why the token was refused; empty while it was not.

    Args:
        validate: says whether a token is good. It may wait for keys.
        blocks: whether it does.
    """

    name = OAUTHBEARER

    def __init__(self, validate: Validate, *, blocks: bool = True) -> None:
        super().__init__()
        self.blocks = blocks
        self.why = ""
        self._validate = validate
        self._refusal = ""

    def evaluate(self, response: bytes) -> bytes:
        """See `ServerMechanism.evaluate`."""
        if self.is_complete:
            raise SaslError("a message behind the end of the exchange")
        if self._refusal:
            # What the client says to it does not count.
            raise SaslRefusal(self._refusal)
        authzid, token = _read_first(response)
        try:
            accepted = self._validate(token)
        except TokenRefused as refused:
            refusal = {"status": refused.status} | ({"scope": refused.scope} if refused.scope else {})
            self._refusal = json.dumps(refusal, separators=(",", ":"))
            self.why = str(refused)
            return self._refusal.encode()
        if authzid and authzid != accepted.user:
            raise SaslRefusal(
                f"Authentication failed: Client requested an authorization id ({authzid}) that is different "
                f"from the token's principal name ({accepted.user})"
            )
        self.user, self.expires_at_ms = accepted.user, accepted.expires_at_ms
        self.is_complete = True
        return b""


def _read_first(response: bytes) -> tuple[str, str]:
    """Return who the client wants to be, and its token."""
    wrong = SaslError("Invalid OAUTHBEARER client first message")
    if len(response) > MAX_MESSAGE_BYTES:
        raise SaslError(f"{wrong}: {len(response)} bytes, more than {MAX_MESSAGE_BYTES}")
    try:
        match = _FIRST.fullmatch(response.decode())
    except UnicodeDecodeError:
        raise wrong from None
    if match is None:
        raise wrong
    pairs = [pair.partition("=") for pair in match["pairs"].split(_SEPARATOR) if pair]
    auth = [value for key, _, value in pairs if key == "auth"]
    bearer = _AUTH.fullmatch(auth[0]) if len(auth) == 1 else None
    if bearer is None:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    if bearer["scheme"].lower() != "bearer":
        raise SaslError("Invalid scheme in OAUTHBEARER client first message")
    return unescaped(match["authzid"] or ""), bearer["token"]


class OAuthBearerClient(ClientMechanism):
    """Shows an access token.

    Args:
        get_token: where it is from. It may wait.
        extensions: further pairs for the broker (KIP-342).
    """

    name = OAUTHBEARER

    def __init__(self, get_token: Callable[[], str], extensions: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.blocks = True
        self._get_token = get_token
        self._extensions = dict(extensions or {})
        for key, value in self._extensions.items():
            if key == "auth" or not _EXTENSION.fullmatch(key) or not _VALUE.fullmatch(value):
                raise SaslError(f"OAUTHBEARER extension {key!r} has a name or a value that cannot be sent")

    def evaluate(self, challenge: bytes) -> bytes | None:
        """See `ClientMechanism.evaluate`."""
        if self.is_complete:
            # The broker's reason; it says the same again as an error when it has our answer.
            self.is_complete = False
            self.blocks = False
            return _SEPARATOR.encode()
        if not self.blocks:
            raise SaslError(f"the broker refused the token: {challenge[:200].decode(errors='replace')}")
        pairs = {"auth": f"Bearer {self._get_token()}", **self._extensions}
        self.is_complete = True
        self.blocks = False
        body = "".join(f"{key}={value}{_SEPARATOR}" for key, value in pairs.items())
        return f"n,,{_SEPARATOR}{body}{_SEPARATOR}".encode()
