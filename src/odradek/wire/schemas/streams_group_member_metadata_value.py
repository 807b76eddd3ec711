"""__consumer_offsets: a member of a streams group."""

from __future__ import annotations

from odradek.wire.fields import array, int32, nested, string, uint16
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class Endpoint(Struct):
    """What `StreamsGroupMemberMetadataValue.user_endpoint` holds."""

    host: str = string()
    port: int = uint16()


@struct
class KeyValue(Struct):
    """An element of `StreamsGroupMemberMetadataValue.client_tags`."""

    key: str = string()
    value: str = string()


@record_value(versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Data):
    """What the member said of itself."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)
