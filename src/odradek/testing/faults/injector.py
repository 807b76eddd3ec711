"""The faults of one broker, around its handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek.broker.requests.between_brokers import purpose_of
from odradek.testing.faults.effects import FETCH, Met, apply, topic_name
from odradek.testing.faults.fault import Asked
from odradek.testing.faults.names import Names, parts
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    from odradek.broker.apis.registry import Handler, Handlers
    from odradek.broker.requests.answer import Buffers
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Handled, HandlerFunction
    from odradek.broker.services import BrokerServices
    from odradek.testing.faults.set_fault import SetFault

_PRODUCE = int(ApiKey.PRODUCE)


class FaultInjector:
    """Puts faults around a broker's handlers. Everything here is called in the broker's loop."""

    def __init__(self, broker: BrokerServices, handlers: Handlers) -> None:
        """
        Args:
            broker: one that need not run yet.
            handlers: its own.
        """
        self._broker = broker
        self._handlers = handlers
        self._set: list[SetFault] = []
        self._rewrites: dict[int, tuple[Any, Callable[[Buffers], Buffers]]] = {}
        """By the identity of a response: it, and what is done to its bytes when these have been made."""

    def add(self, fault: SetFault) -> None:
        """Begin with a fault. Of several for one API the first that was set is asked first."""
        self._set.append(fault)
        self._renew(fault)

    def remove(self, fault: SetFault) -> None:
        """End a fault; harmless where it has ended."""
        if fault in self._set:
            self._set.remove(fault)
            self._renew(fault)

    def _renew(self, fault: SetFault) -> None:
        for key in fault.versions:
            faults = [other for other in self._set if key in other.versions]
            self._handlers.replace(key, self._around(faults) if faults else None)

    def _around(self, faults: list[SetFault]) -> Callable[[Handler], Handler]:
        def around(handler: Handler) -> Handler:
            function = handler.function
            for fault in reversed(faults):
                function = self._with(fault, handler, function)
            return replace(handler, function=function, rewrite=self._rewrite)

        return around

    def _with(self, fault: SetFault, handler: Handler, function: HandlerFunction) -> HandlerFunction:
        def handle(context: RequestContext, request: Any) -> Handled[Any]:
            names = self._meets(fault, handler, context, request)
            if names is None:
                return function(context, request)
            return apply(Met(fault.fault, handler, function, context, request, names, self))

        return handle

    def _meets(
        self, fault: SetFault, handler: Handler, context: RequestContext, request: Any
    ) -> tuple[Names, ...] | None:
        """Return the names of a request's parts, None where the fault does not meet it."""
        rule = fault.fault
        if fault.calls.is_spent or (purpose_of(context.header.client_id) is not None) != rule.between_brokers:
            return None
        key = int(handler.api_key)
        names = tuple(parts(request, lambda topic_id: topic_name(context, topic_id)))
        if key == FETCH:
            names += self._in_session(request)
        asked = Asked(
            context.api_version,
            context.client_id,
            context.listener_name,
            names,
            is_answered=key != _PRODUCE or request.acks != 0,
        )
        reason = rule.miss(asked, fault.versions[key]) or fault.misses(context)
        if reason is not None:
            name = handler.api_key.api_name
            fault.calls.miss(f"{name} {context.api_version} of client {context.client_id!r}: {reason}")
            return None
        return names if fault.calls.next() else None

    def _in_session(self, request: Any) -> tuple[Names, ...]:
        """The partitions of a fetch that its session knows, and the request does not name (KIP-227)."""
        session = self._broker.fetch_sessions.find(request.session_id)
        if session is None or request.session_epoch <= 0:
            return ()
        return tuple(
            {
                "topic": fetched.topic,
                "topic_id": fetched.topic_id,
                "partition": fetched.fetch_partition.partition,
            }
            for fetched in session.partitions.values()
        )

    # ------------------------------------------------------------------ bytes

    def rewrite_later(self, response: Any, change: Callable[[Buffers], Buffers]) -> None:
        """See `Rewriting`."""
        self._rewrites[id(response)] = response, change

    def _rewrite(self, response: Any, buffers: Buffers) -> Buffers:
        _, change = self._rewrites.pop(id(response), (None, None))
        return buffers if change is None else change(buffers)
