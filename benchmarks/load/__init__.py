"""The load generator: `build()` compiles it where needed, `run()` runs it and returns its figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent
BINARY = SOURCE.parents[1] / "build" / "load"


class LoadFailedError(Exception):
    """The generator ended with an error, or a response carried an error code."""


def build() -> Path:
    """Compile the generator unless it is newer than its source; return it.

    Raises `LoadFailedError` when there is no C compiler, or it refuses.
    """
    sources = sorted(SOURCE.glob("*.c"))
    newest = max(path.stat().st_mtime for path in [*sources, SOURCE / "load.h"])
    if BINARY.exists() and BINARY.stat().st_mtime > newest:
        return BINARY
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        raise LoadFailedError("no C compiler on this machine")
    BINARY.parent.mkdir(exist_ok=True)
    fresh = BINARY.with_name(f"load.{os.getpid()}.{threading.get_ident()}")
    words = [compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(fresh), *map(str, sources)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise LoadFailedError(done.stderr)
    fresh.replace(BINARY)
    return BINARY


def run(mode: str, *, timeout_s: float = 120, **options: object) -> dict[str, Any]:
    """One run: `run("produce", port=9092, pid=123, connections=4, in_flight=5)`; the figures as a dict.

    Options are those of the program, with `_` for `-`; `pid` may be a list. Raises `LoadFailedError`.
    """
    words = [str(build()), mode]
    for name, value in options.items():
        if isinstance(value, bool):
            value = int(value)
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        words += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode:
        raise LoadFailedError(f"{' '.join(words)}: {done.stderr.strip()} {done.stdout.strip()}")
    return dict(json.loads(done.stdout))
