"""A broker in a process of its own, to be ended as the test likes."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import forking

# Small segments and frequent checkpoints: a short life meets every kind of file.
SETTINGS = {
    "log.segment.bytes": "40000",
    "log.index.interval.bytes": "700",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "log.flush.scheduler.interval.ms": "50",
    "log.retention.ms": "-1",
}


class Server:
    """One life of a broker, on a folder that other lives have had before it."""

    def __init__(self, data: Path, port: int, settings: Mapping[str, str] = SETTINGS) -> None:
        arguments = ["server", "--data", str(data), "--port", str(port)]
        for name, value in settings.items():
            arguments += ["--set", f"{name}={value}"]
        self.errors = (data.parent / "server.log").open("ab")
        self.ready = False
        self.process = forking.start(arguments, self.errors)

    def wait_ready(self) -> None:
        if self.ready:
            return
        line = self.process.stdout.readline()
        assert line.startswith("ready "), (line, Path(self.errors.name).read_text(encoding="utf-8")[-3000:])
        self.ready = True

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        code = self.process.wait(30)
        self.process.stdout.close()
        self.errors.close()
        return code
