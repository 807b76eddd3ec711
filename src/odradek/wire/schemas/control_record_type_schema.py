"""The key of a control record."""

from __future__ import annotations

from odradek.wire.fields import int16
from odradek.wire.message import Data, record_key


@record_key(None, versions="0")
class ControlRecordTypeSchema(Data):
    """What the control record is: 0 abort, 1 commit; further types belong to KRaft."""

    type: int = int16()
