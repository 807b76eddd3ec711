"""Keys and values of control records."""

from __future__ import annotations

from odradek.wire.fields import array, int16, int32, uuid
from odradek.wire.message import Data, Message, Struct, record_key, record_value, struct


@record_key(None, versions="0")
class ControlRecordTypeSchema(Data):
    """The key of a control record.

    What the control record is: 0 abort, 1 commit; further types belong to KRaft.
    """

    type: int = int16()


@record_value(versions="0")
class EndTxnMarker(Data):
    """The value of a control record that ends a transaction.

    Which coordinator's epoch wrote the marker; from version 1 on, which transaction version.
    """

    coordinator_epoch: int = int32()


@struct
class Voter(Struct):
    """An element of `LeaderChangeMessage.voters`."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid("1+")


@record_value(versions="0-1", flexible="0+")
class LeaderChangeMessage(Message):
    """The value of a control record that tells of a new quorum leader. Nothing stands in front of it."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[Voter] = array(Voter)
    granting_voters: list[Voter] = array(Voter)
