"""PLAIN (RFC 4616): a name and a password, as they are. For encrypted connections."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from odradek.sasl.mechanisms import PLAIN, ClientMechanism, SaslError, SaslRefusal, ServerMechanism

_NOBODY = "\0"
"""Stands for the password of a user who does not exist; nobody can send it."""


class PlainServer(ServerMechanism):
    """Checks a name and a password.

    Args:
        users: passwords by name.
    """

    name = PLAIN

    def __init__(self, users: Mapping[str, str]) -> None:
        super().__init__()
        self._users = users

    def evaluate(self, response: bytes) -> bytes:
        """See `ServerMechanism.evaluate`: `[authzid] NUL name NUL password`."""
        if self.is_complete:
            raise SaslError("a message behind the end of the exchange")
        tokens = response.count(b"\0") + 1
        if tokens != 3:
            raise SaslError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {tokens}")
        parts = response.split(b"\0")
        try:
            requested, name = parts[0].decode(), parts[1].decode()
        except UnicodeDecodeError:
            raise SaslError("Invalid SASL/PLAIN response: a name is not UTF-8") from None
        if not name:
            raise SaslError("Authentication failed: username not specified")
        if not parts[2]:
            raise SaslError("Authentication failed: password not specified")
        # A name that is not known takes the same way: the time must not tell which ones there are.
        expected = self._users.get(name, _NOBODY).encode()
        if not hmac.compare_digest(expected, parts[2]):
            raise SaslRefusal("Authentication failed: Invalid username or password")
        if requested and requested != name:
            raise SaslRefusal(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = name
        self.is_complete = True
        return b""


class PlainClient(ClientMechanism):
    """Tells a name and a password.

    Args:
        username, password: the credentials.
    """

    name = PLAIN

    def __init__(self, username: str, password: str) -> None:
        super().__init__()
        self._username = username
        self._password = password

    def evaluate(self, challenge: bytes) -> bytes | None:  # noqa: ARG002
        """See `ClientMechanism.evaluate`."""
        if self.is_complete:
            return None
        self.is_complete = True
        return f"\0{self._username}\0{self._password}".encode()
