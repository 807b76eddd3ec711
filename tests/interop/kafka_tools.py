"""Apache Kafka's command-line tools, many calls in one JVM, and ours: what they print and how they exit."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from click.testing import CliRunner

from interop import kafka_peer
from odradek.cli.main import main
from waiting import WITHIN_S

HARNESS = Path(__file__).with_name("KafkaTools.java")
PERFORMANCE = {
    "producer-perf-test": ("org.apache.kafka.tools.ProducerPerformance",) * 2,
    "consumer-perf-test": ("org.apache.kafka.tools.ConsumerPerformance", "kafka.tools.ConsumerPerformance"),
}
TOOLS = kafka_peer.TOOLS | PERFORMANCE


class Outcome(NamedTuple):
    """How a tool ended; status -1: it had not ended when its time was up."""

    status: int
    out: str
    err: str


def ours(tool: str, *words: str) -> Outcome:
    """Run odradek's tool in this process."""
    result = CliRunner().invoke(main, [tool, *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


class KafkaTools:
    """The tools of one Kafka version, in one JVM that lives as long as this object is entered."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> KafkaTools:
        command = kafka_peer.java_command(self.version, str(HARNESS), heap="256m")
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        child.stdin.close()
        child.stdout.close()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(WITHIN_S)

    def run(self, tool: str, *arguments: str, stdin: str = "", limit_s: int = 30) -> Outcome:
        """Run a tool, by its short name, to its end or for `limit_s` seconds."""
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        new, old = TOOLS[tool]
        main_class = new if kafka_peer.version_tuple(self.version) >= (4,) else old
        words = [stdin, str(limit_s), main_class, *arguments]
        child.stdin.write(" ".join("." + base64.b64encode(w.encode()).decode() for w in words) + "\n")
        child.stdin.flush()
        answer = child.stdout.readline().split()
        assert len(answer) == 3, f"Kafka {self.version} {tool}: the JVM has gone"
        out, err = (base64.b64decode(word[1:]).decode(errors="backslashreplace") for word in answer[1:])
        return Outcome(int(answer[0]), out, err)

    def both(self, bootstrap_servers: str, tool: str, *words: str) -> tuple[Outcome, Outcome]:
        """Run the tool of both at a broker: (ours, Kafka's)."""
        words = ("--bootstrap-server", bootstrap_servers, *words)
        return ours(tool, *words), self.run(tool, *words)
