"""A process that forks brokers: everything is imported once, so that a broker to be killed starts in
milliseconds.

For each line of standard input, a JSON object of configs, it forks a broker, which prints `PID HOST:PORT`.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from odradek.broker.config import BrokerConfig
from odradek.broker.logging import configure
from odradek.broker.main import loop_factory, run
from odradek.broker.registry import Handlers


def main() -> None:
    """Fork a broker per line, until the input ends."""
    configure(level="ERROR")
    Handlers().load_all()
    loop_factory()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            code = run(BrokerConfig(json.loads(line)), on_ready=say)
            os._exit(code)


def say(address: str) -> None:
    """Tell the test that the broker is ready."""
    sys.stdout.write(f"{os.getpid()} {address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
