"""`send_range`: compiled where there is the kernel, else the twin `broker._pysending`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.util.compiled import choose

if TYPE_CHECKING:
    from odradek.broker.network._pysending import send_range
else:
    send_range = choose("odradek._sending", "odradek.broker.network._pysending")[0].send_range

__all__ = ["send_range"]
