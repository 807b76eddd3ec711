"""`python -m odradek.testing.workload`: rounds until the time is up; 0 if all are sound, else 1."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from odradek.testing.workload.plan import Plan
from odradek.testing.workload.round import run_round


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m odradek.testing.workload",
        description="Transactions of many clients under crashes and kill -9 of the broker, round after "
        "round, each judged by odradek.testing.checker.",
    )
    parser.add_argument("--minutes", type=float, default=0, help="go on for so long; at least one round")
    parser.add_argument("--seed", type=int, help="of the first round; then the numbers after it")
    parser.add_argument("--transactions", type=int, default=2_000, help="of each round (%(default)s)")
    parser.add_argument("--broker-kills", type=int, default=8, help="in each round (%(default)s)")
    parser.add_argument("--host-kills", type=int, default=5, help="of processes of clients (%(default)s)")
    parser.add_argument("--crashes", type=float, default=0.06, help="share of transactions (%(default)s)")
    parser.add_argument(
        "--kafka-version", help="the release that the broker is to be, as 3.9-kraft: with its transactions"
    )
    parser.add_argument("--out", type=Path, default=Path("build/histories"), help="keeps what was not sound")
    options = parser.parse_args(arguments)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    until = time.monotonic() + options.minutes * 60
    rounds = 0
    while rounds == 0 or time.monotonic() < until:
        plan = Plan(
            seed + rounds,
            options.transactions,
            crashes=options.crashes,
            broker_kills=options.broker_kills,
            host_kills=options.host_kills,
            two_phase=options.kafka_version is None,
            settings={"odradek.kafka.version": options.kafka_version} if options.kafka_version else {},
        )
        if not _round(plan, options.out):
            return 1
        rounds += 1
    sys.stdout.write(f"{rounds} rounds from seed {seed} on, all sound\n")
    return 0


def _round(plan: Plan, out: Path) -> bool:
    sys.stdout.write(f"seed {plan.seed}\n")
    sys.stdout.flush()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="odradek-workload-") as name:
        folder = Path(name)
        try:
            verdict = asyncio.run(run_round(plan, folder))
            sys.stdout.write(f"{verdict.summary()}\n{time.monotonic() - began:.1f} s\n")
            sound = verdict.sound
        except BaseException:
            _keep(folder, out / str(plan.seed))
            raise
        if not sound:
            _keep(folder, out / str(plan.seed))
    sys.stdout.flush()
    return sound


def _keep(folder: Path, kept: Path) -> None:
    """The history and everything of the broker's."""
    import shutil

    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept)
    sys.stdout.write(f"kept in {kept}\n")


if __name__ == "__main__":
    sys.exit(main())
