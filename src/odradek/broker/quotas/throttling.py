# compiled: mypyc
"""The place where requests meet the quotas: what a request took is counted when its answer is there, and the
client waits if that was too much.

Since KIP-219 (Kafka 2.0) an answer leaves at once, in every version; it says for how long the client is
throttled, where its version can, and nothing more is taken up from the connection for so long: who does not
wait by itself does so in front of a connection that is not read. Before, the answer itself came later; a
broker that is such a release does so.

- Produce counts the bytes of the request (`producer_byte_rate`), also with acks=0.
- Fetch of a consumer counts the bytes of the answer (`consumer_byte_rate`). One that is too much is not given
  and not counted: an empty answer goes in its place, and the session is as if nothing had been read. No more
  is read for a consumer than it may take in all windows at once.
- The time in which the broker works on a request counts for `request_percentage`; the time in which it waits
  for others does not. What brokers say to each other, followers' fetches and Produce with acks=0 count for
  nobody (`exempt-request-time`), unless the principal may not say it at all.
- Who changes topics is throttled by its handler (KIP-599): the longest of all times counts.

Kafka: `RequestHandlerHelper`, `KafkaApis.handleProduceRequest`, `handleFetchRequest`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.quotas.client_quota_manager import PERCENT_PER_MS, ClientQuotaManager
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from odradek.broker.fetch.sessions import Answers, FetchContext
    from odradek.broker.quotas.quota_managers import QuotaManagers
    from odradek.util.clock import Clock
    from odradek.wire.headers import RequestHeader
    from odradek.wire.messages.fetch import FetchRequest

BETWEEN_BROKERS = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
    }
)
"""Requests whose time counts for nobody."""

LOGINS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Requests that are made before anybody knows whose quota they would be of."""

_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
_BETWEEN_BROKERS, _LOGINS = frozenset(map(int, BETWEEN_BROKERS)), frozenset(map(int, LOGINS))

_ANSWER_BYTES, _TOPIC_BYTES, _PARTITION_BYTES, _ABORTED_BYTES = 18, 20, 46, 16
"""What a Fetch response has beside records: for itself, each topic, partition and aborted transaction."""


class Counted(Protocol):
    """The surroundings of a request that is counted, as its `RequestContext` has them."""

    mute_ms: int
    is_exempt: bool
    api_version: int
    header: RequestHeader

    @property
    def principal(self) -> str:
        """See `RequestContext.principal`."""
        ...

    @property
    def client_id(self) -> str:
        """See `RequestContext.client_id`."""
        ...

    def thread_ms(self, now_ms: float) -> float:
        """See `RequestContext.thread_ms`."""
        ...


class RequestThrottle:
    """Counts requests, and says how long their clients wait. There is one while any quota needs it.

    Attributes:
        delays_answers: whether the answers of throttled requests come later, as before KIP-219.
    """

    def __init__(self, managers: QuotaManagers, clock: Clock, *, delays_answers: bool = False) -> None:
        """
        Args:
            managers: the quotas.
            clock: time.
            delays_answers: see the attributes.
        """
        self._managers = managers
        self._clock = clock
        self.delays_answers = delays_answers

    def count(self, context: Counted, request: Any, response: Any, request_bytes: int) -> None:
        """Count a request whose answer is there, and have its client wait if that is too much.

        Args:
            context: the request's surroundings; `mute_ms` is set.
            request: the request.
            response: its answer, which gets its `throttle_time_ms`; None if none goes out.
            request_bytes: the request's size without the size prefix.
        """
        key = context.header.api_key
        managers = self._managers
        bandwidth_ms = 0
        if key == _PRODUCE:
            if managers.produce.is_enabled:
                bandwidth_ms = managers.produce.record(context.principal, context.client_id, request_bytes)
            context.is_exempt = request.acks == 0
        elif key == _FETCH:
            if replica_of(request, context.api_version) < 0:
                # It was counted before it was known what the answer is: `fetched`.
                if response is not None:
                    response.throttle_time_ms = context.mute_ms
                return
            context.is_exempt = True
        elif key in _LOGINS:
            context.is_exempt = True
            return
        else:
            context.is_exempt = (
                key in _BETWEEN_BROKERS and _error_of(response) != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            )
        request_ms = self._count_time(context)
        if bandwidth_ms > request_ms:
            self._throttle(context, managers.produce, bandwidth_ms)
        else:
            self._throttle(context, managers.request, request_ms)
        if response is not None and context.mute_ms and "throttle_time_ms" in response.__slots__:
            response.throttle_time_ms = max(context.mute_ms, response.throttle_time_ms)

    def count_network_time(self, context: Counted, elapsed_ms: float) -> None:
        """Count the time in which an answer was put into bytes; it counts for the client's next request."""
        manager = self._managers.request
        if not manager.is_enabled:
            return
        if context.is_exempt:
            manager.record_exempt(elapsed_ms * PERCENT_PER_MS)
        else:
            manager.record_no_throttle(context.principal, context.client_id, elapsed_ms * PERCENT_PER_MS)

    def most_fetched(self, context: Counted, request: FetchRequest, max_bytes: int) -> int:
        """Return how many bytes a fetch may read of the `max_bytes` that it may otherwise."""
        manager = self._managers.fetch
        if not manager.is_enabled or replica_of(request, context.api_version) >= 0:
            return max_bytes
        # A quota may be negative: whoever sets it may set any number.
        return max(0, int(min(max_bytes, manager.most_at_once(context.principal, context.client_id))))

    def fetched(self, context: Counted, session: FetchContext, answers: Answers) -> FetchResponse | None:
        """Count what a consumer is to get.

        Args:
            context: the request's surroundings; `mute_ms` is set if it is too much.
            session: the request's, as it was found.
            answers: what was read.

        Returns:
            What it gets instead, if it is too much; else None.
        """
        manager = self._managers.fetch
        principal, client_id = context.principal, context.client_id
        request_ms = self._count_time(context)
        bandwidth_ms = size = 0
        if manager.is_enabled:
            size = _response_bytes(session, answers)
            bandwidth_ms = manager.record(principal, client_id, size)
        if bandwidth_ms > request_ms:
            self._throttle(context, manager, bandwidth_ms)
        else:
            self._throttle(context, self._managers.request, request_ms)
        if not context.mute_ms or self.delays_answers:
            return None
        if size:
            manager.record_no_throttle(principal, client_id, -size)
        error, session_id = session.error_without_answers
        return FetchResponse(
            error_code=int(error), session_id=session_id, throttle_time_ms=context.mute_ms, responses=[]
        )

    def _count_time(self, context: Counted) -> int:
        manager = self._managers.request
        if not manager.is_enabled:
            return 0
        percent = context.thread_ms(self._clock.monotonic_ms()) * PERCENT_PER_MS
        if context.is_exempt:
            manager.record_exempt(percent)
            return 0
        return manager.record(context.principal, context.client_id, percent)

    @staticmethod
    def _throttle(context: Counted, by: ClientQuotaManager, throttle_ms: int) -> None:
        if throttle_ms > context.mute_ms:
            context.mute_ms = throttle_ms
            by.throttled(context.principal, context.client_id, throttle_ms)


def replica_of(request: FetchRequest, version: int) -> int:
    """The broker id of the follower that fetches, negative for a consumer."""
    return request.replica_state.replica_id if version >= 15 else request.replica_id


def _error_of(response: Any) -> int:
    return getattr(response, "error_code", 0)


def _response_bytes(session: FetchContext, answers: Answers) -> int:
    """The size of the answer: exact in the records, and to a few bytes in what is around them."""
    size, topic = _ANSWER_BYTES, None
    in_session = session.session is not None
    for partition, answer in answers:
        records = len(answer.records or b"")
        if (
            in_session
            and not records
            and not answer.error_code
            and partition.high_watermark == answer.high_watermark
            and partition.log_start_offset == answer.log_start_offset
        ):
            continue  # nothing new: a session's answer leaves it out
        if partition.topic != topic:
            topic = partition.topic
            size += _TOPIC_BYTES
        size += _PARTITION_BYTES + records + _ABORTED_BYTES * len(answer.aborted_transactions or ())
    return size
