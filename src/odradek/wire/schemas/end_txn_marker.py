"""The value of a control record that ends a transaction."""

from __future__ import annotations

from odradek.wire.fields import int32
from odradek.wire.message import Data, record_value


@record_value(versions="0")
class EndTxnMarker(Data):
    """Which coordinator's epoch wrote the marker; from version 1 on, which transaction version."""

    coordinator_epoch: int = int32()
