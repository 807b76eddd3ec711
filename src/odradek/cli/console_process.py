"""The console of `odradek server --console-port`: a process beside the broker's.

A page can be work of many milliseconds, and a console has threads and sockets of its own: in the broker's
process it would hold up whoever produces. It ends with the broker, however that ends: its standard input is a
pipe of the broker's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from odradek.util.own_python import module_command, module_environment

END_TIMEOUT_S = 20.0


class ConsoleProcess:
    """Runs a console for a broker. Its lines, `ready URL` and `login URL`, go to standard error.

    Args:
        address: of the broker.
        port: of the console; 0 takes a free one.
        metrics_urls: of the metrics ports of the broker and its workers.
        config_file: the properties of the console's clients.
    """

    def __init__(
        self, address: str, port: int, metrics_urls: Sequence[str] = (), config_file: Path | None = None
    ) -> None:
        words = ["--bootstrap-server", address, "--port", str(port), "--until-stdin-ends"]
        for url in metrics_urls:
            words += ["--metrics-url", url]
        if config_file is not None:
            words += ["--command-config", str(config_file)]
        self._child = subprocess.Popen(
            module_command("odradek", "console", *words),
            stdin=subprocess.PIPE,
            stdout=sys.stderr.fileno(),
            env=module_environment(),
        )

    def close(self) -> None:
        """End it; one that does not end is killed."""
        assert self._child.stdin is not None
        with suppress(OSError):
            self._child.stdin.close()
        try:
            self._child.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(END_TIMEOUT_S)
