"""Kafka's clients: `Producer`, `Consumer`, `Admin`, and their asyncio faces; for odradek and for any Kafka.

`core/` holds what decides, without sockets, threads or a clock: protocol state of a connection, metadata,
batches, sequences, positions, group membership, assignors. `aio/` is the asyncio shell around it; `sync/`
puts a blocking face on the same shell, whose loop then runs in one background thread. `raw.py` reads and
writes partitions by offset range over blocking sockets, without a group, for engines that plan their own
work. This package imports `wire` and `records` only; `docs/client.md` is the guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_EXPORTS = {
    "Producer": "odradek.client.sync.producer",
    "Consumer": "odradek.client.sync.consumer",
    "Admin": "odradek.client.sync.admin",
    "AsyncProducer": "odradek.client.aio.producer",
    "AsyncConsumer": "odradek.client.aio.consumer",
    "AsyncAdmin": "odradek.client.aio.admin",
    # A reader starts without what writes: that is half of what it would import.
    "RawReader": "odradek.client.raw_reader",
    "RawWriter": "odradek.client.raw_writer",
    "SimpleConsumer": "odradek.client.simple",
    "TransactionalWriter": "odradek.client.transactional",
    "AccessControlEntry": "odradek.util.acl",
    "AccessControlEntryFilter": "odradek.util.acl",
    "AclBinding": "odradek.util.acl",
    "AclBindingFilter": "odradek.util.acl",
    "AclOperation": "odradek.util.acl",
    "AclPermissionType": "odradek.util.acl",
    "PatternType": "odradek.util.acl",
    "ResourcePattern": "odradek.util.acl",
    "ResourcePatternFilter": "odradek.util.acl",
    "ResourceType": "odradek.util.acl",
    "ConsumerGroupMetadata": "odradek.client.types",
    "ConsumerInterceptor": "odradek.client.core.interceptors",
    "ConsumerRebalanceListener": "odradek.client.types",
    "ConsumerRecord": "odradek.client.types",
    "NewTopic": "odradek.client.types",
    "OffsetAndMetadata": "odradek.client.types",
    "OffsetAndTimestamp": "odradek.client.types",
    "PreparedTxnState": "odradek.client.types",
    "ProducerInterceptor": "odradek.client.core.interceptors",
    "ProducerRecord": "odradek.client.types",
    "RecordMetadata": "odradek.client.types",
    "TopicPartition": "odradek.client.types",
}

__all__ = sorted(_EXPORTS)

if TYPE_CHECKING:
    from odradek.client.aio.admin import AsyncAdmin as AsyncAdmin
    from odradek.client.aio.consumer import AsyncConsumer as AsyncConsumer
    from odradek.client.aio.producer import AsyncProducer as AsyncProducer
    from odradek.client.core.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from odradek.client.core.interceptors import ProducerInterceptor as ProducerInterceptor
    from odradek.client.raw_reader import RawReader as RawReader
    from odradek.client.raw_writer import RawWriter as RawWriter
    from odradek.client.simple import SimpleConsumer as SimpleConsumer
    from odradek.client.sync.admin import Admin as Admin
    from odradek.client.sync.consumer import Consumer as Consumer
    from odradek.client.sync.producer import Producer as Producer
    from odradek.client.transactional import TransactionalWriter as TransactionalWriter
    from odradek.client.types import ConsumerGroupMetadata as ConsumerGroupMetadata
    from odradek.client.types import ConsumerRebalanceListener as ConsumerRebalanceListener
    from odradek.client.types import ConsumerRecord as ConsumerRecord
    from odradek.client.types import NewTopic as NewTopic
    from odradek.client.types import OffsetAndMetadata as OffsetAndMetadata
    from odradek.client.types import OffsetAndTimestamp as OffsetAndTimestamp
    from odradek.client.types import PreparedTxnState as PreparedTxnState
    from odradek.client.types import ProducerRecord as ProducerRecord
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
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value
