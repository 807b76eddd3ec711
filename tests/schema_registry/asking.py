"""A registry in memory that is asked without HTTP."""

from __future__ import annotations

import json
from typing import Any

from odradek.schema_registry.registry import Registry
from odradek.schema_registry.service import MemoryStore, Service
from odradek.schema_registry.topic_records import Record
from odradek.util.http_routes import Request


class Asked:
    """A registry, what it answers, and the records that it wrote."""

    def __init__(self, level: str = "BACKWARD", **more: Any) -> None:
        self.records: list[Record] = []
        self.registry = Registry(level, **more)

        def store(replay: Any) -> MemoryStore:
            def noting(key: Any, value: Any) -> None:
                self.records.append(Record(key, value))
                replay(key, value)

            return MemoryStore(noting)

        self._service = Service(self.registry, store)

    def __call__(self, method: str, target: str, body: Any = None, **headers: str) -> Any:
        """Return the answer; of a refusal (status, code, message).

        Headers have `_` for `-`, and small letters.
        """
        data = b"" if body is None else json.dumps(body).encode()
        answer = self._service.handle(
            Request(method, target, data, {name.replace("_", "-"): value for name, value in headers.items()})
        )
        status, content = answer.status, answer.content
        return content if status == 200 else (status, content["error_code"], content["message"])

    def register(self, subject: str, schema: str, kind: str = "AVRO", **more: Any) -> Any:
        """Register a schema; return its id or the refusal."""
        body = {"schema": schema, "schemaType": kind, **more}
        answer = self("POST", f"/subjects/{subject}/versions", body)
        return answer["id"] if isinstance(answer, dict) else answer
