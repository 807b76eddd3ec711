"""The faults of one broker, around its handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek.broker.requests.between_brokers import purpose_of
from odradek.testing.faults.asked import asked_by
from odradek.testing.faults.effects import Met, apply
from odradek.testing.own_client import is_own

if TYPE_CHECKING:
    from odradek.broker.apis.registry import Handler, Handlers
    from odradek.broker.requests.answer import Buffers
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Handled, HandlerFunction
    from odradek.broker.services import BrokerServices
    from odradek.testing.faults.names import Names
    from odradek.testing.faults.set_fault import SetFault


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
        if is_own(context.client_id):
            return None
        if fault.calls.is_spent or (purpose_of(context.header.client_id) is not None) != rule.between_brokers:
            return None
        asked = asked_by(self._broker, context, request)
        reason = rule.miss(asked, fault.versions[int(handler.api_key)]) or fault.misses(context)
        if reason is not None:
            name = handler.api_key.api_name
            fault.calls.miss(f"{name} {context.api_version} of client {context.client_id!r}: {reason}")
            return None
        return asked.parts if fault.calls.next() else None

    # ------------------------------------------------------------------ bytes

    def rewrite_later(self, response: Any, change: Callable[[Buffers], Buffers]) -> None:
        """See `Rewriting`."""
        self._rewrites[id(response)] = response, change

    def _rewrite(self, response: Any, buffers: Buffers) -> Buffers:
        _, change = self._rewrites.pop(id(response), (None, None))
        return buffers if change is None else change(buffers)
