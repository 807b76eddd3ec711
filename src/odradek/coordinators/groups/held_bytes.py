"""The memory that groups hold, counted: of one group, and of all groups of a coordinator.

What is counted is what clients choose the size of: names, the metadata of each protocol, assignments; and an
allowance for the objects around them. The bounds are `odradek.group.member.max.bytes`,
`odradek.group.max.bytes` and `odradek.group.coordinator.max.bytes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.coordinators.groups.member import Member

PER_MEMBER = 1_500
"""An allowance for the objects of a member: slots, timers, the answer that it waits for."""

PER_PROTOCOL = 150
PER_PENDING_ID = 700


class HeldBytes:
    """A count of bytes, which is part of another.

    Attributes:
        bytes: how many.
    """

    __slots__ = ("_whole", "bytes")

    def __init__(self, whole: HeldBytes | None = None) -> None:
        """
        Args:
            whole: what this is a part of.
        """
        self.bytes = 0
        self._whole = whole

    def add(self, count: int) -> None:
        """Count more, or with a negative number less."""
        self.bytes += count
        if self._whole is not None:
            self._whole.add(count)

    def let_go(self) -> None:
        """Count nothing any more in the whole, whatever is said from now on."""
        self.add(-self.bytes)
        self._whole = None


def size_of(member: Member) -> int:
    """The bytes that a member takes."""
    size = PER_MEMBER + len(member.assignment)
    for text in (member.member_id, member.group_instance_id, member.client_id, member.protocol_type):
        size += len(text or "")
    for name, metadata in member.protocols:
        size += PER_PROTOCOL + len(name) + len(metadata)
    return size
