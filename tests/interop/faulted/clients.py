"""The clients that are driven through faults, as programs that run on from one piece of work to the next."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from interop import programs, row_names
from waiting import WITHIN_S, joined

#: How long a piece of work may take; the clients' own limits are below it.
LIMIT_S = 30.0
JAVA = "4.4.0"


@dataclass(frozen=True)
class Client:
    """A client library.

    Attributes:
        name: as its users call it.
        version: its release.
        build: makes the program around it.
        needs: what has to be on the machine.
        package: of Python that has to be there.
    """

    name: str
    version: Callable[[], str]
    build: Callable[[], programs.Program]
    needs: tuple[str, ...] = ()
    package: str = ""


def _python(distribution: str, package: str, program: str) -> Client:
    return Client(
        distribution,
        lambda: row_names.release("Python", "", distribution),
        lambda: programs.python_program(program),
        package=package,
    )


CLIENTS = (
    _python("confluent-kafka", "confluent_kafka", "faultedconfluent"),
    _python("kafka-python", "kafka", "faultedkafkapython"),
    _python("aiokafka", "aiokafka", "faultedaiokafka"),
    Client(
        "franz-go",
        lambda: row_names.release("Go", *row_names.FRANZ),
        lambda: programs.go_program("faulted"),
        ("go",),
    ),
    Client(
        "Kafka's Java clients",
        lambda: JAVA,
        lambda: programs.java_program("Faulted", JAVA),
        ("java", "javac", "mvn"),
    ),
    _python("odradek", "odradek", "faultedodradek"),
)


def missing(client: Client) -> list[str]:
    """What the machine lacks for a client."""
    from importlib.util import find_spec

    lacks = [tool for tool in client.needs if shutil.which(tool) is None]
    if client.package and find_spec(client.package) is None:
        lacks.append(client.package)
    return lacks


class Running:
    """A client's program, started when it is asked for the first time, and again when it had to be killed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._program: programs.Program | None = None
        self._child: subprocess.Popen[str] | None = None

    def begin(self, words: str) -> None:
        """Have it begin a piece of work."""
        if self._child is None:
            if self._program is None:
                self._program = self._client.build()
            self._child = self._program.start()
            self._lines: queue.Queue[str] = queue.Queue()
            self._errors: list[str] = []
            self._readers = [
                threading.Thread(target=self._read, daemon=True),
                threading.Thread(target=self._read_errors, args=(self._child,), daemon=True),
            ]
            for reader in self._readers:
                reader.start()
        self.say(words)

    def say(self, line: str) -> None:
        """Write it a line."""
        assert self._child is not None and self._child.stdin is not None
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()

    def line(self) -> dict[str, Any] | None:
        """Its next line; None where none comes in time, and the program has been ended.

        Raises:
            AssertionError: it has ended by itself.
        """
        assert self._child is not None
        try:
            text = self._lines.get(timeout=LIMIT_S)
        except queue.Empty:
            self.close()
            return None
        if not text:
            self.close()
            raise AssertionError(f"{self._client.name} ended: {''.join(self._errors)[-3000:]}")
        line: dict[str, Any] = json.loads(text)
        return line

    @property
    def has_line(self) -> bool:
        """Whether its next line is there."""
        return not self._lines.empty()

    def close(self) -> None:
        """End it."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait(WITHIN_S)
        for reader in self._readers:
            joined(reader)
        for pipe in (child.stdin, child.stdout, child.stderr):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._child is not None and self._child.stdout is not None
        for text in self._child.stdout:
            self._lines.put(text)
        self._lines.put("")

    def _read_errors(self, child: subprocess.Popen[str]) -> None:
        assert child.stderr is not None
        self._errors.extend(child.stderr)
