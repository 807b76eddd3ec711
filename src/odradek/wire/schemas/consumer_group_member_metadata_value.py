"""__consumer_offsets: a member of a server-side consumer group."""

from __future__ import annotations

from odradek.wire.fields import array, blob, int32, nested, string
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class ClassicProtocol(Struct):
    """An element of `ClassicMemberMetadata.supported_protocols`."""

    name: str = string()
    metadata: bytes = blob()


@struct
class ClassicMemberMetadata(Struct):
    """What `ConsumerGroupMemberMetadataValue.classic_member_metadata` holds."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@record_value(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Data):
    """What the member said of itself."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", tag=0
    )
