"""The load generator: `build()` compiles it where needed, `run()` runs it and returns its figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from contextlib import AbstractContextManager, suppress
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
    words = _words(mode, options)
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s)
    if done.returncode:
        raise LoadFailedError(f"{' '.join(words)}: {done.stderr.strip()} {done.stdout.strip()}")
    return dict(json.loads(done.stdout))


def run_counted(
    mode: str,
    counting: AbstractContextManager[object],
    *,
    requests: int,
    warm_requests: int,
    timeout_s: float,
    **options: object,
) -> dict[str, Any]:
    """As `run`, of exactly so many requests, which are sent while `counting` is entered.

    Args:
        mode: the generator's.
        counting: entered when the requests before are answered, left when all are; nothing is in flight then.
        requests: how many.
        warm_requests: how many before.
        timeout_s: how long the whole may take, in seconds.
        options: the others of the program.

    Raises:
        LoadFailedError: the generator ended with an error or was late.
    """
    options |= {"counted": 1, "requests": requests, "warm_requests": warm_requests, "seconds": timeout_s}
    words = _words(mode, options)
    with subprocess.Popen(
        words, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        late = threading.Timer(timeout_s, child.kill)
        late.start()
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            if child.stdout.readline() == "begin\n":
                with counting, suppress(BrokenPipeError):
                    child.stdin.write("\n")
                    child.stdin.flush()
                    child.stdout.readline()
            said, failed = child.communicate("\n")
        finally:
            late.cancel()
    if child.returncode:
        raise LoadFailedError(f"{' '.join(words)}: {failed.strip()} {said.strip()}")
    return dict(json.loads(said))


def _words(mode: str, options: dict[str, object]) -> list[str]:
    words = [str(build()), mode]
    for name, value in options.items():
        if isinstance(value, bool):
            value = int(value)
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words
