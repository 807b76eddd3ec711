"""The per-record loops: compiled where the wheel or the machine has them, else the pure-Python twin.

`ODRADEK_KERNEL=python` or `=native` forces one of the two; `native` fails on import where there is none.
Both have the same functions and classes, and tests hold them equal to the byte and to the error.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType


def _choose(wish: str) -> tuple[ModuleType, bool]:
    if wish not in ("", "python", "native"):
        raise ValueError(f"ODRADEK_KERNEL={wish!r}: must be 'python' or 'native'")
    if wish != "python":
        try:
            return importlib.import_module("odradek._kernel"), True
        except ImportError:
            if wish == "native":
                raise
    return importlib.import_module("odradek.records._pykernel"), False


kernel, NATIVE = _choose(os.environ.get("ODRADEK_KERNEL", ""))
"""The kernel in use, and whether it is the compiled one."""
