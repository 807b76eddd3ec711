"""The short cut for Metadata: the answer to the same question about the same cluster is the same bytes.

Clients ask the same few questions again and again, thousands of them the same one. An answer is kept under
the version, the listener and the bytes of the request's body, as long as the image of the cluster is the one
that it was made from. Questions that could change anything (an unknown topic may be created) or be refused
are not kept; nor is anything while there are permissions to ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.context import RequestContext
from odradek.broker.network.answer import Answer
from odradek.cluster.nodes import NO_TOPIC_ID
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_request_header, encode_response
from odradek.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from odradek.broker.network.answer import Later
    from odradek.broker.network.peer import Peer
    from odradek.broker.services import BrokerServices
    from odradek.broker.slices import Steps
    from odradek.cluster.image import ClusterImage

MAX_FRAME_BYTES = 4096
"""Longer questions name many topics; they are rare, and each of its own kind."""

MAX_KEPT_BYTES = 16 * 1024 * 1024
"""What all kept answers may take together, their questions included."""

MAX_STEPS = 2_000
"""Answers about more topics and partitions are made in slices, each time anew."""

_FLEXIBLE_FROM = 9
_NULL = 0xFFFF
_JOINED_BYTES = 4096
_ENTRY_BYTES = 500

Handle = Callable[[RequestContext, MetadataRequest], Any]


class _TooLong(Exception):
    """An answer is too long to be made at once."""


class FastMetadata:
    """Answers Metadata frames of one broker; see `odradek.broker.handler_types.FastPath`."""

    __slots__ = ("_broker", "_handle", "_image", "_kept", "_kept_bytes", "_monotonic_ms", "_requests")

    def __init__(self, broker: BrokerServices, handle: Handle) -> None:
        """
        Args:
            broker: whose cluster is described.
            handle: the ordinary handler, which makes each answer once.
        """
        self._broker = broker
        self._handle = handle
        self._requests = broker.metrics.requests.of("Metadata")
        self._monotonic_ms = broker.clock.monotonic_ms
        self._image: ClusterImage | None = None
        self._kept: dict[tuple[int, str, bytes], tuple[bytes, bytes]] = {}
        self._kept_bytes = 0

    def __call__(self, peer: Peer, frame: Any, later: Later) -> Any:
        """See `odradek.broker.handler_types.FastPath`."""
        broker = self._broker
        size = len(frame)
        if (
            size > MAX_FRAME_BYTES
            or size < 10
            or broker.authorizer is not None
            or broker.request_log is not None
        ):
            return NotImplemented
        data = bytes(frame)
        version = data[2] << 8 | data[3]
        client = data[8] << 8 | data[9]
        at = 10 if client == _NULL else 10 + client
        if version >= _FLEXIBLE_FROM:
            if at >= size or data[at]:
                return NotImplemented
            at += 1
        image = broker.controller.image
        if image is not self._image:
            self._forget(image)
        key = (version, peer.listener_name, data[at:])
        started_ms = self._monotonic_ms()
        kept = self._kept.get(key)
        if kept is None:
            kept = self._make(peer, data, key, image)
            if kept is None:
                return NotImplemented
        elif client not in (0, _NULL) and not _is_text(data[10 : 10 + client], client):
            return NotImplemented
        prefix, body = kept
        head = prefix + data[4:8]
        requests = self._requests
        requests.requests += 1
        requests.request_bytes += size
        requests.observe(self._monotonic_ms() - started_ms, 8 + len(body))
        return Answer([head + body] if len(body) <= _JOINED_BYTES else [head, body])

    def _forget(self, image: ClusterImage) -> None:
        self._image = image
        self._kept.clear()
        self._kept_bytes = 0

    def _make(
        self, peer: Peer, data: bytes, key: tuple[int, str, bytes], image: ClusterImage
    ) -> tuple[bytes, bytes] | None:
        """Ask the handler, and keep what it says; None where this is not the place to ask it."""
        broker = self._broker
        try:
            header, at = decode_request_header(data)
            version = header.api_version
            request, _ = MetadataRequest.decode_from(data, version, at)
            for topic in request.topics or ():
                if topic.topic_id == NO_TOPIC_ID and (topic.name is None or image.topic(topic.name) is None):
                    return None
            context = RequestContext.of_frame(broker, header, peer)
            response = _result_of(self._handle(context, request))
            whole = b"".join(encode_response(ApiKey.METADATA, version, header.correlation_id, response))
        except Exception:
            # Nothing has been changed; the ordinary way says what is wrong.
            return None
        kept = whole[:4], whole[8:]
        cost = len(whole) + len(data) + _ENTRY_BYTES
        if self._kept_bytes + cost > MAX_KEPT_BYTES:
            self._forget(image)
        if cost <= MAX_KEPT_BYTES:
            self._kept[key] = kept
            self._kept_bytes += cost
        return kept


def _result_of(steps: Steps[Any]) -> Any:
    """What comes of the handler's steps.

    Raises:
        _TooLong: they are more than should be taken at once.
    """
    try:
        for _ in range(MAX_STEPS):
            next(steps)
    except StopIteration as end:
        return end.value
    raise _TooLong


def _is_text(data: bytes, size: int) -> bool:
    """Whether a client id is what its length says, and text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return len(data) == size
