"""The producer's work per record: compiled where `odradek.records.kernel` is, else the pure-Python twin."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from odradek.records.kernel import NATIVE

if TYPE_CHECKING:
    from odradek.client.core import _pyappend as _chosen
else:
    try:
        _chosen = importlib.import_module("odradek._client" if NATIVE else "odradek.client.core._pyappend")
    except ImportError:
        if os.environ.get("ODRADEK_KERNEL") == "native":
            raise
        _chosen = importlib.import_module("odradek.client.core._pyappend")

producer_kernel: Any = _chosen
"""The module in use."""

Appender = _chosen.Appender
Gate = _chosen.Gate
OpenBatch = _chosen.OpenBatch
Sticky = _chosen.Sticky
TopicLanes = _chosen.TopicLanes
report = _chosen.report
unfilled = _chosen.unfilled
