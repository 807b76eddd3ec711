"""DeleteShareGroupOffsets: forget where a share group begins to read (KIP-932)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class DeleteShareGroupOffsetsRequestTopic(Struct):
    """An element of `DeleteShareGroupOffsetsRequest.topics`."""

    topic_name: str = string()


@request(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Message):
    """The topics."""

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


@struct
class DeleteShareGroupOffsetsResponseTopic(Struct):
    """An element of `DeleteShareGroupOffsetsResponse.responses`."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@response(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    """Per topic, whether it is forgotten."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(DeleteShareGroupOffsetsResponseTopic)
