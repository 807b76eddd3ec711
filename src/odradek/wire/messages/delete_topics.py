"""DeleteTopics: delete topics by name or, from version 6 on, by id (KIP-516)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int16, int32, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class DeleteTopicState(Struct):
    """An element of `DeleteTopicsRequest.topics`."""

    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


@request(ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+")
class DeleteTopicsRequest(Message):
    """The topics to delete."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32()


@struct
class DeletableTopicResult(Struct):
    """An element of `DeleteTopicsResponse.responses`."""

    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@response(ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+")
class DeleteTopicsResponse(Message):
    """Per topic, whether it goes."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
