"""ControlRecordTypeSchema."""

from __future__ import annotations

from odradek.wire.fields import int16
from odradek.wire.message import Data, data


@data(versions="0")
class ControlRecordTypeSchema(Data):
    """ControlRecordTypeSchema."""

    type: int = int16()
