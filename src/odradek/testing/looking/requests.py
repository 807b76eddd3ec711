"""The requests that have come to a broker, or to the brokers of a cluster, with what they said."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Collection
from threading import Lock
from typing import TYPE_CHECKING, Any

from odradek.broker.requests.between_brokers import purpose_of
from odradek.testing.faults.asked import asked_by
from odradek.testing.faults.checks import ALL_APIS, api_names
from odradek.testing.faults.fault import Fault, WhichRequests, check_keywords
from odradek.testing.own_client import is_own
from odradek.wire.api import ApiKey
from odradek.wire.messages import request_class

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.services import BrokerServices
    from odradek.testing.faults.fault import Asked
    from odradek.testing.faults.sentences import Apis

MOST_REQUESTS = 10_000
MOST_BYTES = 64 * 1024 * 1024
"""So many requests, and bytes of them, are kept at most: the oldest go first."""

_SHOWN = 300


class RecordedRequest:
    """A request that has come to a broker.

    Attributes:
        api: the name of its API, as "Produce".
        version, correlation_id, client_id: of its header.
        broker_id: the broker that it came to.
        listener, user: by which listener it came, and who has logged in, as "User:alice".
        at_ms: when, in milliseconds since the epoch.
        size_bytes: of its body.
    """

    def __init__(self, broker: BrokerServices, context: RequestContext, request: Any) -> None:
        """
        Args:
            broker: the one that it came to.
            context, request: what its handler is called with.
        """
        header = context.header
        self._key = ApiKey(context.api_key)
        self.api = self._key.api_name
        self.version = context.api_version
        self.correlation_id: int = header.correlation_id
        self.client_id = context.client_id
        self.broker_id = broker.broker_id
        self.listener = context.listener_name
        self.user = context.principal
        self.at_ms = context.now_ms
        # Its records lie in the memory of the frame, which is used again; and to make JSON of it in the
        # broker's loop would hold everybody up.
        self._body: bytes = request.encode(context.api_version)
        self.size_bytes = len(self._body)
        self.asked = asked_by(broker, context, request)
        """What rules look at: the names in it, its fetch session's among them."""

    @property
    def body(self) -> dict[str, Any]:
        """The request in Kafka's JSON form: names in camelCase, bytes and records in base64."""
        body: dict[str, Any] = self.message.to_json(self.version)
        return body

    @property
    def message(self) -> Any:
        """The request, as a message of `odradek.wire`."""
        return request_class(self._key).decode(self._body, self.version)

    def __repr__(self) -> str:
        text = json.dumps(self.body, ensure_ascii=False)
        text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        return f"<{self.api} {self.version} of client {self.client_id!r}: {text}>"


class RequestFilter:
    """Says which requests are meant: a fault's rule, without a fault."""

    def __init__(self, apis: Apis, which: WhichRequests) -> None:
        """
        Args:
            apis: names or keys of APIs, "*" for all.
            which: keywords of `Fault`.

        Raises:
            FaultRefusedError: there is no such API.
            TypeError: there is no such keyword.
        """
        given: dict[str, Any] = dict(which)
        check_keywords(given, list(WhichRequests.__annotations__), "a request")
        versions = given.pop("versions", None)
        self._versions = (versions,) if isinstance(versions, int) else versions
        self._rule = Fault(effect="hang", apis=api_names(apis), **given)

    def takes(self, request: RecordedRequest) -> bool:
        """Return whether a request is meant."""
        asked: Asked = request.asked
        versions = (asked.version,) if self._versions is None else tuple(self._versions)
        return (
            (self._rule.apis == (ALL_APIS,) or request.api in self._rule.apis)
            and (purpose_of(asked.client_id) is not None) == self._rule.between_brokers
            and self._rule.miss(asked, versions) is None
        )

    def __str__(self) -> str:
        """The filter in words."""
        return str(self._rule).removeprefix("hang: ")


class RequestRecorder:
    """Keeps the requests of one broker, or of several, whose loops it is called in.

    Attributes:
        dropped: how many have been let go of for others.
    """

    def __init__(self, most: int = MOST_REQUESTS) -> None:
        """
        Args:
            most: how many are kept.
        """
        self._most = most
        self._lock = Lock()
        self._kept: deque[RecordedRequest] = deque()
        self._bytes = 0
        self.dropped = 0

    def record(self, broker: BrokerServices, context: RequestContext, request: Any) -> None:
        """Keep a request, unless it is the test kit's own."""
        if is_own(context.client_id):
            return
        recorded = RecordedRequest(broker, context, request)
        with self._lock:
            self._kept.append(recorded)
            self._bytes += recorded.size_bytes
            while len(self._kept) > self._most or self._bytes > MOST_BYTES:
                self._bytes -= self._kept.popleft().size_bytes
                self.dropped += 1

    def of(self, wanted: RequestFilter) -> list[RecordedRequest]:
        """Return those that a filter takes, in the order in which they came."""
        with self._lock:
            kept: Collection[RecordedRequest] = tuple(self._kept)
        return [request for request in kept if wanted.takes(request)]

    def summary(self) -> str:
        """Return in a line how many requests of which APIs are kept."""
        with self._lock:
            counts = Counter(request.api for request in self._kept)
        text = ", ".join(f"{api} {count}" for api, count in sorted(counts.items()))
        return f"of all requests: {text or 'none'}" + (f", {self.dropped} dropped" if self.dropped else "")
