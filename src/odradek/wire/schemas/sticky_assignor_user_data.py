"""What a member tells the sticky assignors about itself, as the user data of its subscription.

Nothing stands in front of it, so its reader has to try: version 1, then 0 (KIP-341 brought the generation).
"""

from __future__ import annotations

from odradek.wire.fields import array, int32, string
from odradek.wire.message import Message, Struct, data, struct


@struct
class TopicAssignment(Struct):
    """Partitions of one topic that the member had."""

    topic: str = string()
    partitions: list[int] = array(int32)


@data(versions="0-1")
class StickyAssignorUserData(Message):
    """What the member was assigned in the generation before, for the eager sticky assignor."""

    previous_assignment: list[TopicAssignment] = array(TopicAssignment)
    generation: int = int32("1+", default=-1, ignorable=True)
