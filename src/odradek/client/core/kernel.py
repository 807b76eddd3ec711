"""The producer's work per record: compiled where `odradek.records.kernel` is, else the pure-Python twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.util.compiled import choose

if TYPE_CHECKING:
    from odradek.client.core import _pyappend as _chosen
else:
    _chosen, _ = choose("odradek.client.core._client", "odradek.client.core._pyappend")

producer_kernel: Any = _chosen
"""The module in use."""

BUSY = _chosen.BUSY
FULL = _chosen.FULL
MOVED = _chosen.MOVED
NO_BATCH = _chosen.NO_BATCH
Appender = _chosen.Appender
Gate = _chosen.Gate
OpenBatch = _chosen.OpenBatch
Sticky = _chosen.Sticky
TopicLanes = _chosen.TopicLanes
report = _chosen.report
unfilled = _chosen.unfilled
