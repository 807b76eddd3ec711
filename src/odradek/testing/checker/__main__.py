"""`python -m odradek.testing.checker HISTORY.jsonl`: 0 if the history is sound, 1 if not, 2 if it is none."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from odradek.testing.checker.check import check
from odradek.testing.checker.history import HistoryError, load
from odradek.testing.checker.report import ALLOWED, ANOMALIES


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m odradek.testing.checker",
        description="Look in a recorded history of producers and consumers for what a log must never do.",
    )
    parser.add_argument("history", metavar="HISTORY.jsonl", help="the history; - for standard input")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=tuple(ANOMALIES),
        metavar="ANOMALY",
        help="tell of it, but accept it (G0 always is); may be repeated: " + ", ".join(ANOMALIES),
    )
    parser.add_argument("--write-order", action="store_true", help="let the order of writes take part in G1c")
    parser.add_argument("--each", type=int, default=5, help="proofs to tell of each anomaly (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    try:
        if options.history == "-":
            events = list(load(sys.stdin))
        else:
            with Path(options.history).open(encoding="utf-8") as stream:
                events = list(load(stream))
        report = check(events, allowed=ALLOWED | set(options.allow), write_order=options.write_order)
    except (OSError, HistoryError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{options.history}: {error}\n")
        return 2
    sys.stdout.write((json.dumps(report.to_json()) if options.json else report.summary(options.each)) + "\n")
    return 0 if report.valid else 1


if __name__ == "__main__":
    sys.exit(main())
