"""`python -m simulation`: see docs/simulation.md."""

from __future__ import annotations

import os
import sys

if os.environ.get("PYTHONHASHSEED") != "0":
    # The order of texts in a set is a part of the trace.
    os.execve(
        sys.executable,
        [sys.executable, "-m", "simulation", *sys.argv[1:]],
        {**os.environ, "PYTHONHASHSEED": "0"},
    )

import argparse
import logging

from . import isolation
from .faults import parse
from .run import simulate


def main() -> int:
    """Run seeds; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m simulation")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--faults", help="instead of those of the seed")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--log", action="store_true")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO if options.log else logging.CRITICAL)
    failed = 0
    for seed in range(options.seed, options.seed + options.seeds):
        began = isolation.real_time()
        faults = None if options.faults is None else parse(options.faults)
        outcome = simulate(seed, faults, keep_trace=options.trace)
        if outcome.trace is not None:
            print("\n".join(outcome.trace))
        print(
            f"seed {seed}: {len(outcome.faults)} faults, {outcome.events} events, {outcome.digest}, "
            f"{outcome.acknowledged} acknowledged, {outcome.forgiven} forgiven, "
            f"{isolation.real_time() - began:.2f} s",
            flush=True,
        )
        if outcome.problems:
            print("\n".join(outcome.problems))
            print(f"again: make simulate SEED={seed} FAULTS={','.join(one.text() for one in outcome.faults)}")
        failed += bool(outcome.problems)
    return 1 if failed else 0


sys.exit(main())
