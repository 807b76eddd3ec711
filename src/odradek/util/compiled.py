"""The compiled module where there is one, else its twin in pure Python.

`ODRADEK_KERNEL=python` or `=native` forces one of the two; `native` fails on import where there is none.
Both have the same functions and classes, and tests hold them equal to the byte and to the error. In a
checkout, one compiled of a source that has changed since is left alone: its twin fits what calls it.
"""

from __future__ import annotations

import importlib
import logging
import os
from types import ModuleType

from odradek.util.stale import is_stale

logger = logging.getLogger(__name__)


def choose(compiled: str, twin: str) -> tuple[ModuleType, bool]:
    """One of two modules, given by name, and whether it is the compiled one.

    Raises:
        ValueError: `ODRADEK_KERNEL` is none of the two words.
        ImportError: it asks for the compiled module, and there is none that fits.
    """
    wish = os.environ.get("ODRADEK_KERNEL", "")
    if wish not in ("", "python", "native"):
        raise ValueError(f"ODRADEK_KERNEL={wish!r}: must be 'python' or 'native'")
    source = f"{compiled.removeprefix('odradek.').replace('.', '/')}.pyx"
    if wish != "python" and is_stale(source):
        reason = f"{source} has changed since it was compiled: pip install -e . compiles it again"
        if wish == "native":
            raise ImportError(reason)
        logger.warning("%s; its twin in Python serves until then", reason)
    elif wish != "python":
        try:
            return importlib.import_module(compiled), True
        except ImportError:
            if wish == "native":
                raise
    return importlib.import_module(twin), False
