"""Clients' telemetry (KIP-714): who they are, which of their metrics are wanted, and what they have pushed.

The wanted metrics stand in the configs of `client-metrics` entities. Without a subscription clients are told
to send nothing, and to ask again after `DEFAULT_INTERVAL_MS`. What one sends is checked as Kafka checks it
(`ClientMetricsManager`), and kept in `PushedMetrics`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from uuid import uuid4

from fastcrc import crc32

from odradek.broker.metrics.metrics import MetricKey
from odradek.broker.metrics.otlp import MalformedMetricsError, read_points
from odradek.broker.metrics.pushed_metrics import PushedMetrics, PushingClient
from odradek.cluster.configs.client_metrics_config import (
    ALL_METRICS,
    DEFAULT_INTERVAL_MS,
    Subscription,
    parse_subscription,
    subscriptions,
)
from odradek.cluster.configs.config_def import ConfigError
from odradek.errors import (
    InvalidRecordError,
    InvalidRequestError,
    KafkaError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from odradek.records.compression import Codec, decompress
from odradek.wire.primitives import ZERO_UUID, uuid_to_text

logger = logging.getLogger(__name__)

ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
_RESERVED = frozenset({ZERO_UUID, bytes(15) + b"\x01"})
_MAX_CLIENTS = 16_384
"""As many are remembered; of more, those that have been silent for longest are forgotten."""

_NEVER = -(2**62)

MOST_UNPACKED = 4 * 1024 * 1024
"""The most bytes that a push may unpack to."""

Configs = Mapping[str, Mapping[str, str]]


class Wish(NamedTuple):
    """The metrics that are wanted of one client.

    Attributes:
        metrics: prefixes of names, or `*`; none for nothing.
        interval_ms: how often.
        subscription_id: changes with them.
    """

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


class Asking(NamedTuple):
    """The client that asks or pushes, as far as its connection tells."""

    client_id: str
    software_name: str
    software_version: str
    principal: str
    host: str
    port: int


class _Client:
    """One client instance: when it last asked and sent, what it was told, and whether it has said goodbye."""

    __slots__ = ("asked_ms", "may_ask", "sent_ms", "terminating", "wish")

    def __init__(self, wish: Wish) -> None:
        self.asked_ms = self.sent_ms = _NEVER
        self.terminating = False
        # What it has pushed told that it must ask anew. Kafka means to let it, but does not.
        self.may_ask = False
        self.wish = wish


class ClientTelemetry:
    """The clients that have asked what is wanted of them, and what they have pushed.

    Attributes:
        pushed: what is kept.
        unknown_subscriptions, throttled, refused: how often a client came with another subscription than it
            has, too soon, or with what are no metrics.
    """

    def __init__(
        self,
        max_bytes: int,
        configs: Callable[[], Configs] = dict,
        new_id: Callable[[], bytes] = lambda: uuid4().bytes,
    ) -> None:
        """
        Args:
            max_bytes: what a client may send at once (`telemetry.max.bytes`).
            configs: gives the configs of all entities, the same object as long as none has changed.
            new_id: makes ids of client instances, 16 bytes each.
        """
        self.max_bytes = max_bytes
        self.pushed = PushedMetrics()
        self.unknown_subscriptions = self.throttled = self.refused = 0
        self._new_id = new_id
        self._configs = configs
        self._configs_read: Configs | None = None
        self._subscriptions: list[Subscription] = []
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def samples(self) -> Iterator[tuple[MetricKey, float]]:
        """Yield the metrics about all this, under the names of Kafka's `ClientMetricsManager`."""
        kind = "kafka.server:client-metrics"
        yield (kind, "instance-count", ()), len(self)
        yield (kind, "unknown-subscription-request-count", ()), self.unknown_subscriptions
        yield (kind, "throttle-count", ()), self.throttled
        yield (kind, "plugin-error-count", ()), self.refused

    def subscribe(self, client_id: bytes, asking: Asking, now_ms: int) -> tuple[bytes, Wish]:
        """A client asks what is wanted.

        Args:
            client_id: its instance id, zeros if it has none yet.
            asking: who it is.
            now_ms: the time.

        Returns:
            Its id, and what is wanted of it.

        Raises:
            ThrottlingQuotaExceededError: it has asked, or sent, within the push interval.
        """
        if client_id == ZERO_UUID:
            client_id = self._new_id()
        client = self._client(client_id, asking)
        since_ms = now_ms - max(client.asked_ms, client.sent_ms)
        if since_ms < client.wish.interval_ms and not client.may_ask:
            self.throttled += 1
            raise _too_soon(client_id)
        client.asked_ms, client.may_ask = now_ms, False
        return client_id, client.wish

    def push(
        self,
        client_id: bytes,
        asking: Asking,
        subscription: int,
        codec: int,
        size: int,
        now_ms: int,
        *,
        terminating: bool,
    ) -> Wish:
        """Check whether a client may send metrics.

        Args:
            client_id, subscription: as `subscribe` gave them.
            asking: who it is.
            codec: the compression's number.
            size: how many bytes it sends.
            now_ms: the time.
            terminating: whether it will send no more.

        Returns:
            What is wanted of it.

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
        client = self._client(client_id, asking)
        try:
            self._check(client, client_id, subscription, codec, size, now_ms, terminating)
        finally:
            client.terminating = terminating
        return client.wish

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
        if client.asked_ms > client.sent_ms or now_ms - client.sent_ms >= client.wish.interval_ms:
            client.sent_ms = now_ms
        elif not terminating:
            self.throttled += 1
            raise _too_soon(client_id)
        if subscription != client.wish.subscription_id:
            self.unknown_subscriptions += 1
            client.may_ask = True
            raise UnknownSubscriptionIdError(f"Unknown client subscription id for the client [{instance_id}]")
        if codec not in list(Codec):
            client.may_ask = True
            raise UnsupportedCompressionTypeError(
                f"Unknown compression type [{codec}] is received in telemetry request from [{instance_id}]"
            )
        if size > self.max_bytes:
            raise TelemetryTooLargeError(
                f"Telemetry request from [{instance_id}] is larger than the maximum allowed size "
                f"[{self.max_bytes}]"
            )

    def keep(
        self, client_id: bytes, asking: Asking, wish: Wish, codec: int, data: memoryview, now_ms: int
    ) -> Iterator[None]:
        """Keep what `push` has let in, with pauses. `wish` is what it returned, and wants something.

        Raises:
            InvalidRecordError: it does not unpack, to too much, or to something else than metrics.
        """
        client = PushingClient(
            asking.client_id,
            uuid_to_text(client_id),
            asking.software_name,
            asking.software_version,
            asking.principal,
            asking.host,
        )
        try:
            points = read_points(decompress(codec, data, MOST_UNPACKED))
            series = None
            for number, point in enumerate(points):
                series = series or self.pushed.of(client_id, client, now_ms, wish.interval_ms)
                if series is None:
                    return
                self.pushed.add(series, point)
                if number % 32 == 0:
                    yield
        except (KafkaError, MalformedMetricsError) as error:
            self.refused += 1
            raise InvalidRecordError(f"metrics of the client [{client.instance_id}]: {error}") from error

    def _client(self, client_id: bytes, asking: Asking) -> _Client:
        client = self._clients.get(client_id)
        if self._configs_read is not self._configs():
            self._read_subscriptions()
        if client is None:
            client = self._clients[client_id] = _Client(self._wish(client_id, asking))
            if len(self._clients) > _MAX_CLIENTS:
                self._clients.popitem(last=False)
        else:
            self._clients.move_to_end(client_id)
            wish = self._wish(client_id, asking)
            if wish != client.wish:
                # It is to hear of it at once: as one that has just come.
                client.wish = wish
                client.asked_ms = client.sent_ms = _NEVER
        return client

    def _read_subscriptions(self) -> None:
        configs = self._configs_read = self._configs()
        self._subscriptions = []
        for entity in subscriptions(configs).values():
            if configs[entity]:
                try:
                    self._subscriptions.append(parse_subscription(configs[entity]))
                except (ConfigError, KafkaError) as error:
                    logger.warning("a subscription to clients' metrics is passed over: %s: %s", entity, error)

    def _wish(self, client_id: bytes, asking: Asking) -> Wish:
        attributes = {
            "client_instance_id": uuid_to_text(client_id),
            "client_id": asking.client_id,
            "client_software_name": asking.software_name,
            "client_software_version": asking.software_version,
            "client_source_address": asking.host,
            "client_source_port": str(asking.port),
        }
        metrics: dict[str, None] = {}
        interval_ms = DEFAULT_INTERVAL_MS
        for subscription in self._subscriptions:
            if subscription.matches(attributes):
                metrics.update(dict.fromkeys(subscription.metrics))
                interval_ms = min(interval_ms, subscription.interval_ms)
        wanted = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics)
        return Wish(wanted, interval_ms, subscription_of(client_id, wanted, interval_ms))


def subscription_of(
    client_id: bytes, metrics: tuple[str, ...] = (), interval_ms: int = DEFAULT_INTERVAL_MS
) -> int:
    """The id of a client's subscription, an int32, as Kafka makes it of metrics and interval."""
    words = int.from_bytes(client_id[:8]) ^ int.from_bytes(client_id[8:])
    text = f"[{', '.join(metrics)}]{interval_ms}"
    number: int = crc32.iscsi(text.encode()) ^ (words >> 32) ^ (words & 0xFFFFFFFF)
    return number - 2**32 if number >= 2**31 else number


def _too_soon(client_id: bytes) -> KafkaError:
    return ThrottlingQuotaExceededError(
        f"Request from the client [{uuid_to_text(client_id)}] arrived before the next push interval time"
    )
