"""Handlers of a broker that is not ready at once: who asks too early is told so, as Kafka tells it.

They stand around the broker's own, under the faults of a test, which see and count what they do without it.
What the brokers of a cluster ask of each other goes by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from odradek.broker.requests.between_brokers import purpose_of
from odradek.broker.requests.changed_answers import changed
from odradek.broker.requests.untold import is_untold
from odradek.errors.codes import ErrorCode
from odradek.testing.faults.effects import Met, apply
from odradek.testing.faults.errors import errors_of
from odradek.testing.faults.fault import Fault
from odradek.testing.own_client import is_own
from odradek.testing.unready.checks import CHECKS, NotReady, asks_for_end
from odradek.testing.unready.early_request import EarlyRequest, State, fetch_offsets
from odradek.wire.api import ApiKey
from odradek.wire.messages import response_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from odradek.broker.apis.registry import Handler, Handlers
    from odradek.broker.requests.answer import Buffers
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Handled, HandlerFunction
    from odradek.broker.services import BrokerServices
    from odradek.cluster.image import ClusterImage
    from odradek.testing.faults.names import Names
    from odradek.testing.unready.ended_transactions import EndedTransactions

_READ_COMMITTED = 1

_BY_IMAGE = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
    }
)
"""The APIs whose handlers answer out of the image of the cluster: they are given the one that is told."""


class UnreadyHandlers:
    """The handlers of one broker, in one of its lives. In the broker's loop."""

    def __init__(self, state: State, handlers: Handlers) -> None:
        """
        Args:
            state: what is not ready.
            handlers: those of the broker, which has not started; they are changed for good.
        """
        self._state = state
        for key in {*CHECKS, *_AFTER, *_BY_IMAGE}:
            handler = handlers.get(key)
            if handler is not None:
                handlers.loaded[int(key)] = replace(handler, function=self._around(handler))

    def tell_at_once(self, topic: str) -> None:
        """Let a topic be ready that the test has made by hand."""
        broker = self._state.broker
        self._state.metadata.follow(broker.image, broker.broker_id, told_at_once=(topic,))

    def _around(self, handler: Handler) -> HandlerFunction:
        if handler.api_key is ApiKey.END_TXN:
            handler = replace(handler, function=_ending(handler.function, self._state.transactions))
        key, function = handler.api_key, handler.function
        after = _AFTER.get(key)

        def handle(context: RequestContext, request: Any) -> Handled[Any]:
            broker = self._state.broker
            client_id = context.header.client_id
            if purpose_of(client_id) is not None or is_own(client_id) or is_untold(broker):
                return function(context, request)
            self._state.metadata.follow(broker.image, broker.broker_id)
            early = EarlyRequest(self._state, context, request)
            if key in _BY_IMAGE:
                context.broker = cast("BrokerServices", _Told(broker, early.told))
            handled = _refuse(handler, early, context, request)
            return handled if after is None else changed(handled, lambda response: after(early, response))

        return handle


def _ending(function: HandlerFunction, transactions: EndedTransactions) -> HandlerFunction:
    def handle(context: RequestContext, request: Any) -> Handled[Any]:
        transactions.ends(request.transactional_id)

        def has_ended(response: Any) -> Any:
            transactions.has_ended(request.transactional_id, is_refused=bool(response.error_code))
            return response

        return changed(function(context, request), has_ended)

    return handle


class _Told:
    """A broker as a handler sees it that answers out of the image of the cluster."""

    def __init__(self, broker: BrokerServices, image: ClusterImage) -> None:
        self._broker = broker
        self.image = image

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


# ---------------------------------------------------------------------- refusals


def _refuse(handler: Handler, early: EarlyRequest, context: RequestContext, request: Any) -> Handled[Any]:
    """Do the work of those parts of a request that are ready, and say of the others that they are not."""
    function = handler.function
    for fault in dict.fromkeys(_refusals(handler, early)):
        if fault is None:
            return response_class(handler.api_key)()
        function = _failing(handler, fault, function, early.names)
    return function(context, request)


def _refusals(handler: Handler, early: EarlyRequest) -> Iterator[Fault | None]:
    """Yield what is said of which parts; None where all is answered without being done."""
    for names in early.names:
        for check in CHECKS.get(handler.api_key, ()):
            refusal = check(early, names)
            if refusal is not None and _is_said(handler, early, refusal.error):
                yield _fault(handler, refusal, names) if refusal.error else None
                break


def _is_said(handler: Handler, early: EarlyRequest, error: ErrorCode) -> bool:
    """Return whether Kafka's brokers say an error to that request, in the release that the broker is."""
    errors, release = errors_of(handler.api_key), early.state.broker.handlers.release
    if release is not None and error > release.last_error_code:
        return False
    return not error or errors is None or (error in errors and early.version in errors[error])


def _fault(handler: Handler, refusal: NotReady, names: Names) -> Fault:
    of_part: dict[str, Any] = {kind: names.get(kind) for kind in refusal.kinds}
    return Fault(effect="fail", apis=(handler.api_key.api_name,), error=refusal.error.name, **of_part)


def _failing(
    handler: Handler, fault: Fault, function: HandlerFunction, names: tuple[Names, ...]
) -> HandlerFunction:
    def handle(context: RequestContext, request: Any) -> Handled[Any]:
        return apply(Met(fault, handler, function, context, request, names, _NO_REWRITING))

    return handle


class _NoRewriting:
    """No answer of a broker that is not ready differs in its bytes alone."""

    def rewrite_later(self, response: Any, change: Callable[[Buffers], Buffers]) -> None:
        raise NotImplementedError


_NO_REWRITING = _NoRewriting()


# ---------------------------------------------------------------------- after the work


def _after_metadata(early: EarlyRequest, response: Any) -> Any:
    """With KRaft a topic that is being made is not known yet (`AutoTopicCreationManager`)."""
    if early.with_kraft:
        for topic in response.topics:
            if topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE:
                topic.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return response


def _after_change_of_topics(early: EarlyRequest, response: Any) -> Any:
    """With ZooKeeper the answer waits until the broker that gives it knows of the change
    (`DelayedCreatePartitions`, `DelayedDeleteTopics`)."""
    if not early.with_kraft:
        changed_topics = [names["topic"] for names in early.names if names.get("topic") is not None]
        broker = early.state.broker
        early.state.metadata.follow(broker.image, broker.broker_id, told_at_once=changed_topics)
    return response


def _after_init_producer_id(early: EarlyRequest, response: Any) -> Any:
    if not response.error_code and early.request.transactional_id is not None:
        early.state.transactions.forget(early.request.transactional_id)
    return response


def _after_txn_offset_commit(early: EarlyRequest, response: Any) -> Any:
    request = early.request
    offsets = [
        (request.group_id, name, partition.partition_index)
        for topic in response.topics
        if (name := early.topic_name(topic.name, topic.topic_id)) is not None
        for partition in topic.partitions
        if not partition.error_code
    ]
    early.state.transactions.commits(request.transactional_id, offsets)
    return response


def _after_produce(early: EarlyRequest, response: Any) -> Any:
    transactional_id = early.request.transactional_id
    if response is None or transactional_id is None:
        return response
    for topic in response.responses:
        name = early.topic_name(topic.name, topic.topic_id)
        for partition in topic.partition_responses:
            if not partition.error_code and name is not None:
                early.state.transactions.writes(
                    transactional_id, (name, partition.index), partition.base_offset
                )
    return response


def _after_fetch(early: EarlyRequest, response: Any) -> Any:
    """Hold back what a transaction has written whose marker is still to come."""
    if response is None or early.request.isolation_level != _READ_COMMITTED:
        return response
    begin = fetch_offsets(early, response.session_id)
    for topic in response.responses:
        name = early.topic_name(topic.topic, topic.topic_id)
        for partition in topic.partitions:
            key = (name, partition.partition_index)
            if name is None or partition.error_code or key not in begin:
                continue
            told = early.state.transactions.last_stable_offset((name, partition.partition_index), begin[key])
            if told is not None and told < partition.last_stable_offset:
                partition.last_stable_offset = told
                partition.records, partition.aborted_transactions = b"", []
    return response


def _after_list_offsets(early: EarlyRequest, response: Any) -> Any:
    if early.request.isolation_level != _READ_COMMITTED:
        return response
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code or not asks_for_end(early.request, topic.name, partition.partition_index):
                continue
            told = early.state.transactions.last_stable_offset((topic.name, partition.partition_index))
            if told is not None:
                partition.offset = min(told, partition.offset)
    return response


_AFTER: dict[ApiKey, Callable[[EarlyRequest, Any], Any]] = {
    ApiKey.PRODUCE: _after_produce,
    ApiKey.FETCH: _after_fetch,
    ApiKey.LIST_OFFSETS: _after_list_offsets,
    ApiKey.METADATA: _after_metadata,
    ApiKey.CREATE_TOPICS: _after_change_of_topics,
    ApiKey.CREATE_PARTITIONS: _after_change_of_topics,
    ApiKey.DELETE_TOPICS: _after_change_of_topics,
    ApiKey.INIT_PRODUCER_ID: _after_init_producer_id,
    ApiKey.TXN_OFFSET_COMMIT: _after_txn_offset_commit,
}
