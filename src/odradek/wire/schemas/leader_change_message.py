"""The value of a control record that tells of a new quorum leader. Nothing stands in front of it."""

from __future__ import annotations

from odradek.wire.fields import array, int16, int32, uuid
from odradek.wire.message import Message, Struct, record_value, struct


@struct
class Voter(Struct):
    """An element of `LeaderChangeMessage.voters`."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid("1+")


@record_value(versions="0-1", flexible="0+")
class LeaderChangeMessage(Message):
    """The leader and who voted."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[Voter] = array(Voter)
    granting_voters: list[Voter] = array(Voter)
