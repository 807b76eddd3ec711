"""Where a broker's time goes: flame graphs under load, and the microseconds of each step of a request.

    make profile                                  everything, into build/profile
    python -m benchmarks.profiling --only steps     one of them: steps, produce, fetch

`steps.md`: a table per kind of request. `produce.svg`, `fetch.svg`: what the broker's process did under the
load generator, with the C functions where py-spy is there (`pip install py-spy`), else by a sampler in the
broker that sees Python functions only. `produce.folded`, `fetch.folded`: the samples.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from benchmarks import load
from benchmarks.profiling import flame, steps
from benchmarks.soak.__main__ import BrokerProcess

SECONDS = 5
RATE = 400
LOADS = {
    "produce": {"topic": "p16", "partitions": 8, "connections": 4, "in_flight": 5},
    "produce-small": {"topic": "p1", "connections": 1, "in_flight": 5, "records": 1},
    "fetch": {"topic": "p16", "partitions": 8, "per_request": 2, "connections": 4, "max_bytes": 65_536},
}


def find_spy() -> str | None:
    """py-spy beside this Python, or on the path."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


def sample(broker: BrokerProcess, kind: str, out: Path) -> None:
    """Put the broker under a load, and write what it did meanwhile."""
    _, _, port = broker.address.rpartition(":")
    options = LOADS[kind]
    command = kind.partition("-")[0]
    results: list[object] = []
    runner = threading.Thread(
        target=lambda: results.append(
            load.run(command, port=int(port), pid=broker.pid, seconds=SECONDS + 2, **options)
        )
    )
    runner.start()
    folded = out / f"{kind}.folded"
    spy = find_spy()
    runner.join(1.5)
    done = None
    if spy is not None:
        words = [
            spy,
            "record",
            "--native",
            "--format",
            "raw",
            "--rate",
            str(RATE),
            "--duration",
            str(SECONDS),
        ]
        done = subprocess.run(
            [*words, "--output", str(folded), "--pid", str(broker.pid)], capture_output=True, check=False
        )
    if done is None or done.returncode != 0:
        broker.ask("stacks")
        runner.join(SECONDS)
        stacks = broker.ask("stacks")
        folded.write_text("".join(f"{stack} {count}\n" for stack, count in stacks.items()), encoding="utf-8")
    runner.join()
    root = flame.tree(folded.read_text(encoding="utf-8").splitlines(), below="run_forever")
    if not root.samples:
        root = flame.tree(folded.read_text(encoding="utf-8").splitlines())
    (out / f"{kind}.svg").write_text(flame.svg(root, f"odradek under {kind} {options}"), encoding="utf-8")
    print(f"\n{kind}: {results[0] if results else ''}\n{'alone':>8} {'with all':>9}")
    for name, alone, whole in flame.heaviest(root, 20):
        print(f"{alone:>8.1%} {whole:>9.1%}  {name}")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=["steps", *LOADS], action="append")
    parser.add_argument("--out", type=Path, default=Path("build/profile"))
    parser.add_argument("--data", type=Path, help="where the broker's folder is made [default: in memory]")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = options.only or ["steps", *LOADS]
    memory = Path("/dev/shm")
    where = options.data or (memory if memory.is_dir() else None)
    with tempfile.TemporaryDirectory(prefix="odradek-profile-", dir=where) as folder:
        if "steps" in wanted:
            text = steps.table(steps.measure(Path(folder) / "steps"))
            (options.out / "steps.md").write_text(text, encoding="utf-8")
            print(text)
        if kinds := [kind for kind in LOADS if kind in wanted]:
            broker = BrokerProcess(Path(folder) / "data", options.out / "broker.log")
            try:
                if "fetch" in kinds and "produce" not in kinds:
                    _, _, port = broker.address.rpartition(":")
                    load.run("produce", port=int(port), pid=broker.pid, seconds=2, **LOADS["produce"])
                for kind in kinds:
                    sample(broker, kind, options.out)
            finally:
                broker.stop()


if __name__ == "__main__":
    main()
