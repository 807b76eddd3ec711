"""Delegation tokens (KIP-48, KIP-373): what is kept of them, and the notices of changes, as Kafka has both.

| node | data |
|---|---|
| `/delegation_token/tokens/<id>` | owner, requester, renewers and times, JSON |
| `/delegation_token/token_changes/token_change_<10 digits>` | the id |

The secret of a token is not kept: it is the HMAC-SHA-512 of its id by the brokers' common key.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from odradek.cluster.nodes import NodeFormatError, dump, load
from odradek.cluster.paths import desanitize, sanitize
from odradek.cluster.store.store import MetadataStore, NoNode, Stat, StoreError, ensure_path

logger = logging.getLogger(__name__)

TOKENS = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"
CHANGE_EXPIRY_MS = 15 * 60 * 1000
"""After how long a notice is removed, as all of Kafka's."""

_SEQUENCE = "token_change_"
_VERSION = 3
_REQUESTER_SINCE = 3
_ANY_VERSION = -1


class TokenInformation(NamedTuple):
    """A delegation token's data; principals in Kafka's form, `User:name`, times in epoch milliseconds.

    Attributes:
        token_id: public; the name to log in by.
        owner: as whom one logs in by it.
        requester: who has had it made.
        renewers: who may renew it, beside the owner.
        issued_ms, expires_ms, max_ms: when it was made, when it ends unless it is renewed, and for good.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def may_be_renewed_by(self, principal: str) -> bool:
        """Return whether somebody is its owner or among its renewers."""
        return principal == self.owner or principal in self.renewers

    def has_expired(self, now_ms: int) -> bool:
        """Return whether it has ended."""
        return self.max_ms < now_ms or self.expires_ms < now_ms


def secret_of(token_id: str, key: str) -> bytes:
    """The secret of a token, by the key of the brokers."""
    return hmac.digest(key.encode(), token_id.encode(), "sha512")


def token_path(token_id: str) -> str:
    """The node of a token."""
    return f"{TOKENS}/{token_id}"


def encode_token(token: TokenInformation) -> bytes:
    """The data of a token's node, version 3."""
    return dump(
        {
            "version": _VERSION,
            "owner": sanitize(token.owner),
            "tokenRequester": sanitize(token.requester),
            "renewers": [sanitize(renewer) for renewer in token.renewers],
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenId": token.token_id,
        }
    )


def decode_token(path: str, data: bytes | None) -> TokenInformation:
    """Read a token's node, of versions 1 to 3.

    Raises:
        NodeFormatError: it does not hold what Kafka writes there.
    """
    value = load(path, data or b"{}")
    version = value.get("version")
    if not isinstance(version, int) or not 0 < version <= _VERSION:
        raise NodeFormatError(path, f"node {path} has a token of the unknown version {version!r}")
    try:
        owner = _principal(value["owner"])
        return TokenInformation(
            str(value["tokenId"]),
            owner,
            _principal(value["tokenRequester"]) if version >= _REQUESTER_SINCE else owner,
            tuple(_principal(renewer) for renewer in value["renewers"]),
            int(value["issueTimestamp"]),
            int(value["expiryTimestamp"]),
            int(value["maxTimestamp"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NodeFormatError(path, f"node {path} does not hold a delegation token: {error!r}") from error


def _principal(text: Any) -> str:
    principal = desanitize(text)
    # As Kafka reads one: a renewer may be called "User:", and its token is one all the same.
    if ":" not in principal:
        raise ValueError("not a principal")
    return principal


def create_token_paths(store: MetadataStore) -> None:
    """Create the nodes that tokens are below, where they are missing.

    Raises:
        StoreError: the store cannot be read or written.
    """
    for path in (TOKENS, CHANGES):
        ensure_path(store, path)


def load_tokens(store: MetadataStore) -> dict[str, TokenInformation]:
    """All tokens by id; nodes that hold something else are passed over, as nobody can log in by them.

    Raises:
        StoreError: the store cannot be read.
    """
    ids = store.children(TOKENS)
    by_id: dict[str, TokenInformation] = {}
    for token_id, node in zip(ids, store.get_many([token_path(token_id) for token_id in ids]), strict=True):
        if node is not None:
            try:
                by_id[token_id] = decode_token(token_path(token_id), node.data)
            except NodeFormatError as error:
                logger.warning("a delegation token is passed over: %s", error)
    return by_id


def load_token(store: MetadataStore, token_id: str) -> TokenInformation | None:
    """One token; None where there is none.

    Raises:
        StoreError: the store cannot be read.
        NodeFormatError: the node does not hold what Kafka writes there.
    """
    path = token_path(token_id)
    try:
        data, _ = store.get(path)
    except NoNode:
        return None
    return decode_token(path, data)


def write_token(store: MetadataStore, token: TokenInformation) -> None:
    """Create a token, or change it, and give notice.

    Raises:
        StoreError: the store cannot be written.
    """
    path, data = token_path(token.token_id), encode_token(token)
    try:
        store.set(path, data, _ANY_VERSION)
    except NoNode:
        store.create(path, data)
    store.create(f"{CHANGES}/{_SEQUENCE}", token.token_id.encode(), sequence=True)


def remove_token(store: MetadataStore, token_id: str) -> None:
    """Remove a token, and give notice; harmless when it has gone.

    Raises:
        StoreError: the store cannot be written.
    """
    try:
        store.delete(token_path(token_id))
    except NoNode:
        return
    store.create(f"{CHANGES}/{_SEQUENCE}", token_id.encode(), sequence=True)


class TokenNotices:
    """The notices of changes that have been seen; one object for each session with the store."""

    def __init__(self, store: MetadataStore) -> None:
        """Take what is there as seen.

        Raises:
            StoreError: the store cannot be read.
        """
        self._seen = max(map(_number, store.children(CHANGES)), default=-1)

    def fresh(self, store: MetadataStore, now_ms: int) -> list[str]:
        """The ids of tokens that have changed since the last time; old notices are removed.

        Raises:
            StoreError: the store cannot be read; nothing counts as seen then.
        """
        names = sorted(store.children(CHANGES), key=_number)
        paths = [f"{CHANGES}/{name}" for name in names]
        changed: dict[str, None] = {}
        seen, old = self._seen, []
        for name, path, notice in zip(names, paths, store.get_many(paths), strict=True):
            if notice is None:
                continue
            data, stat = notice
            if _number(name) > seen:
                seen = _number(name)
                changed[(data or b"").decode(errors="replace")] = None
            if _is_old(stat, now_ms):
                old.append(path)
        self._seen = seen
        _remove(store, old)
        return list(changed)


def _number(name: str) -> int:
    digits = name.removeprefix(_SEQUENCE)
    return int(digits) if digits != name and digits.isdecimal() else -1


def _is_old(stat: Stat, now_ms: int) -> bool:
    return now_ms - stat.ctime > CHANGE_EXPIRY_MS


def _remove(store: MetadataStore, paths: Sequence[str]) -> None:
    for path in paths:
        try:
            store.delete(path)
        except StoreError:
            continue  # another broker was faster
