"""Further processes of this Python, which import what this one imports."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def module_command(module: str, *words: str) -> list[str]:
    """Return the command that runs a module of ours.

    With `-P`: else `-m` looks for every module in the working folder first, and that may be one where others
    can put theirs.
    """
    return [sys.executable, "-P", "-m", module, *words]


def module_environment() -> dict[str, str]:
    """Return the environment of such a process: the package is found where it was found for us."""
    path = os.pathsep.join((str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")))
    return {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)}
