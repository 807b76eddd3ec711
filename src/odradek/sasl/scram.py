"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), with Kafka's extension for delegation tokens.

The password never leaves the client, and the broker proves that it knows the user as well. Each side adds its
own random text, so that nothing that was heard once can be used again.

The broker's half goes through `_FIRST → _FINAL → _OVER`, the client's through `_START → _FIRST → _FINAL →
_OVER`; every failure ends in `_OVER`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import NamedTuple

from odradek.sasl import scram_messages as messages
from odradek.sasl.mechanisms import ClientMechanism, SaslError, SaslRefusal, ServerMechanism
from odradek.sasl.names import escaped
from odradek.sasl.scram_credentials import HASHES, MIN_ITERATIONS, ScramCredential
from odradek.sasl.scram_decoys import MakeDecoy, decoys_of_process

MAX_CLIENT_ITERATIONS = 1_000_000
"""More than this a client does not hash for a broker: a false one would have it work for hours."""

_TOKEN_AUTH = "tokenauth"
_START, _FIRST, _FINAL, _OVER = range(4)


class Known(NamedTuple):
    """A user or delegation token that a broker knows.

    Attributes:
        credential: what to check against.
        user: who it is, for the broker: of a token, its owner.
        expires_at_ms: when a token expires.
    """

    credential: ScramCredential
    user: str
    expires_at_ms: int | None = None


FindCredential = Callable[[str, bool], Known | None]
"""Name, and whether it is a delegation token's → what is known; None for nothing."""

_decoys = {name: secrets.token_bytes(hashlib.new(name).digest_size) for name in HASHES.values()}
"""Stored keys of users who are not there."""


def _make_nonce() -> str:
    return secrets.token_urlsafe(24)


class ScramServer(ServerMechanism):
    """The broker's half.

    A name that is not known gets a salt all the same (`scram_decoys`), and fails when it has shown its proof:
    who does not know the password does not learn which users there are.

    Args:
        mechanism: `SCRAM-SHA-256` or `SCRAM-SHA-512`.
        find: who is known.
        make_nonce: random text, for tests.
        make_decoy: salts and iterations of names that are not known; None: those of this process.
        blocks: whether `find` may take more than a millisecond.
    """

    def __init__(
        self,
        mechanism: str,
        find: FindCredential,
        make_nonce: Callable[[], str] = _make_nonce,
        make_decoy: MakeDecoy | None = None,
        *,
        blocks: bool = False,
    ) -> None:
        super().__init__()
        self.name = mechanism
        self.blocks = blocks
        self._hash = HASHES[mechanism]
        self._find = find
        self._make_nonce = make_nonce
        self._make_decoy = make_decoy or decoys_of_process(mechanism)
        self._state = _FIRST
        self._client_first: messages.ClientFirst | None = None
        self._server_first = ""
        self._nonce = ""
        self._known: Known | None = None

    def evaluate(self, response: bytes) -> bytes:
        """See `ServerMechanism.evaluate`."""
        state, self._state = self._state, _OVER
        if state == _FIRST:
            challenge = self._take_first(response)
            self._state = _FINAL
            self.blocks = False
            return challenge
        if state == _FINAL:
            return self._take_final(response)
        raise SaslError("a message behind the end of the exchange")

    def _take_first(self, response: bytes) -> bytes:
        first = messages.read_client_first(response)
        self.is_token = first.extensions.get(_TOKEN_AUTH, "").lower() == "true"
        account = self._find(first.username, self.is_token)
        if first.authorization_id and first.authorization_id != first.username:
            raise SaslRefusal(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if account is not None and account.credential.iterations < MIN_ITERATIONS:
            raise SaslError(
                f"Iterations {account.credential.iterations} is less than the minimum {MIN_ITERATIONS} "
                f"for {self.name}"
            )
        # Made in any case: the time must not tell, either.
        salt, iterations = self._make_decoy(first.username, self.is_token)
        if account is not None:
            salt, iterations = account.credential.salt, account.credential.iterations
        self._known, self._client_first = account, first
        self._nonce = first.nonce + self._make_nonce()
        self._server_first = f"r={self._nonce},s={messages.encoded(salt)},i={iterations}"
        return self._server_first.encode()

    def _take_final(self, response: bytes) -> bytes:
        final = messages.read_client_final(response)
        first, account = self._client_first, self._known
        assert first is not None
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            raise SaslError("Invalid client nonce in the final client message.")
        if final.header != first.header.encode():
            raise SaslError("the header of the final client message is not that of the first")
        auth = f"{first.bare},{self._server_first},{final.unproved}".encode()
        # A name that is not known takes the same way: the time must not tell which ones there are.
        stored_key = _decoys[self._hash] if account is None else account.credential.stored_key
        signature = hmac.digest(stored_key, auth, self._hash)
        if len(final.proof) != len(signature):
            raise SaslError("Authentication failed: Invalid client final message")
        client_key = bytes(a ^ b for a, b in zip(final.proof, signature, strict=True))
        is_proved = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), stored_key)
        if account is None:
            kind = "token" if self.is_token else "user"
            raise SaslError(f"Authentication failed: no such {kind}")
        if not is_proved:
            raise SaslError("Invalid client credentials")
        self.user, self.expires_at_ms = account.user, account.expires_at_ms
        self.is_complete = True
        proof = hmac.digest(account.credential.server_key, auth, self._hash)
        return f"v={messages.encoded(proof)}".encode()


class SaltedPasswords:
    """Hashed passwords of a client, so that each of its connections does not take milliseconds anew."""

    _MOST = 16

    def __init__(self) -> None:
        self._salted: dict[tuple[str, bytes, int], bytes] = {}

    def has(self, hash_name: str, salt: bytes, iterations: int) -> bool:
        """Return whether it is there already."""
        return (hash_name, salt, iterations) in self._salted

    def get(self, hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
        """The salted password; takes long the first time."""
        key = (hash_name, salt, iterations)
        salted = self._salted.get(key)
        if salted is None:
            salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
            while len(self._salted) >= self._MOST:
                self._salted.pop(next(iter(self._salted)), None)
            self._salted[key] = salted
        return salted


class ScramClient(ClientMechanism):
    """The client's half.

    Args:
        mechanism: `SCRAM-SHA-256` or `SCRAM-SHA-512`.
        username, password: the credentials; of a delegation token its id and its HMAC in base64.
        salted: shared by all connections with this password.
        is_token: whether they are a delegation token's.
        make_nonce: random text, for tests.
    """

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        salted: SaltedPasswords | None = None,
        *,
        is_token: bool = False,
        make_nonce: Callable[[], str] = _make_nonce,
    ) -> None:
        super().__init__()
        self.name = mechanism
        self._hash = HASHES[mechanism]
        self._username = username
        self._password = password
        self._salted = SaltedPasswords() if salted is None else salted
        self._is_token = is_token
        self._nonce = make_nonce()
        self._state = _START
        self._bare = ""
        self._signature = b""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """See `ClientMechanism.evaluate`."""
        state, self._state = self._state, _OVER
        if state == _START:
            extension = f",{_TOKEN_AUTH}=true" if self._is_token else ""
            self._bare = f"n={escaped(self._username)},r={self._nonce}{extension}"
            self._state = _FIRST
            # The next step hashes the password.
            self.blocks = True
            return f"n,,{self._bare}".encode()
        if state == _FIRST:
            response = self._answer_first(challenge)
            self._state = _FINAL
            self.blocks = False
            return response
        if state == _FINAL:
            if not hmac.compare_digest(messages.read_server_final(challenge), self._signature):
                raise SaslError("Invalid server signature in server final message: the broker is a false one")
            self.is_complete = True
            return None
        raise SaslError("a message behind the end of the exchange")

    def _answer_first(self, challenge: bytes) -> bytes:
        first = messages.read_server_first(challenge)
        if not first.nonce.startswith(self._nonce) or len(first.nonce) == len(self._nonce):
            raise SaslError("Invalid server nonce: does not start with client nonce")
        if first.iterations < MIN_ITERATIONS:
            raise SaslError(
                f"Requested iterations {first.iterations} is less than the minimum {MIN_ITERATIONS} "
                f"for {self.name}"
            )
        if first.iterations > MAX_CLIENT_ITERATIONS:
            raise SaslError(
                f"Requested iterations {first.iterations} are more than {MAX_CLIENT_ITERATIONS}: "
                "no broker that means well asks for so many"
            )
        salted = self._salted.get(self._hash, self._password, first.salt, first.iterations)
        unproved = f"c={messages.encoded(b'n,,')},r={first.nonce}"
        auth = f"{self._bare},{first.text},{unproved}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), auth, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), auth, self._hash)
        return f"{unproved},p={messages.encoded(proof)}".encode()
