"""The differences between a release's answers and ours, put into ours before they leave.

`aged` and `aged_error` are put around handlers, when a broker first needs one; a broker without a release has
none of this in its way. Everything here changes a response that a handler has made; the rules that go by the
request's version are in the handlers themselves. Sources: docs/kafka_versions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.broker.kafka_versions.release import Release
from odradek.broker.requests.changed_answers import changed
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.structs import Struct

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import ErrorResponse, Handled, HandlerFunction, Refused

Adapter = Callable[[Release, "RequestContext", Any], None]
"""Changes a response in place."""

_OLDER_CODES: Mapping[int, int] = {
    # The exception of a bad record was a kind of CorruptRecordException until it got a code of its own.
    ErrorCode.INVALID_RECORD: ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.TOPIC_DELETION_DISABLED: ErrorCode.INVALID_REQUEST,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OFFSET_NOT_AVAILABLE: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.LISTENER_NOT_FOUND: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INCONSISTENT_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_INSTANCE_ID: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The substitutes for errors that a release does not know; UNKNOWN_SERVER_ERROR for all others."""


def adapt(release: Release, api_key: int, context: RequestContext, response: Any) -> Any:
    """Make a response what the release would have sent, as far as the two differ.

    Args:
        release: the release.
        api_key: the API that was asked.
        context: the request's surroundings.
        response: the message, changed in place; None passes through.

    Returns:
        The response.
    """
    if response is None:
        return None
    adapter = _ADAPTERS.get(api_key)
    if adapter is not None:
        adapter(release, context, response)
    if release.last_error_code < _NEWEST_ERROR_CODE:
        _age_errors(response, release.last_error_code)
    return response


_NEWEST_ERROR_CODE = max(ErrorCode)


def older_code(code: int, last: int) -> int:
    """An error code as a release says it whose highest code is `last`."""
    while code > last:
        code = _OLDER_CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
    return int(code)


def _age_errors(struct: Struct, last: int) -> None:
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        if field.name == "error_code":
            if value > last:
                struct.error_code = older_code(value, last)  # type: ignore[attr-defined]
        elif isinstance(value, Struct):
            _age_errors(value, last)
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Struct):
            for element in value:
                _age_errors(element, last)


def _metadata(release: Release, _context: RequestContext, response: Any) -> None:
    """With KRaft the creation of a topic is asked for at the controller, and meanwhile there is no such topic
    (`AutoTopicCreationManager`)."""
    if release.kraft:
        for topic in response.topics:
            if topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE:
                topic.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _delete_topics(release: Release, context: RequestContext, response: Any) -> None:
    """Before 2.1 nobody looked at `delete.topic.enable` when asked to delete: the deletion never happened,
    and the request timed out. We do not let the client wait for that."""
    if not release.at_least("2.1"):
        for topic in response.responses:
            if topic.error_code in (ErrorCode.INVALID_REQUEST, ErrorCode.TOPIC_DELETION_DISABLED):
                there = context.broker.image.topic(topic.name) is not None
                topic.error_code = int(
                    ErrorCode.REQUEST_TIMED_OUT if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )


_ADAPTERS: Mapping[int, Adapter] = {
    ApiKey.METADATA: _metadata,
    ApiKey.DELETE_TOPICS: _delete_topics,
}


def aged(function: HandlerFunction, release: Release, api_key: int) -> HandlerFunction:
    """A handler whose answers are those of a release, see `adapt`."""

    def handle(context: RequestContext, request: Any) -> Handled[Any]:
        return changed(
            function(context, request), lambda response: adapt(release, api_key, context, response)
        )

    return handle


def aged_error(make: ErrorResponse | None, release: Release) -> ErrorResponse | None:
    """Wrap a handler's error response: its codes become those that the release knows."""
    if make is None:
        return None

    def make_aged(refused: Refused[Any]) -> Any:
        error = ErrorCode(older_code(refused.error, release.last_error_code))
        return make(refused._replace(error=error))

    return make_aged
