"""A registry for many threads: one request that writes after the other, and answers when it is written."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from odradek.schema_registry.errors import RestException
from odradek.schema_registry.registry import Registry
from odradek.schema_registry.rest import WRITING_METHODS, answer
from odradek.schema_registry.topic_records import Key, Record
from odradek.util.http_routes import Request, Response

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class Replay(Protocol):
    """Takes up a record, once it is known to be kept."""

    def __call__(self, key: Key, value: Mapping[str, Any] | None) -> None:
        """See `Subjects.replay`."""


class Store(Protocol):
    """A place where records are kept."""

    def write(self, records: Sequence[Record]) -> None:
        """Keep records, and return when they were replayed.

        Raises:
            RestException: they are not kept, or it is not known which of them are.
        """

    def close(self) -> None:
        """Give up what it holds."""


class MemoryStore:
    """Keeps nothing beyond what is replayed.

    Args:
        replay: of the registry.
    """

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def write(self, records: Sequence[Record]) -> None:
        """See `Store.write`."""
        for record in records:
            self._replay(record.key, record.value)

    def close(self) -> None:
        """See `Store.close`."""


class Service:
    """Answers requests.

    Args:
        registry: that of this process.
        make_store: given what takes up records, makes the store; they may come from another thread.
    """

    def __init__(self, registry: Registry, make_store: Callable[[Replay], Store]) -> None:
        self._registry = registry
        self._state = threading.Lock()
        """Held by whoever looks at the registry or changes it."""
        self._writing = threading.Lock()
        """Held from a decision to its records' replay: none is made on what is about to change."""
        self._store = make_store(self._replay)

    def handle(self, request: Request) -> Response:
        """Return the answer to a request."""
        try:
            return Response(200, self.answer(request))
        except RestException as refused:
            return Response(refused.status, {"error_code": refused.error_code, "message": str(refused)})
        except Exception:
            logger.exception("%s %s could not be answered", request.method, request.target)
            return Response(500, {"error_code": 500, "message": "Internal Server Error"})

    def answer(self, request: Request) -> Any:
        """Return the content of the answer to a request.

        Raises:
            RestException: it is refused.
        """
        if request.method not in WRITING_METHODS:
            with self._state:
                return answer(self._registry, request).answer
        with self._writing:
            with self._state:
                outcome = answer(self._registry, request)
            if outcome.records:
                self._store.write(outcome.records)
            return outcome.answer

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _replay(self, key: Key, value: Mapping[str, Any] | None) -> None:
        with self._state:
            self._registry.subjects.replay(key, value)
