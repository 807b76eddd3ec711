"""Keeps the delegation tokens as the metadata store has them: loads, follows, makes, renews and ends them.

Kafka: `DelegationTokenManagerZk`. What changes the store runs in the controller's turn
(`odradek.cluster.controller.event_queue`), one piece of work at a time; looking up is done from any thread.
"""

from __future__ import annotations

import base64
import hmac
import logging
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.cluster.access import delegation_tokens as tokens
from odradek.cluster.access.delegation_tokens import TokenInformation, TokenNotices, secret_of
from odradek.cluster.nodes import NodeFormatError
from odradek.cluster.store.store import MetadataStore, StoreError, WatchEvent
from odradek.errors import (
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
)
from odradek.sasl.scram import Known
from odradek.sasl.scram_credentials import ScramCredential
from odradek.sasl.scram_decoys import Shape
from odradek.util.clock import Clock

if TYPE_CHECKING:
    from odradek.broker.authorizer.acl_keeper import StoreAccess
    from odradek.broker.config.broker_config import BrokerConfig

logger = logging.getLogger(__name__)

_USER = "User:"


class _Kept:
    """A token with its secret, and what to check a login with."""

    __slots__ = ("_credentials", "information", "secret")

    def __init__(self, information: TokenInformation, secret: bytes) -> None:
        self.information = information
        self.secret = secret
        self._credentials: dict[str, ScramCredential] = {}

    def credential(self, mechanism: str) -> ScramCredential:
        """For one SCRAM mechanism, the same at every broker; takes milliseconds the first time."""
        credential = self._credentials.get(mechanism)
        if credential is None:
            password = base64.b64encode(self.secret).decode()
            salt = hmac.digest(self.secret, f"salt {mechanism}".encode(), "sha256")[: Shape().salt_bytes]
            credential = self._credentials[mechanism] = ScramCredential.of_password(
                mechanism, password, salt=salt
            )
        return credential


class TokenKeeper:
    """See the module.

    Args:
        key: `delegation.token.secret.key`, the same on all brokers.
        access: the way to the store.
        clock: wall-clock time.
        expiry_ms: `delegation.token.expiry.time.ms`: after how long a token must be renewed.
        max_lifetime_ms: `delegation.token.max.lifetime.ms`.
    """

    def __init__(
        self, key: str, access: StoreAccess, clock: Clock, *, expiry_ms: int, max_lifetime_ms: int
    ) -> None:
        self._key = key
        self._access = access
        self._clock = clock
        self._expiry_ms = expiry_ms
        self._max_lifetime_ms = max_lifetime_ms
        self._kept: dict[str, _Kept] = {}
        self._notices: TokenNotices | None = None
        """What was seen in the session that is followed; None before the first `load`."""
        self._watched: MetadataStore | None = None
        self._unread: dict[str, None] = {}
        """Tokens whose notices are counted as seen, and whose nodes could not be read."""
        self._unseen = False
        """Whether a look has failed: `look_again` comes back to it."""

    # ------------------------------------------------------------------ following

    def load(self) -> None:
        """Read everything, and follow it from now on; again whenever there is a new session with the store.

        Raises:
            StoreError: the store cannot be read.
        """
        store = self._access.store
        tokens.create_token_paths(store)
        store.watch_persistent(tokens.CHANGES, self._on_event)
        self._watched = store
        self._notices = TokenNotices(store)
        loaded = tokens.load_tokens(store)
        for token_id in self._kept.keys() - loaded.keys():
            self._kept.pop(token_id, None)
        for information in loaded.values():
            self._take(information)
        self._unread.clear()
        self._unseen = False
        logger.info("delegation tokens loaded tokens=%d", len(loaded))

    def stop(self) -> None:
        """Follow nothing any more."""
        store, self._watched = self._watched, None
        if store is not None:
            store.unwatch(tokens.CHANGES, self._on_event)

    def look_again(self) -> None:
        """Look at what could not be followed before. To be called from time to time."""
        if self._unseen:
            self._access.event_queue.post(self._follow)

    def _on_event(self, _event: WatchEvent) -> None:
        # On a thread of the store's.
        self._access.event_queue.post(self._follow)

    def _follow(self) -> None:
        store = self._access.store
        if store is not self._watched or self._notices is None:
            return
        self._unseen = True
        try:
            self._unread |= dict.fromkeys(self._notices.fresh(store, self._clock.now_ms()))
            while self._unread:
                token_id = next(iter(self._unread))
                information = _readable(store, token_id)
                if information is None:
                    self._kept.pop(token_id, None)
                else:
                    self._take(information)
                del self._unread[token_id]
            self._unseen = False
        except StoreError as error:
            logger.warning("changed delegation tokens cannot be read yet: %s", error)

    def _take(self, information: TokenInformation) -> None:
        present = self._kept.get(information.token_id)
        if present is None:
            secret = secret_of(information.token_id, self._key)
            self._kept[information.token_id] = _Kept(information, secret)
        else:
            # The secret is the same, and so is what to check a login with.
            present.information = information

    # ------------------------------------------------------------------ looking up

    def find(self, token_id: str, mechanism: str) -> Known | None:
        """Return whom a token logs in; None where there is none, or it has expired. May take milliseconds."""
        kept = self._kept.get(token_id)
        if kept is None or kept.information.has_expired(self._clock.now_ms()):
            return None
        owner = kept.information.owner
        if not owner.startswith(_USER):
            return None
        return Known(kept.credential(mechanism), owner.removeprefix(_USER), kept.information.expires_ms)

    def all(self) -> list[tuple[TokenInformation, bytes]]:
        """Every token, with its secret."""
        return [(kept.information, kept.secret) for kept in list(self._kept.values())]

    def _with_secret(self, secret: bytes) -> TokenInformation:
        token = None
        for kept in list(self._kept.values()):
            # All are compared, each in the same time: nothing is to be learned from how long it takes.
            if hmac.compare_digest(kept.secret, secret):
                token = kept.information
        if token is None:
            raise DelegationTokenNotFoundError
        return token

    # ------------------------------------------------------------------ changing

    def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int
    ) -> tuple[TokenInformation, bytes]:
        """Make a token; returns it with its secret.

        Args:
            owner, requester, renewers: principals.
            max_lifetime_ms: its longest life; the config's where it is not positive, or longer.

        Raises:
            StoreError: it could not be written.
        """
        now_ms = self._clock.now_ms()
        life_ms = self._max_lifetime_ms
        if max_lifetime_ms > 0:
            life_ms = min(life_ms, max_lifetime_ms)
        token_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        max_ms = now_ms + life_ms
        expires_ms = min(max_ms, now_ms + self._expiry_ms)
        information = TokenInformation(
            token_id, owner, requester, tuple(renewers), now_ms, expires_ms, max_ms
        )
        self._write(information)
        logger.info("delegation token created token_id=%s owner=%s", token_id, owner)
        return information, self._kept[token_id].secret

    def renew(self, principal: str, secret: bytes, period_ms: int) -> int:
        """Put a token's end off; returns the new one.

        Args:
            principal: who asks.
            secret: the token's.
            period_ms: until when, from now on; the config's where it is negative.

        Raises:
            KafkaError: there is no such token, it is not theirs, or it has expired.
            StoreError: it could not be written.
        """
        information = self._theirs(principal, secret)
        return self._put_off(information, self._expiry_ms if period_ms < 0 else period_ms)

    def expire(self, principal: str, secret: bytes, period_ms: int) -> int:
        """Let a token end after `period_ms`, at once where that is negative; returns when.

        Raises:
            KafkaError, StoreError: see `renew`.
        """
        information = self._theirs(principal, secret)
        if period_ms < 0:
            self._remove(information)
            return self._clock.now_ms()
        return self._put_off(information, period_ms)

    def remove_expired(self) -> None:
        """Remove the tokens that have ended.

        Raises:
            StoreError: one could not be removed.
        """
        now_ms = self._clock.now_ms()
        for information, _ in self.all():
            if information.has_expired(now_ms):
                self._remove(information)

    def _theirs(self, principal: str, secret: bytes) -> TokenInformation:
        information = self._with_secret(secret)
        if not information.may_be_renewed_by(principal):
            raise DelegationTokenOwnerMismatchError
        return information

    def _put_off(self, information: TokenInformation, period_ms: int) -> int:
        now_ms = self._clock.now_ms()
        if information.has_expired(now_ms):
            raise DelegationTokenExpiredError
        expires_ms = min(information.max_ms, now_ms + period_ms)
        self._write(information._replace(expires_ms=expires_ms))
        logger.info("delegation token renewed token_id=%s expires_ms=%d", information.token_id, expires_ms)
        return expires_ms

    def _write(self, information: TokenInformation) -> None:
        tokens.write_token(self._access.store, information)
        self._take(information)

    def _remove(self, information: TokenInformation) -> None:
        tokens.remove_token(self._access.store, information.token_id)
        self._kept.pop(information.token_id, None)
        logger.info("delegation token ended token_id=%s owner=%s", information.token_id, information.owner)


def make_delegation_tokens(config: BrokerConfig, access: StoreAccess, clock: Clock) -> TokenKeeper | None:
    """The delegation tokens, not loaded yet; None where the configs give no key that they are made with."""
    key = config.delegation_token_secret_key or config.delegation_token_master_key
    if not key:
        return None
    return TokenKeeper(
        key,
        access,
        clock,
        expiry_ms=config.delegation_token_expiry_time_ms,
        max_lifetime_ms=config.delegation_token_max_lifetime_ms,
    )


def _readable(store: MetadataStore, token_id: str) -> TokenInformation | None:
    """A token that a notice names; None also for a node that holds something else: see `load_tokens`."""
    if "/" in token_id:
        return None
    try:
        return tokens.load_token(store, token_id)
    except NodeFormatError as error:
        logger.warning("a delegation token is passed over: %s", error)
        return None
