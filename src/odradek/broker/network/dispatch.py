# compiled: mypyc
"""From one frame to one answer: header, version range, decode, handler, encode.

Nothing here knows a socket. A frame that cannot be answered raises `ProtocolError`, and the connection that
sent it is closed; everything else ends as an `Answer`, at once or later.

A request is begun (`_begin`), its handler is run (`_run`), and its answer is made (`_finish`). Between the
last two stands `_settle`: a handler returns a response, a promise of one, or steps (`Handled`).

A large frame is decoded, handled and answered in slices (`odradek.broker.event_loop.slices`), and so is any
request whose handler returns work in steps. Until it is answered, or waits for others, the connection's next
requests wait.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from odradek.broker.apis.error_counts import error_fields, errors_of
from odradek.broker.apis.error_responses import error_in_steps, shorten_messages
from odradek.broker.apis.registry import Handler, Handlers, rewritten
from odradek.broker.event_loop.slices import NobodyWaits, Slicer, Steps, is_in_steps, take_apart
from odradek.broker.kafka_versions import before_groups
from odradek.broker.metrics.metrics import FETCH_CONSUMER, FETCH_FOLLOWER
from odradek.broker.network.outbox import UNREAD
from odradek.broker.requests.answer import CLOSE, NO_ANSWER, Answer, Buffers, Later
from odradek.broker.requests.applications import name_application
from odradek.broker.requests.between_brokers import purpose_of
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.handler_types import Refused
from odradek.errors import KafkaError, ProtocolError
from odradek.errors.codes import ErrorCode
from odradek.util.futures import error_of
from odradek.util.promise import Promise
from odradek.util.repeats import Repeats
from odradek.wire.api import ApiKey, request_header_version, response_header_version
from odradek.wire.errors import InvalidMessageError
from odradek.wire.headers import (
    MOST_UNKNOWN_TAGS,
    RequestHeader,
    decode_request_header,
    encode_response,
    encode_response_in_steps,
    response_head,
)
from odradek.wire.messages import request_class, response_class
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

if TYPE_CHECKING:
    from odradek.broker.metrics.metrics import RequestMetrics
    from odradek.broker.quotas.throttling import RequestThrottle
    from odradek.broker.requests.handler_types import Handled
    from odradek.broker.requests.peer import Peer
    from odradek.broker.services import BrokerServices
    from odradek.wire.structs import Struct

logger = logging.getLogger(__name__)

_API_VERSIONS = int(ApiKey.API_VERSIONS)
_unpack_key_and_version: Final = struct.Struct(">I").unpack_from

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""The largest request that is made of many small things: decoded they take twenty times the memory, and
while they are looked at everybody else waits. It has room for 100,000 partitions."""

QUICK_ELEMENTS: Final = 512
"""Requests with more elements of arrays and unknown tagged fields are decoded in steps: without the compiled
codec these take 1 ms."""

LARGE_REQUEST_BYTES: Final = 256 * 1024
"""Longer frames of many small things are worked on one at a time."""

_MORE_REQUEST_BYTES = {
    ApiKey.PRODUCE: 2**31 - 1,
    ApiKey.JOIN_GROUP: 16 * 1024 * 1024,
    ApiKey.SYNC_GROUP: 16 * 1024 * 1024,
}
"""Requests whose bytes are mostly one piece; for Produce `socket.request.max.bytes` is the only bound."""


_SAY_THAT_THEY_FAIL = (ApiKey.PRODUCE, ApiKey.FETCH)
"""Requests of which there are so many that their answers are searched for errors only where the handler has
met one (`RequestContext.has_errors`)."""


class _Route:
    """The way of all requests of one API in one version.

    Attributes:
        handler, version, metrics: the API's; `followers`: the metrics of fetches by other brokers.
        request_class, response_class: of the messages.
        call: the handler's function.
        decode_header, decode, encode: of the messages, see `decode_within` and `encode_parts` of
            `odradek.wire.codec.Codec`.
        error_fields: where its responses tell errors; `looks_for_errors`: also where nobody says that there
            are some.
        most_bytes: larger requests are refused; `takes_more`: whether most of such a request is one piece.
    """

    __slots__ = (
        "call",
        "decode",
        "decode_header",
        "encode",
        "error_fields",
        "followers",
        "handler",
        "looks_for_errors",
        "metrics",
        "most_bytes",
        "request_class",
        "response_class",
        "response_header_version",
        "takes_more",
        "version",
    )

    def __init__(
        self, handler: Handler, version: int, metrics: RequestMetrics, followers: RequestMetrics
    ) -> None:
        key = handler.api_key
        self.handler = handler
        self.version = version
        self.metrics = metrics
        self.followers = followers
        self.request_class = request_class(key)
        self.call = handler.function
        self.decode_header = RequestHeader.codec(request_header_version(key, version)).decode_within
        self.decode = self.request_class.codec(version).decode_within
        self.response_class = response_class(key)
        self.error_fields = error_fields(self.response_class)
        self.looks_for_errors = self.error_fields is not None and key not in _SAY_THAT_THEY_FAIL
        encode = self.response_class.codec(version).encode_parts
        self.encode = encode if handler.rewrite is None else rewritten(encode, handler.rewrite)
        self.response_header_version = response_header_version(key, version)
        self.takes_more = key in _MORE_REQUEST_BYTES
        self.most_bytes = _MORE_REQUEST_BYTES.get(key, MAX_REQUEST_BYTES)


# A free list of one: mostly an instance dies before the next is made, which then takes its memory.
@mypyc_attr(free_list_len=1)
class _Exchange:
    """A request between its frame and its answer, with what metrics and the request log will say of it.

    Attributes:
        is_sliced: whether it, or what its handler does, may be much: the response is encoded in slices.
        waited_ms: for how long it has waited for others; `waits_since_ms` is when it last began to.
    """

    __slots__ = (
        "context",
        "is_sliced",
        "request",
        "request_bytes",
        "route",
        "started_ms",
        "waited_ms",
        "waits_since_ms",
    )

    def __init__(self, route: _Route, context: RequestContext, request_bytes: int, started_ms: float) -> None:
        self.route = route
        self.context = context
        self.request: Any = None
        self.request_bytes = request_bytes
        self.started_ms = started_ms
        self.is_sliced = False
        self.waited_ms = 0.0
        self.waits_since_ms = 0.0


class Dispatcher:
    """Turns frames into answers with the registered handlers.

    Attributes:
        slicer: runs what takes long, and says when many requests have taken long.
        throttle: counts what requests take; None while no quota asks for that.
    """

    def __init__(self, broker: BrokerServices, handlers: Handlers, slicer: Slicer | None = None) -> None:
        """
        Args:
            broker: handed to the handlers.
            handlers: what is served.
            slicer: runs what takes long.
        """
        self.throttle: RequestThrottle | None = None
        self._broker = broker
        self.slicer = slicer if slicer is not None else Slicer()
        self._clock = broker.clock
        self._handlers = handlers
        handlers.on_change = self.renew
        self._request_metrics = broker.metrics.requests
        # By API key and version, as the first four bytes of a frame have them. Filled on first use, because a
        # start would pay for the modules of all handlers (docs/decisions/handlers-on-first-use.md).
        self._routes: dict[int, _Route] = {}
        # In place of these, where the broker passes for a release: the clients' and the other brokers'.
        # `_routes` stays empty then, so that every frame is looked at for who sends it.
        self._routes_of_release: dict[int, _Route] = {}
        self._routes_between_brokers: dict[int, _Route] = {}
        self._repeats = Repeats(logger)
        # Ways of releases that read a frame before its API is looked up: 0.9's, and 0.8.2's.
        self._silent = handlers.release is not None and handlers.release.is_silent
        self._before_groups = handlers.release is not None and handlers.release.is_before_groups

    def dispatch(self, peer: Peer, frame: Any, later: Later) -> Answer | None:
        """Process one frame.

        Args:
            peer: who sent it.
            frame: the request without its size prefix; not kept, but by way of `later.own`.
            later: takes the answer when the handler does not answer at once; called once, from the loop.

        Returns:
            The answer, or None when `later` will be called.

        Raises:
            ProtocolError: the connection is to be closed, with this reason.
        """
        size = len(frame)
        if size < 4:
            raise ProtocolError(f"a request of {size} bytes is too short for its header")
        (key_and_version,) = _unpack_key_and_version(frame)
        route = self._routes.get(key_and_version)
        if route is None:
            route_or_answer = self._find_route(frame, peer, later)
            if not isinstance(route_or_answer, _Route):
                return route_or_answer
            route = route_or_answer
        if size > route.most_bytes:
            raise ProtocolError(
                f"a {route.handler.api_key.api_name} request of {size} bytes: the most is {route.most_bytes}"
            )
        headed = route.decode_header(frame, 0, MOST_UNKNOWN_TAGS)
        if headed is None:
            raise ProtocolError(f"a request's header has more than {MOST_UNKNOWN_TAGS} unknown tagged fields")
        header, body = headed
        # Records are views into the frame: a handler that waits makes them its own first (Produce's does).
        # What stands behind the request is passed over, as Kafka does: librdkafka sends three bytes too many
        # with a Metadata request for all topics.
        decoded = route.decode(frame, body, QUICK_ELEMENTS)
        exchange = self._begin(route, header, peer, size)
        if decoded is None:
            steps = self._decode_and_settle(exchange, later.own(frame), body, later)
            return self._slice(
                exchange, steps, later, large=size > LARGE_REQUEST_BYTES and not route.takes_more
            )
        exchange.request = decoded[0]
        handled = self._run(exchange)
        if handled.__class__ is route.response_class and self.throttle is None:
            # `_settle` in short, for most requests.
            return self._finish(exchange, handled, None, later)
        return self._settle(exchange, handled, later)

    # ------------------------------------------------------------------ routes

    def renew(self) -> None:
        """Forget the routes, which hold the handlers' functions: a handler has been replaced."""
        self._routes.clear()
        self._routes_of_release.clear()
        self._routes_between_brokers.clear()

    def _find_route(self, frame: Any, peer: Peer, later: Later) -> _Route | Answer | None:
        """Find the route of a frame whose API and version have none yet; where there is none, answer it."""
        key = frame[0] << 8 | frame[1]
        # Other brokers are answered as of the newest release: a cluster would not work otherwise.
        if self._handlers.release is not None:
            (key_and_version,) = _unpack_key_and_version(frame)
            route_of_release = self._find_route_between_brokers(frame, key) or self._routes_of_release.get(
                key_and_version
            )
            if route_of_release is not None:
                return route_of_release
        if self._silent and self._handlers.ignores(key):
            return NO_ANSWER
        header, body = decode_request_header(frame)
        if self._before_groups:
            refusal = before_groups.answer(header.api_key, memoryview(frame)[body:])
            if refusal is not None:
                return Answer([struct.pack(">ii", len(refusal) + 4, header.correlation_id), refusal])
        handler = self._handlers.get(header.api_key)
        if handler is None:
            raise ProtocolError(f"API key {header.api_key} is not served here")
        version = header.api_version
        if version not in handler.versions:
            return self._answer_other_version(handler, header, frame, peer, later)
        route = self._new_route(handler, version)
        routes = self._routes if self._handlers.release is None else self._routes_of_release
        routes[header.api_key << 16 | version] = route
        return route

    def _new_route(self, handler: Handler, version: int) -> _Route:
        table, key = self._request_metrics, handler.api_key
        if key == ApiKey.FETCH:
            return _Route(handler, version, table.of(FETCH_CONSUMER), table.of(FETCH_FOLLOWER))
        metrics = table.of(key.api_name)
        return _Route(handler, version, metrics, metrics)

    def _find_route_between_brokers(self, frame: Any, key: int) -> _Route | None:
        """Find the route of a request of another broker, whatever release this one is; None for clients."""
        if self._broker.channels is None:
            return None
        handler = self._handlers.between_brokers.get(key)
        version = frame[2] << 8 | frame[3]
        if handler is None or version not in handler.versions:
            return None
        try:
            header, _ = decode_request_header(frame)
        except ProtocolError:
            return None  # for the release to say
        if purpose_of(header.client_id) is None:
            return None
        routes = self._routes_between_brokers
        route = routes.get(key << 16 | version)
        if route is None:
            route = routes[key << 16 | version] = self._new_route(handler, version)
        return route

    def _answer_other_version(
        self, handler: Handler, header: RequestHeader, frame: Any, peer: Peer, later: Later
    ) -> Answer | None:
        """The answer to a request in a version that the handler does not have."""
        version = header.api_version
        if handler.api_key == _API_VERSIONS:
            return self._answer_unsupported_api_versions(header)
        other = self._handlers.read_as(header.api_key, version)
        if other is not None:
            # The oldest releases did not look at the version.
            return self.dispatch(peer, b"%b%b%b" % (frame[:2], other.to_bytes(2), frame[4:]), later)
        if self._handlers.ignores(header.api_key, version):
            return NO_ANSWER
        raise ProtocolError(
            f"version {version} of {handler.api_key.api_name} is not supported "
            f"({handler.versions[0]} to {handler.versions[-1]} are)"
        )

    # ------------------------------------------------------------------ from the handler to the answer

    def _settle(self, exchange: _Exchange, handled: Handled[Struct], later: Later) -> Answer | None:
        """Return the answer to what a handler has returned; None when `later` will be called with it."""
        # No `take_all(self._settle_in_steps(...))`, which took 5 % more instructions of a long poll.
        # tests/broker/network/test_dispatch_in_steps.py holds the two alike.
        if isinstance(handled, Promise):
            if not handled.done():
                self._await(exchange, handled, later)
                return None
            handled = self._result_of(exchange, handled)
        if exchange.is_sliced or is_in_steps(handled):
            return self._slice(exchange, self._settle_in_steps(exchange, handled, later), later)
        response: Any = handled
        if self.throttle is not None:
            self.throttle.count(exchange.context, exchange.request, response, exchange.request_bytes)
        return self._finish(exchange, response, None, later)

    def _settle_in_steps(
        self, exchange: _Exchange, handled: Handled[Struct], later: Later
    ) -> Steps[Answer | None]:
        """`_settle`, with pauses also while the response is put into bytes and let go of."""
        outcome: Any = handled
        if is_in_steps(outcome):
            try:
                outcome = yield from outcome
            except NobodyWaits:
                exchange.context.close_connection = True
                outcome = None
            except Exception as error:
                outcome = self._failed(exchange, error)
        if isinstance(outcome, Promise):
            if not outcome.done():
                self._await(exchange, outcome, later)
                return None
            outcome = self._result_of(exchange, outcome)
        # The response of an error is made in steps where it speaks of many things.
        response = (yield from outcome) if is_in_steps(outcome) else outcome
        if self.throttle is not None:
            # Before it is put into bytes: the response says for how long the client is throttled.
            self.throttle.count(exchange.context, exchange.request, response, exchange.request_bytes)
        buffers = None
        if response is not None:
            key, version = exchange.route.handler.api_key, exchange.route.version
            correlation_id = exchange.context.header.correlation_id
            try:
                buffers = yield from encode_response_in_steps(key, version, correlation_id, response)
                rewrite = exchange.route.handler.rewrite
                if rewrite is not None:
                    buffers = rewrite(response, buffers)
            except Exception:
                buffers = None  # `_finish` says what is wrong, or shortens messages
        answer = self._finish(exchange, response, buffers, later)
        yield from take_apart(exchange.request)
        if response is not None:
            yield from take_apart(response)
        return answer

    def _decode_and_settle(
        self, exchange: _Exchange, frame: Any, body: int, later: Later
    ) -> Steps[Answer | None]:
        route = exchange.route
        exchange.request, _ = yield from route.request_class.decode_in_steps(frame, route.version, body)
        return (yield from self._settle_in_steps(exchange, self._run(exchange), later))

    def _await(self, exchange: _Exchange, promise: Promise[Any], later: Later) -> None:
        """Settle a request when its promise has ended."""
        later.context = context = exchange.context
        # Nothing is done for the request until others have done something: that is not its time (KIP-124).
        now_ms = self._clock.monotonic_ms()
        exchange.waits_since_ms = now_ms
        if self.throttle is not None:
            context.pause(now_ms)
        else:
            context.resumed_ms = -1.0
        promise.add_done_callback(lambda done: self._go_on(exchange, done, later))
        if exchange.is_sliced and later.is_gone and context.on_disconnect is not None:
            # The peer went between two slices, when there was nothing to call yet.
            context.on_disconnect()

    def _go_on(self, exchange: _Exchange, done: Promise[Any], later: Later) -> None:
        exchange.waited_ms += self._clock.monotonic_ms() - exchange.waits_since_ms
        try:
            answer = self._settle(exchange, self._result_of(exchange, done), later)
        except Exception as error:
            self._refuse(later, error)
            return
        if answer is not None:
            later(answer)

    # ------------------------------------------------------------------ in slices

    def _slice(
        self, exchange: _Exchange, steps: Steps[Answer | None], later: Later, *, large: bool = False
    ) -> Answer | None:
        """Run a request in slices; returns the answer if one was enough."""
        exchange.is_sliced = True
        if self.throttle is not None:
            steps = self._timed(exchange.context, steps)
        running = self.slicer.run(steps, large=large)
        if not isinstance(running, asyncio.Future) and not asyncio.isfuture(running):
            return running
        later.hold(True)

        def end(done: asyncio.Future[Answer | None]) -> None:
            later.hold(False)
            error = error_of(done)
            if error is None:
                answer = done.result()
                if answer is not None:
                    later(answer)
            else:
                self._refuse(later, error)

        running.add_done_callback(end)
        return None

    def _refuse(self, later: Later, error: BaseException) -> None:
        """Close the connection of a request that cannot be answered any more, as `Connection` does for one
        that fails at once: out of a callback nobody else would hear of it, and the peer would wait."""
        if isinstance(error, ProtocolError):
            later.refuse(str(error))
        elif isinstance(error, asyncio.CancelledError):
            later.refuse("broken off")
        else:
            self._repeats.log(
                logging.ERROR, type(error), "unforeseen failure behind a request's handler", exc_info=error
            )
            later.refuse("unforeseen failure")

    def _timed(self, context: RequestContext, steps: Steps[Answer | None]) -> Steps[Answer | None]:
        """The same steps, with a clock that stands still between two slices, and from now until the first.

        Else a quota of requests (KIP-124) would charge a client for the slices of others.
        """
        context.pause(self._clock.monotonic_ms())
        return self._taken_by_the_clock(context, steps)

    def _taken_by_the_clock(
        self, context: RequestContext, steps: Steps[Answer | None]
    ) -> Steps[Answer | None]:
        clock = self._clock
        try:
            while True:
                context.resumed_ms = clock.monotonic_ms()
                awaited = next(steps)
                context.pause(clock.monotonic_ms())
                yield awaited
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            context.pause(clock.monotonic_ms())

    # ------------------------------------------------------------------ begin, run, finish

    def _begin(self, route: _Route, header: RequestHeader, peer: Peer, size: int) -> _Exchange:
        context = RequestContext(self._broker, header, peer, self._clock.now_ms())
        context.resumed_ms = started_ms = self._clock.monotonic_ms()
        return _Exchange(route, context, size, started_ms)

    def _run(self, exchange: _Exchange) -> Handled[Struct]:
        context = exchange.context
        application = context.peer.application
        if application is None or context.now_ms >= context.peer.named_until_ms:
            application = name_application(context)
        if application is not None:
            application.requests += 1
            application.last_ms = context.now_ms
        handled: Handled[Struct]
        try:
            handled = exchange.route.call(context, exchange.request)
        except Exception as error:
            handled = self._failed(exchange, error)
        # Counted once it is decoded: what is malformed is no request.
        metrics = exchange.route.followers if context.is_follower else exchange.route.metrics
        metrics.requests += 1
        metrics.request_bytes += exchange.request_bytes
        return handled

    def _answer_unsupported_api_versions(self, header: RequestHeader) -> Answer:
        """Kafka answers in version 0, which every client can read, and from 2.4 on names the versions that it
        has (KIP-511)."""
        served, release = self._handlers.get(_API_VERSIONS), self._handlers.release
        assert served is not None
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        if release is None or release.names_versions_when_refusing:
            least, most = served.versions[0], served.versions[-1]
            response.api_keys = [ApiVersion(api_key=_API_VERSIONS, min_version=least, max_version=most)]
        return Answer(encode_response(ApiKey.API_VERSIONS, 0, header.correlation_id, response))

    def _result_of(self, exchange: _Exchange, done: Promise[Any]) -> Handled[Struct]:
        error = error_of(done)
        if isinstance(error, asyncio.CancelledError):
            exchange.context.close_connection = True
            return None
        if error is not None:
            return self._failed(exchange, error)
        response: Struct | None = done.result()
        return response

    def _failed(self, exchange: _Exchange, error: BaseException) -> Handled[Struct]:
        """The response for an exception out of a handler, or steps to it; None closes the connection."""
        handler, context = exchange.route.handler, exchange.context
        context.has_errors = True
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        elif isinstance(error, Exception):
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, ""
            self._repeats.log(
                logging.ERROR,
                (handler.api_key, type(error)),
                "unforeseen failure while handling a request api=%s version=%d client_id=%s client=%s",
                handler.api_key.api_name,
                context.api_version,
                context.client_id,
                context.client_host,
                exc_info=error,
            )
        else:
            raise error
        if handler.error_response is not None:
            refused = Refused(exchange.request, context.api_version, code, message)
            response = error_in_steps(handler.error_response, refused)
            if is_in_steps(response):
                return self._told_in_steps(context, response)
            if response is None:
                # A producer with acks=0 gets no response: it sees the connection closed, as in Kafka's
                # `KafkaApis.handleProduceRequest`, and looks its metadata up again.
                context.close_connection = True
            return response
        # Most responses have an error for all of it; without one, or a function that makes the response,
        # there is no way to say what is wrong.
        response_type: Any = response_class(handler.api_key)
        if "error_code" in response_type.__slots__:
            refusal: Any = response_type()
            refusal.error_code = int(code)
            if message and "error_message" in response_type.__slots__:
                refusal.error_message = message
            whole: Struct = refusal
            return whole
        context.close_connection = True
        return None

    @staticmethod
    def _told_in_steps(context: RequestContext, steps: Steps[Any]) -> Steps[Any]:
        response = yield from steps
        if response is None:
            context.close_connection = True
        return response

    @staticmethod
    def _encode(route: _Route, context: RequestContext, response: Any) -> Buffers:
        head = response_head(context.header.correlation_id, route.response_header_version)
        try:
            return route.encode(response, head, 0)
        except InvalidMessageError:
            # Error messages quote what was asked for, which may be as long as any text can be.
            if not shorten_messages(response):
                raise
            return route.encode(response, head, 0)

    def _finish(
        self, exchange: _Exchange, response: Struct | None, buffers: Buffers | None, later: Later
    ) -> Answer | None:
        """Make the answer of a response, and count the request. All that is handled ends here, once.

        Args:
            exchange: the request.
            response: what is answered; None for nothing.
            buffers: the response's bytes, where they are there already.
            later: is muted where the client is throttled; the answer, which says so, leaves at once. Before
                KIP-219 it leaves after that time: then None is returned.
        """
        context = exchange.context
        begun_ms = self._clock.monotonic_ms() if self.throttle is not None else 0.0
        if response is None:
            answer = CLOSE if context.close_connection else NO_ANSWER
            size = 0
        else:
            try:
                if buffers is None:
                    buffers = self._encode(exchange.route, context, response)
            except Exception as error:
                # What was done is done, and cannot be told: a client that sees the connection closed asks
                # again.
                self._repeats.log(
                    logging.ERROR,
                    (exchange.route.handler.api_key, type(error)),
                    "a response could not be encoded api=%s version=%d client_id=%s",
                    exchange.route.handler.api_key.api_name,
                    context.api_version,
                    context.client_id,
                    exc_info=error,
                )
                return self._muted(context, CLOSE, later) if context.mute_ms else CLOSE
            if len(buffers) == 1:
                ranges, size = False, len(buffers[0])
            else:
                ranges, size = False, 0
                for buffer in buffers:
                    ranges = ranges or buffer.__class__ in UNREAD
                    size += len(buffer)
            answer = Answer(buffers, context.close_connection, ranges)
        now_ms = self._clock.monotonic_ms()
        elapsed_ms = now_ms - exchange.started_ms
        if self.throttle is not None:
            self.throttle.count_network_time(context, now_ms - begun_ms)
        metrics = exchange.route.followers if context.is_follower else exchange.route.metrics
        metrics.observe(elapsed_ms, size)
        if response is not None and (exchange.route.looks_for_errors or context.has_errors):
            self._count_errors(exchange, response, metrics)
        if exchange.waited_ms > 0.0:
            metrics.observe_wait(elapsed_ms, exchange.waited_ms)
        if context.mute_ms:
            metrics.throttles.observe(float(context.mute_ms))
        request_log = self._broker.request_log
        if request_log is not None:
            request_log.write(
                context,
                exchange.route.handler.api_key,
                exchange.request_bytes,
                size,
                elapsed_ms,
                closed=answer.close,
            )
        return self._muted(context, answer, later) if context.mute_ms else answer

    @staticmethod
    def _count_errors(exchange: _Exchange, response: Struct, metrics: RequestMetrics) -> None:
        fields = exchange.route.error_fields
        if fields is None:
            return
        errors, context = metrics.errors, exchange.context
        application = context.peer.application
        for code, times in errors_of(fields, response).items():
            errors[code] = errors.get(code, 0) + times
            if application is not None:
                application.count_error(context.header.api_key, code, times)

    def _muted(self, context: RequestContext, answer: Answer, later: Later) -> Answer | None:
        """Take nothing more up from a connection that is throttled; returns what leaves at once.

        Releases before KIP-219 (Kafka 2.0) held the answer back instead.
        """
        delays = self.throttle is not None and self.throttle.delays_answers
        later.mute(self._broker.timers, context.mute_ms, answer if delays else None)
        return None if delays else answer
