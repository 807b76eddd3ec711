"""The data that Kafka keeps in topics, in files and inside other messages: one module per topic, file or
protocol.

Keys and values of `__consumer_offsets` (one module per kind of group), `__transaction_state` and
`__share_group_state`, control records, the consumer protocol inside JoinGroup and SyncGroup with the
assignors' user data, and the transaction index's entry.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from odradek.wire.message import Message

MODULES = (
    "consumer_offsets",
    "transaction_state",
    "control_records",
    "consumer_protocol",
    "aborted_txn",
    "consumer_groups",
    "share_groups",
    "share_group_state",
    "streams_groups",
    "default_principal_data",
)


def schema_class(name: str) -> type[Message]:
    """The class of a schema; modules are imported until one has it.

    Args:
        name: Kafka's name (``"OffsetCommitKey"``).

    Raises:
        ValueError: no such schema.
    """
    for module in MODULES:
        schema: Any = getattr(import_module(f"odradek.wire.schemas.{module}"), name, None)
        if getattr(schema, "KIND", ""):
            return schema  # type: ignore[no-any-return]
    raise ValueError(f"no schema is called {name}")
