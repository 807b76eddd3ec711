"""`KeyMap`, compiled where there is the kernel; the twin `odradek.log.cleaner._pykeys` is its contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.util.compiled import choose

if TYPE_CHECKING:
    from odradek.log.cleaner._pykeys import KeyMap
else:
    KeyMap = choose("odradek.log.cleaner._cleaner", "odradek.log.cleaner._pykeys")[0].KeyMap

__all__ = ["KeyMap"]
