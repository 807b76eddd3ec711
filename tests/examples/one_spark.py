"""Runs examples one after the other in one process: Spark's JVM starts once, each has its own session.

Reads lines of JSON, the words of a command; answers each with a line: what it printed, and why it failed, or
null.
"""

import contextlib
import io
import json
import runpy
import sys
import traceback


def run(words: list[str]) -> tuple[str, str | None]:
    """Run a program as Python does that is told these words. Returns what it printed, and why it failed."""
    printed = io.StringIO()
    before, sys.argv = sys.argv, words
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(words[0], run_name="__main__")
    except BaseException:
        return printed.getvalue(), traceback.format_exc()
    finally:
        sys.argv = before
    return printed.getvalue(), None


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
