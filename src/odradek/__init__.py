"""odradek: Apache Kafka's system in Python.

`Producer`, `Consumer`, `Admin` and their asyncio faces are imported on first use, so that `import odradek`
stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.version import VERSION

__version__ = VERSION

_CLIENT = (
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
    from odradek.client.aio.admin import AsyncAdmin as AsyncAdmin
    from odradek.client.aio.consumer import AsyncConsumer as AsyncConsumer
    from odradek.client.aio.producer import AsyncProducer as AsyncProducer
    from odradek.client.simple import SimpleConsumer as SimpleConsumer
    from odradek.client.sync.admin import Admin as Admin
    from odradek.client.sync.consumer import Consumer as Consumer
    from odradek.client.sync.producer import Producer as Producer
    from odradek.client.types import ConsumerGroupMetadata as ConsumerGroupMetadata
    from odradek.client.types import ConsumerRebalanceListener as ConsumerRebalanceListener
    from odradek.client.types import ConsumerRecord as ConsumerRecord
    from odradek.client.types import NewTopic as NewTopic
    from odradek.client.types import OffsetAndMetadata as OffsetAndMetadata
    from odradek.client.types import OffsetAndTimestamp as OffsetAndTimestamp
    from odradek.client.types import PreparedTxnState as PreparedTxnState
    from odradek.client.types import RecordMetadata as RecordMetadata
    from odradek.client.types import TopicPartition as TopicPartition
    from odradek.util.acl import AccessControlEntry as AccessControlEntry
    from odradek.util.acl import AccessControlEntryFilter as AccessControlEntryFilter
    from odradek.util.acl import AclBinding as AclBinding
    from odradek.util.acl import AclBindingFilter as AclBindingFilter
    from odradek.util.acl import AclOperation as AclOperation
    from odradek.util.acl import AclPermissionType as AclPermissionType
    from odradek.util.acl import PatternType as PatternType
    from odradek.util.acl import ResourcePattern as ResourcePattern
    from odradek.util.acl import ResourcePatternFilter as ResourcePatternFilter
    from odradek.util.acl import ResourceType as ResourceType


def __getattr__(name: str) -> Any:
    """Import an exported name on first use."""
    if name not in _CLIENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from odradek import client

    value = getattr(client, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is here, the lazy names included."""
    return sorted({*globals(), *_CLIENT})
