"""`python -m benchmarks [--only name,name] [--quick] [--rounds 3] [--seconds 2.5] [--list] [--render]`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback

from benchmarks import report
from benchmarks.sections import SECTIONS, Context, named


def main() -> int:
    """Run sections, keep what they give, write RESULTS.md anew after each. Exit code 1 when one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure beside peers.")
    parser.add_argument("--only", default="", help="names; `security`: all of `security-…`")
    parser.add_argument(
        "--quick", action="store_true", help="one short round: does it run, and roughly where are we"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="of one measurement")
    parser.add_argument("--list", action="store_true", help="name the sections")
    parser.add_argument(
        "--render", action="store_true", help="write RESULTS.md from what was measured before"
    )
    args = parser.parse_args()
    if args.list:
        for section in SECTIONS:
            print(f"{section.name:20}{section.about}{'' if section.in_default else '  (only when named)'}")
        return 0
    if args.render:
        report.render()
        return 0
    try:
        chosen = named(args.only) or [section for section in SECTIONS if section.in_default]
    except ValueError as error:
        parser.error(str(error))
    # Ended by a signal, leave no broker behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:5.0f} s] {line}", flush=True)

    rounds = args.rounds or (1 if args.quick else 3)
    context = Context(rounds, args.seconds or (1.0 if args.quick else 2.5), args.quick, say)
    failed = []
    for section in chosen:
        say(f"=== {section.name}: {section.about}")
        try:
            outcome = section.run(context)
        except Exception:
            traceback.print_exc()
            failed.append(section.name)
            continue
        outcome.save()
        report.render({section.name})
        print("\n".join(report.table(outcome)), flush=True)
    say(f"benchmarks/{report.TARGET.name} is written; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
