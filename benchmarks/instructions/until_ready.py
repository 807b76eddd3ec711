"""`odradek server` that ends when it says that it is ready: a process whose whole life is that."""

from __future__ import annotations

import os
import sys


class _Stdout:
    """In place of standard output: ends the process at the line that says so."""

    def write(self, text: str) -> int:
        if text.startswith("ready "):
            theirs = [name for name in sys.modules if not name.startswith("benchmarks")]
            os.write(1, b"modules %d\n" % len(theirs))
            os._exit(0)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept."""


def run(words: list[str]) -> None:
    """Run `odradek` with these words; it prints how many modules it has imported."""
    from odradek.cli.main import main

    sys.argv = ["odradek", *words]
    sys.stdout = _Stdout()  # type: ignore[assignment]
    main()
