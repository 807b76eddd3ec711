"""The compiled module where there is one, else its twin in pure Python.

`ODRADEK_KERNEL=python` or `=native` forces one of the two; `native` fails on import where there is none.
Both have the same functions and classes, and tests hold them equal to the byte and to the error.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType


def choose(compiled: str, twin: str) -> tuple[ModuleType, bool]:
    """One of two modules, given by name, and whether it is the compiled one.

    Raises:
        ValueError: `ODRADEK_KERNEL` is none of the two words.
        ImportError: it asks for the compiled module, and there is none.
    """
    wish = os.environ.get("ODRADEK_KERNEL", "")
    if wish not in ("", "python", "native"):
        raise ValueError(f"ODRADEK_KERNEL={wish!r}: must be 'python' or 'native'")
    if wish != "python":
        try:
            return importlib.import_module(compiled), True
        except ImportError:
            if wish == "native":
                raise
    return importlib.import_module(twin), False
