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
from contextlib import nullcontext

from . import isolation
from .faults import Fault, parse
from .mutants import MUTANTS
from .run import Outcome, simulate
from .shrinking import shrink_schedule


def main() -> int:
    """Run seeds; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m simulation")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--faults", help="a schedule instead of that of the seed")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="a rule to be left out")
    parser.add_argument("--first", action="store_true", help="end with the first seed that fails")
    parser.add_argument("--shrink", action="store_true", help="find fewer faults that still break it")
    parser.add_argument("--trace", action="store_true", help="print each event")
    parser.add_argument("--log", action="store_true", help="print what brokers and clients log")
    options = parser.parse_args()
    # Errors have to be heard of, whether they are printed or not: one with a traceback is a bug.
    logging.basicConfig(level=logging.INFO if options.log else logging.ERROR)
    if not options.log:
        logging.getLogger().handlers[0].setLevel(logging.CRITICAL)
    faults = None if options.faults is None else parse(options.faults)
    failed = 0
    with nullcontext() if options.mutant is None else MUTANTS[options.mutant]():
        for seed in range(options.seed, options.seed + options.seeds):
            outcome = _run(seed, faults, trace=options.trace)
            if outcome.problems and options.shrink:
                shrunken = shrink_schedule(
                    outcome.faults, lambda some, seed=seed: bool(simulate(seed, some).problems)
                )
                outcome = simulate(seed, shrunken)
                _say(f"shrunken to {len(outcome.faults)} faults:")
                _say("\n".join(outcome.problems))
                _say(again(outcome, options.mutant))
            elif outcome.problems:
                _say(again(outcome, options.mutant))
            failed += bool(outcome.problems)
            if failed and options.first:
                break
    return 1 if failed else 0


def _run(seed: int, faults: list[Fault] | None, *, trace: bool) -> Outcome:
    began = isolation.real_time()
    outcome = simulate(seed, faults, keep_trace=trace)
    if outcome.trace is not None:
        _say("\n".join(outcome.trace))
    _say(
        f"seed {seed}: {len(outcome.faults)} faults, {outcome.events} events, {outcome.digest}, "
        f"{outcome.acknowledged} acknowledged, {outcome.forgiven} forgiven, "
        f"{isolation.real_time() - began:.2f} s"
    )
    if outcome.problems:
        _say("\n".join(outcome.problems))
    return outcome


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def again(outcome: Outcome, mutant: str | None) -> str:
    """The command that runs it again."""
    faults = ",".join(one.text() for one in outcome.faults)
    more = "" if mutant is None else f" SIMULATION='--mutant {mutant}'"
    return f"again: make simulate SEED={outcome.seed} FAULTS={faults}{more}"


sys.exit(main())
