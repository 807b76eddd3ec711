"""Counts what requests take in instructions, and compares with what is kept.

    make instructions                                      all loads, beside what is kept of them
    make instructions RENEW=1                              … and keeps it
    python -m benchmarks.instructions --only produce-1,start   some of them (--list: their names)

Ends with 1 where a load takes more than 1.05 times the instructions that are kept of it.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.instructions import callgrind, place
from benchmarks.instructions.brokers import interpreted
from benchmarks.instructions.counts import Counts
from benchmarks.instructions.kept import Kept, grown, shares, table
from benchmarks.instructions.loads import TITLES, measure


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="names of loads, with commas between")
    parser.add_argument("--renew", action="store_true", help="keep what is counted")
    parser.add_argument("--list", action="store_true", help="the names of the loads")
    return parser.parse_args()


def main() -> int:
    """Run it."""
    options = _options()
    if options.list:
        print("".join(f"{name:24}{title}\n" for name, title in TITLES.items()), end="")
        return 0
    names = options.only.split(",") if options.only else list(TITLES)
    if unknown := set(names) - TITLES.keys():
        print(f"no such load: {', '.join(sorted(unknown))}; there are: {', '.join(TITLES)}", file=sys.stderr)
        return 2
    if why := callgrind.missing() or interpreted():
        print(f"instructions: SKIPPED: {why}")
        return 0
    here, kept = place.here(), Kept.read()
    elsewhere = place.differences(kept.place, here) if kept else []
    if elsewhere and options.renew and options.only:
        print("Kept is what was counted elsewhere: renew all of it.", file=sys.stderr)
        return 2
    before = {} if kept is None or elsewhere else kept.loads
    found: dict[str, Counts] = {}
    skipped: dict[str, str] = {}
    for name, counts in measure(names, skipped):
        found[name] = counts
        print(f"{TITLES[name]}: {counts.instructions:,} instructions", flush=True)
        if options.renew:
            Kept(here, {**before, **found}).write(TITLES)
    for name, why in skipped.items():
        print(f"{TITLES[name]}: SKIPPED: {why}")
    print(f"\n{table(found, TITLES)}\n{shares(found, TITLES)}")
    worse = grown(before, found)
    for line in [*(f"not compared: {one}" for one in elsewhere), *(f"GROWN: {one}" for one in worse)]:
        print(line)
    return 1 if worse and not options.renew else 0


if __name__ == "__main__":
    sys.exit(main())
