"""Effects of faults: for each a function that stands in the place of the handler's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from odradek.broker.event_loop.slices import Steps, is_in_steps, wait
from odradek.broker.requests.changed_answers import changed
from odradek.broker.requests.handler_types import Refused
from odradek.errors import KafkaError, error_for
from odradek.errors.codes import ErrorCode
from odradek.testing.faults.checks import has_error_on_top
from odradek.testing.faults.errors import is_of_parts
from odradek.testing.faults.names import Names, lists_of_parts, parts
from odradek.testing.faults.parting import failed, merge, order, part, speaks_of
from odradek.util.promise import Promise
from odradek.wire.api import ApiKey
from odradek.wire.headers import encode_response
from odradek.wire.messages import response_class
from odradek.wire.structs import Struct

if TYPE_CHECKING:
    from odradek.broker.apis.registry import Handler
    from odradek.broker.requests.answer import Buffers
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Handled
    from odradek.testing.faults.fault import Fault

FETCH, METADATA, API_VERSIONS = int(ApiKey.FETCH), int(ApiKey.METADATA), int(ApiKey.API_VERSIONS)
_ANSWERS_WAIT_BEFORE = "2.0"  # KIP-219


class Rewriting(Protocol):
    """Changes the bytes of answers: `odradek.testing.faults.injector.FaultInjector`."""

    def rewrite_later(self, response: Any, change: Callable[[Buffers], Buffers]) -> None:
        """Change the bytes of a response before they leave."""
        ...


class Met(NamedTuple):
    """A request that a fault meets.

    Attributes:
        fault: the rule.
        handler: the API's.
        function: does the work: the handler's function, or that of the next fault.
        context, request: what that is called with.
        names: the names of the request's parts, those of its fetch session among them.
        rewriting: changes bytes of answers.
    """

    fault: Fault
    handler: Handler
    function: Callable[[RequestContext, Any], Handled[Any]]
    context: RequestContext
    request: Any
    names: tuple[Names, ...]
    rewriting: Rewriting

    @property
    def version(self) -> int:
        """The request's version."""
        return self.context.api_version

    def work(self) -> Handled[Any]:
        """Do the work, as without the fault."""
        return self.function(self.context, self.request)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic."""
        return topic_name(self.context, topic_id)


def topic_name(context: RequestContext, topic_id: bytes) -> str | None:
    """Return the name of the topic that has an id."""
    return context.broker.image.topic_name(topic_id)


def apply(met: Met) -> Handled[Any]:
    """Do to a request what its fault says."""
    return _EFFECTS[met.fault.effect](met)


# ---------------------------------------------------------------------- fail


def _fail(met: Met) -> Handled[Any]:
    key = int(met.handler.api_key)
    if key == FETCH:
        if is_of_parts(key, met.fault.code):
            return _fail_fetch(met)
        # Of the session: nothing is said of partitions (Kafka's `SessionErrorContext`).
        return response_class(FETCH)(error_code=int(met.fault.code))
    if key == METADATA:
        return _fail_metadata(met)
    rest, request = part(met.request, met.fault.meets_part, met.topic_name)
    if rest is None and not is_of_parts(key, met.fault.code) and _tells_of_all(met):
        if key == API_VERSIONS and met.fault.code == ErrorCode.UNSUPPORTED_VERSION:
            return _in_version_0(met)
        # The dispatcher makes the response, as for any error that a handler raises.
        raise error_for(met.fault.code)
    answer = _refusal(met, request, rest)
    if rest is None:
        return answer

    def whole(response: Any) -> Any:
        if answer is None:
            met.context.close_connection = True  # acks=0, as in Kafka's `handleProduceRequest`
        elif response is not None:
            merge(response, answer)
            order(response, met.request)
        return response

    return changed(met.function(met.context, rest), whole)


def _tells_of_all(met: Met) -> bool:
    return met.handler.error_response is not None or has_error_on_top(met.handler, met.version)


def _refusal(met: Met, request: Any, rest: Any) -> Any:
    """Return the answer to the part of a request that fails; the rest does not."""
    key, error = int(met.handler.api_key), met.fault.code
    if met.handler.error_response is not None and not is_of_parts(key, error):
        answer = met.handler.error_response(Refused(request, met.version, error, error.message))
        # Not where it tells of all at once, or of a group of which only some topics are met.
        if answer is None or (_has_parts(answer) and (rest is None or not speaks_of(answer, rest))):
            return answer
    asked = parts(request, met.topic_name)
    return failed(response_class(key), met.version, asked, error, error.message)


def _has_parts(response: Any) -> bool:
    return any(getattr(response, field.name) for field in lists_of_parts(type(response)))


def _fail_fetch(met: Met) -> Handled[Any]:
    """Answer with an error for some partitions in place of what there is in them.

    All of them are asked for, as the fetch session would forget those that are not (KIP-227), and nothing is
    waited for, as with any error.
    """
    request = copy(met.request)
    request.max_wait_ms = request.min_bytes = 0

    def overlaid(response: Any) -> Any:
        if response is not None and not response.error_code:
            _overlay(met, response, [names for names in met.names if met.fault.meets_part(names)])
        return response

    return changed(met.function(met.context, request), overlaid)


def _fail_metadata(met: Met) -> Handled[Any]:
    """Answer with an error for some topics. The brokers are told all the same: clients live by them."""
    request = part(met.request, met.fault.meets_part, met.topic_name).rest if met.request.topics else None
    if request is None:
        request = copy(met.request)
        # Nobody is to make what was asked for. In version 0 no topics are all of them.
        if met.request.topics and met.version > 0:
            request.topics = []

    def overlaid(response: Any) -> Any:
        asked = parts(met.request if met.request.topics else response, met.topic_name)
        told = {
            (names.get("topic"), names.get("topic_id")): {
                kind: names[kind] for kind in ("topic", "topic_id") if names.get(kind) is not None
            }
            for names in asked
            if ("topic" in names or "topic_id" in names) and met.fault.meets_part(names)
        }
        _overlay(met, response, list(told.values()))
        return response

    return changed(met.function(met.context, request), overlaid)


def _overlay(met: Met, response: Any, asked: list[Names]) -> None:
    """Put an error into a response in place of what it says of some parts."""
    rest = part(response, met.fault.meets_part, met.topic_name).rest
    for field in lists_of_parts(type(response)):
        setattr(response, field.name, [] if rest is None else getattr(rest, field.name))
    error = met.fault.code
    answer = failed(type(response), met.version, asked, error, error.message)
    if answer is not None:
        merge(response, answer)
        order(response, met.request)


def _in_version_0(met: Met) -> Any:
    """Refuse an ApiVersions in version 0, which is how a client reads this one error (KIP-511)."""
    response = response_class(API_VERSIONS)(error_code=int(met.fault.code))
    correlation_id = met.context.header.correlation_id
    met.rewriting.rewrite_later(
        response, lambda _: encode_response(API_VERSIONS, 0, correlation_id, response)
    )
    return response


# ---------------------------------------------------------------------- time


def _delay(met: Met) -> Handled[Any]:
    _own(met.request)
    return _delayed(met)


def _delayed(met: Met) -> Steps[Any]:
    # In steps, which hold the connection: what is asked behind it has to wait, as it does in Kafka, where a
    # connection is muted from a request to its answer.
    yield from wait(_pause(met.context, met.fault.delay_ms))
    handled: Any = met.work()
    return (yield from handled) if is_in_steps(handled) else handled


def _pause(context: RequestContext, pause_ms: float) -> Promise[None]:
    broker = context.broker
    over: Promise[None] = Promise(broker.loop)
    broker.timers.call_later(pause_ms, lambda: over.set_result(None))
    return over


def _own(struct: Any) -> None:
    """Copy what lies in the memory of the frame, which is used again (`FrameReceiver.own`)."""
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        if isinstance(value, memoryview):
            setattr(struct, field.name, bytes(value))
        else:
            for inner in _structs(value):
                _own(inner)


def _structs(value: Any) -> Iterator[Struct]:
    if isinstance(value, Struct):
        yield value
    elif value.__class__ is list and value and isinstance(value[0], Struct):
        yield from value


def _hang(met: Met) -> Handled[Any]:
    # Nobody else has this promise: when the connection ends, it is gone with its request.
    return Promise(met.context.broker.loop)


def _throttle(met: Met) -> Handled[Any]:
    """Make the client wait as one that is over its quota: it is told so, and nothing more is taken up."""
    context, throttle_ms = met.context, met.fault.throttle_ms
    release = context.broker.handlers.release
    answers_wait = release is not None and not release.at_least(_ANSWERS_WAIT_BEFORE)

    def told(response: Any) -> Any:
        if response is not None and "throttle_time_ms" in response.__slots__:
            response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)
        if not answers_wait:
            context.mute_ms = max(context.mute_ms, throttle_ms)
            return response
        answer: Promise[Any] = Promise(context.broker.loop)
        _pause(context, throttle_ms).add_done_callback(lambda _: answer.set_result(response))
        return answer

    return changed(met.work(), told)


# ---------------------------------------------------------------------- connections


def _drop(met: Met) -> Handled[Any]:
    met.context.close_connection = True
    if not met.fault.after:
        return None
    try:
        return _unanswered(met.work())
    except KafkaError:
        return None


def _unanswered(handled: Handled[Any]) -> Handled[Any]:
    """Wait for the end of the work, whatever comes of it, and answer nothing."""
    if is_in_steps(handled):
        return _unanswered_in_steps(handled)
    if not isinstance(handled, Promise):
        return None
    nothing: Promise[Any] = Promise(handled.get_loop())
    handled.add_done_callback(lambda _: nothing.set_result(None))
    return nothing


def _unanswered_in_steps(steps: Any) -> Steps[Any]:
    try:
        return _unanswered((yield from steps))
    except KafkaError:
        return None


def _truncate(met: Met) -> Handled[Any]:
    def cut_off(response: Any) -> Any:
        if response is not None:
            met.context.close_connection = True
            met.rewriting.rewrite_later(response, lambda buffers: beginning(buffers, met.fault.bytes_sent))
        return response

    return changed(met.work(), cut_off)


def beginning(buffers: Buffers, size: int | None) -> Buffers:
    """Return the first bytes of an answer, which are never all of it.

    Args:
        buffers: the answer, with its size prefix.
        size: how many; None for half of them.
    """
    total = sum(map(len, buffers))
    left = min(total // 2 if size is None else size, total - 1)
    kept = b""
    for buffer in buffers:
        if left <= len(kept):
            break
        read = getattr(buffer, "read", None)
        if read is None and not isinstance(buffer, bytes | bytearray | memoryview):
            break  # records that are still to be converted
        kept += read() if read is not None else bytes(buffer)
    return [kept[:left]]


_EFFECTS: dict[str, Callable[[Met], Handled[Any]]] = {
    "fail": _fail,
    "delay": _delay,
    "hang": _hang,
    "drop": _drop,
    "truncate": _truncate,
    "throttle": _throttle,
}
