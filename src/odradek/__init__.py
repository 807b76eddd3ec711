"""odradek: Apache Kafka's system in Python.

`Producer`, `Consumer`, `Admin` and their asyncio faces are imported on first use, so that `import odradek`
stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.version import VERSION

__version__ = VERSION

__all__ = (
    "AccessControlEntry",
    "AccessControlEntryFilter",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PatternType",
    "PreparedTxnState",
    "Producer",
    "RecordMetadata",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "SimpleConsumer",
    "TopicPartition",
)

if TYPE_CHECKING:
    from odradek.client.aio.admin import AsyncAdmin
    from odradek.client.aio.consumer import AsyncConsumer
    from odradek.client.aio.producer import AsyncProducer
    from odradek.client.simple import SimpleConsumer
    from odradek.client.sync.admin import Admin
    from odradek.client.sync.consumer import Consumer
    from odradek.client.sync.producer import Producer
    from odradek.client.types import (
        ConsumerGroupMetadata,
        ConsumerRebalanceListener,
        ConsumerRecord,
        NewTopic,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PreparedTxnState,
        RecordMetadata,
        TopicPartition,
    )
    from odradek.util.acl import (
        AccessControlEntry,
        AccessControlEntryFilter,
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        PatternType,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )


def __getattr__(name: str) -> Any:
    """Import an exported name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from odradek import client

    value = getattr(client, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is here, the lazy names included."""
    return sorted({*globals(), *__all__})
