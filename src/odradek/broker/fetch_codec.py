"""`parse_fetch` and `encode_fetch`: compiled where there is the kernel, else the twin `broker._pyfetch`.

`ODRADEK_KERNEL` chooses as in `odradek.records.kernel`.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType


def _choose(wish: str) -> ModuleType:
    if wish != "python":
        try:
            return importlib.import_module("odradek._fetch")
        except ImportError:
            if wish == "native":
                raise
    return importlib.import_module("odradek.broker._pyfetch")


_chosen = _choose(os.environ.get("ODRADEK_KERNEL", ""))
parse_fetch = _chosen.parse_fetch
encode_fetch = _chosen.encode_fetch
