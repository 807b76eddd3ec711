"""What it takes before anything is done: imports, a broker's start, its memory when idle, a broker in a test.

    python benchmarks/startup.py [--rounds N]

Each figure is the median of processes of their own. `make test` asserts none of them: machines differ.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from odradek.wire.api import ApiKey
from odradek.wire.headers import encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest

BARS = {
    "import odradek": 100.0,
    "import odradek.wire": 60.0,
    "testing.Broker()": 100.0,
    "process to first answer": 300.0,
    "idle memory": 60.0,
}
TIMED = "import time; t = time.perf_counter(); {}; print((time.perf_counter() - t) * 1000)"
IN_A_TEST = """
import time
from odradek.testing import Broker
t = time.perf_counter()
broker = Broker()
broker.start()
print((time.perf_counter() - t) * 1000)
broker.close()
"""
SETTLED_S = 2.5
"""After the start handlers are imported in the background; then the broker is idle."""


def timed(code: str) -> float:
    """What a process prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return float(done.stdout)


def broker() -> tuple[float, float, float]:
    """Milliseconds from the start of a process to its first answer; MiB, and share of a processor, idle."""
    question = b"".join(encode_request(ApiKey.API_VERSIONS, 0, 1, "startup", ApiVersionsRequest()))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as data:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "odradek", "server", "--data", data, "--port", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as client:
                    client.sendall(question)
                    if client.recv(4):
                        break
                time.sleep(0.001)
            answered = (time.perf_counter() - began) * 1000
            time.sleep(SETTLED_S)
            before, then = _cpu_s(process.pid), time.perf_counter()
            time.sleep(SETTLED_S)
            share = (_cpu_s(process.pid) - before) / (time.perf_counter() - then) * 100
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            (memory,) = (int(line.split()[1]) / 1024 for line in status.splitlines() if "VmRSS" in line)
            return answered, memory, share
        finally:
            process.terminate()
            process.wait()


def _cpu_s(pid: int) -> float:
    """Processor time of all threads."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text(encoding="utf-8").split()[0]) for one in threads) / 1e9


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    # As an installed package: with its byte code.
    with tempfile.TemporaryDirectory() as byte_code:
        os.environ["PYTHONPYCACHEPREFIX"] = byte_code
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        timed(TIMED.format("import odradek.cli.server, odradek.broker.process.main, odradek.wire"))
        timed(IN_A_TEST)
        show(rounds)


def show(rounds: int) -> None:
    """Measure, and print."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for statement in ("import odradek", "import odradek.wire"):
            found.setdefault(statement, []).append(timed(TIMED.format(statement)))
        found.setdefault("testing.Broker()", []).append(timed(IN_A_TEST))
    for _ in range(max(1, rounds // 3)):
        answered, memory, share = broker()
        found.setdefault("process to first answer", []).append(answered)
        found.setdefault("idle memory", []).append(memory)
        found.setdefault("idle CPU", []).append(share)
    units = {"idle memory": "MiB", "idle CPU": "%"}
    print(f"{'':<26} {'median':>10} {'bar':>8}")
    for name, values in found.items():
        unit = units.get(name, "ms")
        bar = f"{BARS[name]:.0f}" if name in BARS else ""
        print(f"{name:<26} {statistics.median(values):>7.2f} {unit:<3} {bar:>7}")


if __name__ == "__main__":
    main()
