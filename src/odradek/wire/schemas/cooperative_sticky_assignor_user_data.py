"""What a member tells the cooperative sticky assignor, as the user data of its subscription (KIP-429)."""

from __future__ import annotations

from odradek.wire.fields import int32
from odradek.wire.message import Message, data


@data(versions="0")
class CooperativeStickyAssignorUserData(Message):
    """The generation in which the member owned the partitions that its subscription lists."""

    generation: int = int32(default=-1)
