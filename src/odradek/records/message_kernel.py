"""The loops of message sets: compiled where they are, else in Python; `ODRADEK_KERNEL` rules them, too."""

from __future__ import annotations

import importlib
from types import ModuleType

from odradek.records.kernel import NATIVE


def _choose() -> ModuleType:
    if NATIVE:
        try:
            return importlib.import_module("odradek._messages")
        except ImportError:
            pass
    return importlib.import_module("odradek.records._pymessages")


message_kernel = _choose()
"""`odradek._messages` or `odradek.records._pymessages`."""
