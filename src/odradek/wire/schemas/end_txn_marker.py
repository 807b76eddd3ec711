"""EndTxnMarker."""

from __future__ import annotations

from odradek.wire.fields import int32
from odradek.wire.message import Data, record_value


@record_value(versions="0")
class EndTxnMarker(Data):
    """EndTxnMarker."""

    coordinator_epoch: int = int32()
