"""`send_parts`: compiled where there is the kernel, else the twin `broker.network._pysending`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.network._pysending import MOST_PARTS
from odradek.util.compiled import choose

if TYPE_CHECKING:
    from odradek.broker.network._pysending import send_parts
else:
    send_parts = choose("odradek.broker.network._sending", "odradek.broker.network._pysending")[0].send_parts

__all__ = ["MOST_PARTS", "send_parts"]
