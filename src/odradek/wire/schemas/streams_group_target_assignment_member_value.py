"""__consumer_offsets: what a member shall have of a streams group."""

from __future__ import annotations

from odradek.wire.fields import array, int32, string
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class TaskIds(Struct):
    """An element of `StreamsGroupTargetAssignmentMemberValue.active_tasks`."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)


@record_value(versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Data):
    """What the member shall have."""

    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)
