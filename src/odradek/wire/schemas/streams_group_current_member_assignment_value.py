"""__consumer_offsets: what a member has of a streams group."""

from __future__ import annotations

from odradek.wire.fields import array, int8, int32, string
from odradek.wire.message import Data, Struct, record_value, struct


@struct
class TaskIds(Struct):
    """An element of `StreamsGroupCurrentMemberAssignmentValue.active_tasks`."""

    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0)


@record_value(versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Data):
    """What the member has."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)
    active_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
    standby_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
    warmup_tasks_pending_revocation: list[TaskIds] = array(TaskIds)
