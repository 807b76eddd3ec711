"""The keys that access tokens are signed with: a JWK set (RFC 7517) in a file, or at an address.

Asking an address takes time, so it is done by whoever looks for a key, in a thread. Between two questions
there is a pause, whatever tokens name: nobody has a broker call its identity provider at will.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from odradek.sasl.http import HttpError, fetch_json
from odradek.sasl.mechanisms import SaslError
from odradek.sasl.pyjwt import import_pyjwt

logger = logging.getLogger(__name__)

MAX_KEYS = 1000
_UNKNOWN_PAUSE_S = 10.0
"""How long nobody asks again for a key that the provider does not have."""


class Key(NamedTuple):
    """One key: `key` is PyJWT's; `key_type` is `RSA`, `EC` or `OKP`."""

    key_id: str | None
    key_type: str
    key: Any


class KeySource(Protocol):
    """Finds keys."""

    def find(self, key_id: str | None) -> list[Key]:
        """The keys of that id; all of them where a token names none. May wait."""
        ...


def read_keys(content: Any) -> list[Key]:
    """Read a JWK set; what is no public key for signatures is left out.

    Raises:
        SaslError: it is none, or has no key that can be used; or PyJWT is missing.
    """
    jwt = import_pyjwt()
    entries = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise SaslError("not a JWK set: there is no list of keys")
    keys = []
    for entry in entries[:MAX_KEYS]:
        if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        if entry.get("use", "sig") != "sig" or "d" in entry:
            continue
        try:
            jwk = jwt.PyJWK(entry)
        except Exception as error:
            logger.warning("a key of the JWK set cannot be used: %s", type(error).__name__)
            continue
        key_id = entry.get("kid")
        keys.append(Key(key_id if isinstance(key_id, str) else None, entry["kty"], jwk.key))
    if not keys:
        raise SaslError("the JWK set has no public key for signatures")
    return keys


def _chosen(keys: list[Key], key_id: str | None) -> list[Key]:
    return list(keys) if key_id is None else [key for key in keys if key.key_id == key_id]


class FileKeys:
    """Keys in a file, which is read again when it has changed.

    Args:
        path: of the file.

    Raises:
        SaslError: it cannot be read at first.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._keys: list[Key] = []
        self._seen: tuple[int, int, int] | None = None
        self._read()

    def find(self, key_id: str | None) -> list[Key]:
        """See `KeySource.find`."""
        with self._lock:
            try:
                self._read()
            except SaslError as error:
                logger.warning("the keys of before are used on: %s", error)
            return _chosen(self._keys, key_id)

    def _read(self) -> None:
        import json

        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen == self._seen:
                return
            self._seen = seen
            keys = read_keys(json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise SaslError(f"the JWK set {self._path} cannot be read: {error}") from error
        self._keys = keys


class UrlKeys:
    """Keys at an address.

    They are fetched when first needed, after `refresh_ms`, and when a token names one that is not there.

    Args:
        url: `https:…`, as `sasl.oauthbearer.jwks.endpoint.url`.
        refresh_ms: `sasl.oauthbearer.jwks.endpoint.refresh.ms`.
        retry_ms, retry_max_ms: the pause after a failure, doubled each time up to the most.
        timeout_ms: for the answer.
        monotonic_s: time.
        fetch: asks, for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        refresh_ms: float = 3_600_000,
        retry_ms: float = 100,
        retry_max_ms: float = 10_000,
        timeout_ms: float = 10_000,
        monotonic_s: Callable[[], float] = time.monotonic,
        fetch: Callable[..., Any] = fetch_json,
    ) -> None:
        self._url = url
        self._refresh_s = refresh_ms / 1000
        self._retry_s, self._retry_max_s = retry_ms / 1000, retry_max_ms / 1000
        self._timeout_ms = timeout_ms
        self._monotonic_s = monotonic_s
        self._fetch = fetch
        self._lock = threading.Lock()
        self._keys: list[Key] = []
        self._fetched_s = -float("inf")
        self._not_before_s = -float("inf")
        self._failures = 0

    def find(self, key_id: str | None) -> list[Key]:
        """See `KeySource.find`."""
        chosen = _chosen(self._keys, key_id)
        if chosen and self._monotonic_s() < self._fetched_s + self._refresh_s:
            return chosen
        # Others wait for whoever asks, rather than ask as well.
        with self._lock:
            now_s = self._monotonic_s()
            chosen = _chosen(self._keys, key_id)
            if now_s < self._not_before_s or (chosen and now_s < self._fetched_s + self._refresh_s):
                return chosen
            try:
                self._keys = read_keys(self._fetch(self._url, timeout_ms=self._timeout_ms))
            except (HttpError, SaslError) as error:
                self._failures += 1
                pause_s = min(self._retry_max_s, self._retry_s * 2 ** min(self._failures - 1, 20))
                self._not_before_s = self._monotonic_s() + pause_s
                logger.warning("keys for access tokens cannot be fetched: %s", error)
            else:
                self._failures = 0
                self._fetched_s = now_s
                self._not_before_s = now_s + min(_UNKNOWN_PAUSE_S, self._refresh_s)
            return _chosen(self._keys, key_id)
