"""Hides what a transcript must not tell others, so that it can be attached to a report."""

from __future__ import annotations

import re
from typing import Any

from odradek.errors import KafkaError
from odradek.testing.transcripts.conversation import Spoken, message_of
from odradek.testing.transcripts.frames import REQUEST, TOKEN
from odradek.testing.transcripts.masked_records import RecordMask, hidden, masked_records
from odradek.wire.api import ApiKey
from odradek.wire.fields import Field
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from odradek.wire.structs import Struct

KINDS = ("keys", "values", "names", "credentials")
"""Keys and values of records, the latter with those of headers; names: of topics, groups, clients, hosts, and
every other text but for those that are Kafka's; credentials: hashes of passwords, tokens, secret configs."""

_LOGIN = int(ApiKey.SASL_AUTHENTICATE)
_SECRET_BYTES = frozenset({"hmac", "salt", "salted_password"})
_SECRET_CONFIG = re.compile(r"password|secret|jaas|token|credential|keystore\.key", re.IGNORECASE)
_OPEN_FIELDS = frozenset(
    {"protocol_type", "protocol_name", "mechanism", "mechanisms", "client_software_name"}
    | {"client_software_version", "server_assignor", "state", "states_filter", "types_filter"}
)
"""Texts that are words of Kafka's, or the name of a client's program."""
_OPEN_NAMES = frozenset({"configs", "synonyms", "supported_features", "finalized_features", "protocols"})
"""Lists in whose elements `name` is a word of Kafka's."""
_OPEN_TEXTS = frozenset({"", GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "user", "client-id", "ip"})
_NOTHING = "***"


class Mask:
    """Hides what it is told to. What a client and a broker say to log in is hidden always.

    A name is the same in all frames: `name-1`, `name-2` in the order in which they come.
    """

    def __init__(self, kinds: frozenset[str]) -> None:
        """
        Args:
            kinds: some of `KINDS`.
        """
        self._kinds = kinds
        self._names: dict[str, str] = {}
        self._records = RecordMask(
            "keys" in kinds, "values" in kinds, self._name if "names" in kinds else lambda name: name
        )

    def masked(self, spoken: Spoken) -> bytes:
        """Return the bytes of a frame, with nothing that is to be hidden."""
        if spoken.key == TOKEN:
            return bytes(len(spoken.data))
        if not self._kinds and spoken.key != _LOGIN:
            return spoken.data
        if spoken.message is None:
            return _head_alone(spoken)
        # Anew, as the message itself may be sent on.
        message = message_of(spoken)
        self._hide(message, "")
        client_id = spoken.client_id
        if client_id is not None and "names" in self._kinds:
            client_id = self._name(client_id)
        return spoken.saying(message, client_id)

    def _hide(self, struct: Struct, list_name: str) -> None:
        if self._kinds:
            struct.unknown_tagged_fields = None
        for field in struct.FIELDS:
            setattr(struct, field.name, self._hidden(struct, field, getattr(struct, field.name), list_name))

    def _hidden(self, struct: Struct, field: Field, value: Any, list_name: str) -> Any:
        """Return what a field has in place of its value."""
        if value is None:
            return None
        if isinstance(value, Struct):
            self._hide(value, field.name)
        elif isinstance(value, list) and field.kind == "array":
            return [self._element(struct, field, element, list_name) for element in value]
        elif field.kind == "records":
            return self._hidden_records(value)
        elif field.kind == "bytes":
            return hidden(value) if self._hides_bytes(field.name) else value
        elif isinstance(value, str):
            return self._hidden_text(struct, field.name, value, list_name)
        return value

    def _element(self, struct: Struct, field: Field, element: Any, list_name: str) -> Any:
        if isinstance(element, Struct):
            self._hide(element, field.name)
            return element
        if isinstance(element, str):
            return self._hidden_text(struct, field.name, element, list_name)
        return hidden(element) if isinstance(element, bytes) and self._kinds else element

    def _hides_bytes(self, name: str) -> bool:
        if name == "auth_bytes":
            return True
        return "credentials" in self._kinds if name in _SECRET_BYTES else "names" in self._kinds

    def _hidden_records(self, records: Any) -> bytes:
        if not self._kinds & {"keys", "values", "names"}:
            return bytes(records)
        try:
            return masked_records(records, self._records)
        except KafkaError:
            return bytes(len(records))

    def _hidden_text(self, struct: Struct, name: str, text: str, list_name: str) -> str:
        if name in ("value", "config_value") and "credentials" in self._kinds:
            of = str(getattr(struct, "name", "") or getattr(struct, "config_name", ""))
            if _SECRET_CONFIG.search(of):
                return _NOTHING
        if "names" not in self._kinds or text in _OPEN_TEXTS or name in _OPEN_FIELDS:
            return text
        if name == "name" and list_name in _OPEN_NAMES:
            return text
        return _NOTHING if name == "error_message" else self._name(text)

    def _name(self, text: str) -> str:
        return self._names.setdefault(text, f"name-{len(self._names) + 1}")


def _head_alone(spoken: Spoken) -> bytes:
    """Return a frame that nobody understands: what it begins with, and zeros."""
    head = spoken.data[: 8 if spoken.direction == REQUEST else 4]
    return head + bytes(len(spoken.data) - len(head))
