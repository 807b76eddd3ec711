"""Events in a broker, told to who listens: requests, appends, commits, changes of groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek.broker.event_loop.slices import Steps, is_in_steps
from odradek.testing.own_client import is_of_client
from odradek.util.promise import Promise

if TYPE_CHECKING:
    from odradek.broker.apis.registry import Handler, Handlers
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Handled
    from odradek.broker.services import BrokerServices
    from odradek.cluster.image import ClusterImage
    from odradek.replication.delayed import DelayedOperation

OnEvent = Callable[[], object]
OnRequest = Callable[["BrokerServices", "RequestContext", Any], object]
"""`(broker, context, request)`, before the request is worked on."""

_LONG_MS = float(2**31)


class BrokerEvents:
    """Tells of what happens in one broker, in all its lives. Everything here is called in the broker's loop,
    or while there is none.

    Without anybody who listens nothing of the broker is changed.
    """

    def __init__(self) -> None:
        self._on_event: list[OnEvent] = []
        self._on_request: list[OnRequest] = []
        self._handlers: Handlers | None = None
        self._broker: BrokerServices | None = None
        """Only while it runs."""
        self._watched: DelayedOperation | None = None
        """Waits for all partitions that there were when it was made, and has no end of its own."""
        self._watched_at: tuple[ClusterImage, int] | None = None
        self._is_shut = False

    # ------------------------------------------------------------------ who listens

    def listen(self, on_event: OnEvent) -> None:
        """Call `on_event` with each event from now on, when what has happened can be seen."""
        self._on_event.append(on_event)
        self._attach()

    def listen_to_requests(self, on_request: OnRequest) -> None:
        """Call `on_request` with each request from now on."""
        self._on_request.append(on_request)
        self._attach()

    def leave(self, listener: OnEvent | OnRequest) -> None:
        """Call it no more."""
        for listeners in (self._on_event, self._on_request):
            if listener in listeners:
                listeners.remove(listener)  # type: ignore[arg-type]
        if not self._on_event and not self._on_request and not self._is_shut:
            self._detach()

    def shut(self) -> None:
        """Close, until `reopen`, the connections of clients by the next request of each, which is not worked
        on; other brokers and the test kit are let through."""
        self._is_shut = True
        if self._handlers is not None:
            self._handlers.put_around_all(self._around)

    def reopen(self) -> None:
        """Let clients through again."""
        self._is_shut = False
        if not self._on_event and not self._on_request:
            self._detach()

    # ------------------------------------------------------------------ a broker's lives

    def begin(self, handlers: Handlers) -> None:
        """A broker is about to start, which has these handlers."""
        self._handlers = handlers
        if self._on_event or self._on_request:
            handlers.put_around_all(self._around)

    def started(self, broker: BrokerServices) -> None:
        """The broker has started."""
        self._broker = broker
        if self._on_event or self._on_request:
            self._attach()
            self._tell()

    def ended(self) -> None:
        """The broker has ended."""
        self._broker = self._handlers = self._watched = self._watched_at = None

    # ------------------------------------------------------------------ in the broker

    def _attach(self) -> None:
        handlers, broker = self._handlers, self._broker
        if handlers is not None:
            handlers.put_around_all(self._around)
        if broker is not None:
            self._watch_partitions(broker)
            broker.groups.coordinator.runtime.on_unasked = self._tell

    def _detach(self) -> None:
        handlers, broker, watched = self._handlers, self._broker, self._watched
        if handlers is not None:
            handlers.put_around_all(None)
        self._watched = self._watched_at = None
        if watched is not None:
            watched.cancel()
        if broker is not None:
            broker.groups.coordinator.runtime.on_unasked = None

    def _watch_partitions(self, broker: BrokerServices) -> None:
        """Be woken by all partitions that there are."""
        at = (broker.image, len(broker.replicas))
        if self._watched is not None and not self._watched.done and self._watched_at == at:
            return
        if self._watched is not None:
            self._watched.cancel()
        self._watched_at = at
        self._watched = broker.purgatory.watch(
            [partition.key for partition in broker.replicas],
            self._on_progress,
            lambda: None,
            _LONG_MS,
            by_key=True,
        )

    def _on_progress(self, _key: Any) -> bool:
        self._tell()
        return False

    def _tell(self) -> None:
        for on_event in tuple(self._on_event):
            on_event()

    def _around(self, handler: Handler) -> Handler:
        function = handler.function

        def handle(context: RequestContext, request: Any) -> Handled[Any]:
            if self._is_shut and is_of_client(context.client_id):
                context.close_connection = True
                return None
            for on_request in tuple(self._on_request):
                on_request(context.broker, context, request)
            self._tell()
            handled = function(context, request)
            if is_in_steps(handled):
                return self._told_in_steps(handled)
            return self._told(handled)

        return replace(handler, function=handle)

    def _told(self, handled: Any) -> Any:
        if isinstance(handled, Promise):
            handled.add_done_callback(lambda _: self._worked())
        else:
            self._worked()
        return handled

    def _told_in_steps(self, steps: Any) -> Steps[Any]:
        return self._told((yield from steps))

    def _worked(self) -> None:
        """A request has been worked on: there may be another partition."""
        if self._broker is not None and self._watched is not None:
            self._watch_partitions(self._broker)
        self._tell()
