"""ShareGroupDescribe: state and members of share groups (KIP-932); version 0 was a preview."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int16, int32, nested, string, uuid
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.SHARE_GROUP_DESCRIBE, versions="0-1", flexible="0+")
class ShareGroupDescribeRequest(Message):
    """The groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


@struct
class TopicPartitions(Struct):
    """An element of `Assignment.topic_partitions`."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class Assignment(Struct):
    """The struct in `Member.assignment`."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@struct
class Member(Struct):
    """An element of `DescribedGroup.members`."""

    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    assignment: Assignment = nested(Assignment)


@struct
class DescribedGroup(Struct):
    """An element of `ShareGroupDescribeResponse.groups`."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-(2**31))


@response(ApiKey.SHARE_GROUP_DESCRIBE, versions="0-1", flexible="0+")
class ShareGroupDescribeResponse(Message):
    """The groups as the coordinator knows them."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
