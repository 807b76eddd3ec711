"""Clients' telemetry (KIP-714): who they are, and which of their metrics are wanted: none.

Nobody subscribes to metrics here, so clients are told to send nothing, and to ask again after
`PUSH_INTERVAL_MS`. What one sends all the same is checked as Kafka checks it, and dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from uuid import uuid4

from fastcrc import crc32

from odradek.errors import (
    InvalidRequestError,
    KafkaError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from odradek.records.compression import Codec
from odradek.wire.primitives import ZERO_UUID, uuid_to_text

PUSH_INTERVAL_MS = 300_000
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
_RESERVED = frozenset({ZERO_UUID, bytes(15) + b"\x01"})
_MAX_CLIENTS = 16_384
"""As many are remembered; of more, those that have been silent for longest are forgotten."""

_NEVER = -(2**62)


class _Client:
    """One client instance: when it last asked and sent, and whether it has said goodbye."""

    __slots__ = ("asked_ms", "sent_ms", "terminating")

    def __init__(self) -> None:
        self.asked_ms = self.sent_ms = _NEVER
        self.terminating = False


class ClientTelemetry:
    """The clients that have asked what is wanted of them.

    Args:
        max_bytes: what a client may send at once (`telemetry.max.bytes`).
        new_id: makes ids of client instances, 16 bytes each.
    """

    def __init__(self, max_bytes: int, new_id: Callable[[], bytes] = lambda: uuid4().bytes) -> None:
        self.max_bytes = max_bytes
        self._new_id = new_id
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def subscribe(self, client_id: bytes, now_ms: int) -> tuple[bytes, int]:
        """A client asks what is wanted.

        Args:
            client_id: its instance id, zeros if it has none yet.
            now_ms: the time.

        Returns:
            Its id, and the id of its subscription.

        Raises:
            ThrottlingQuotaExceededError: it has asked, or sent, within the push interval.
        """
        if client_id == ZERO_UUID:
            client_id = self._new_id()
        client = self._client(client_id)
        if now_ms - max(client.asked_ms, client.sent_ms) < PUSH_INTERVAL_MS:
            raise _too_soon(client_id)
        client.asked_ms = now_ms
        return client_id, subscription_of(client_id)

    def push(
        self, client_id: bytes, subscription: int, codec: int, size: int, now_ms: int, *, terminating: bool
    ) -> None:
        """A client sends metrics.

        Args:
            client_id, subscription: as `subscribe` gave them.
            codec: the compression's number.
            size: how many bytes it sends.
            now_ms: the time.
            terminating: whether it will send no more.

        Raises:
            InvalidRequestError: no such id can be, or it had said that it would send no more.
            ThrottlingQuotaExceededError: it has sent within the push interval.
            UnknownSubscriptionIdError: it has another subscription.
            UnsupportedCompressionTypeError: there is no such codec.
            TelemetryTooLargeError: they are more bytes than a client may send.
        """
        if client_id in _RESERVED:
            raise InvalidRequestError(
                f"Invalid request from the client [{uuid_to_text(client_id)}], invalid client instance id"
            )
        client = self._client(client_id)
        try:
            self._check(client, client_id, subscription, codec, size, now_ms, terminating)
        finally:
            client.terminating = terminating

    def _check(
        self,
        client: _Client,
        client_id: bytes,
        subscription: int,
        codec: int,
        size: int,
        now_ms: int,
        terminating: bool,
    ) -> None:
        instance_id = uuid_to_text(client_id)
        if client.terminating:
            raise InvalidRequestError(
                f"Client [{instance_id}] sent the previous request with state terminating to TRUE, can not "
                "acceptany requests after that"
            )
        # The first push after a subscription may come at any time: clients spread theirs at random.
        if client.asked_ms > client.sent_ms or now_ms - client.sent_ms >= PUSH_INTERVAL_MS:
            client.sent_ms = now_ms
        elif not terminating:
            raise _too_soon(client_id)
        if subscription != subscription_of(client_id):
            raise UnknownSubscriptionIdError(f"Unknown client subscription id for the client [{instance_id}]")
        if codec not in list(Codec):
            raise UnsupportedCompressionTypeError(
                f"Unknown compression type [{codec}] is received in telemetry request from [{instance_id}]"
            )
        if size > self.max_bytes:
            raise TelemetryTooLargeError(
                f"Telemetry request from [{instance_id}] is larger than the maximum allowed size "
                f"[{self.max_bytes}]"
            )

    def _client(self, client_id: bytes) -> _Client:
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = _Client()
            if len(self._clients) > _MAX_CLIENTS:
                self._clients.popitem(last=False)
        else:
            self._clients.move_to_end(client_id)
        return client


def subscription_of(client_id: bytes) -> int:
    """The id of a client's subscription to nothing, an int32, as Kafka makes it of metrics and interval."""
    words = int.from_bytes(client_id[:8]) ^ int.from_bytes(client_id[8:])
    number: int = crc32.iscsi(b"[]%d" % PUSH_INTERVAL_MS) ^ (words >> 32) ^ (words & 0xFFFFFFFF)
    return number - 2**32 if number >= 2**31 else number


def _too_soon(client_id: bytes) -> KafkaError:
    return ThrottlingQuotaExceededError(
        f"Request from the client [{uuid_to_text(client_id)}] arrived before the next push interval time"
    )
