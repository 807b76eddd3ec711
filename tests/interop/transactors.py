"""Programs that show transactions of client libraries, as `go/role/transactions.go` describes their words."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from interop import members
from interop.programs import Program, ProgramMember
from waiting import WITHIN_S, joined

STEP_LIMIT_S = 120.0
"""Twice what the libraries give themselves: what they say is told first."""

PARTITIONS = 4


class Transactor:
    """A producer with a transactional id, moved step by step."""

    def __init__(self, program: Program, bootstrap: str, topic: str, transactional_id: str) -> None:
        self.child = program.start("transact", bootstrap, topic, transactional_id)
        self._answers: queue.Queue[dict[str, str]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._answers.put(json.loads(line))

    def start(self, step: str, *words: str) -> None:
        """Have it do a step; `answer` tells how that went."""
        assert self.child.stdin is not None
        self.child.stdin.write(" ".join((step, *words)) + "\n")
        self.child.stdin.flush()

    def answer(self, step: str) -> str:
        """Wait for the answer to a step; empty, or its error."""
        try:
            got = self._answers.get(timeout=STEP_LIMIT_S)
        except queue.Empty:
            raise AssertionError(f"{step}: not within {STEP_LIMIT_S:.0f} s") from None
        assert got["step"] == step
        return got["error"]

    def opened(self) -> Transactor:
        """Wait until it has taken its id."""
        assert self.answer("open") == ""
        return self

    def attempt(self, step: str, *words: str) -> str:
        """Do a step and wait; empty, or its error."""
        self.start(step, *words)
        return self.answer(step)

    def do(self, step: str, *words: str) -> None:
        """Do a step, which has to succeed."""
        error = self.attempt(step, *words)
        assert error == "", f"{step}: {error}"

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.child.kill()
        self.child.wait(WITHIN_S)
        joined(self._reader)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            assert pipe is not None
            pipe.close()


class Workbench:
    """Starts the programs of one library at one broker, and ends what is left of them."""

    def __init__(self, program: Program, bootstrap: str) -> None:
        self.program = program
        self.bootstrap = bootstrap
        self._left: list[Transactor | Lines] = []

    def producer(self, topic: str, transactional_id: str) -> Transactor:
        """A producer that has taken its id."""
        return self.starting(topic, transactional_id).opened()

    def starting(self, topic: str, transactional_id: str) -> Transactor:
        """A producer that is about to take its id."""
        started = Transactor(self.program, self.bootstrap, topic, transactional_id)
        self._left.append(started)
        return started

    def transform(self, source: str, target: str, group: str, transactional_id: str) -> Lines:
        """A process that copies a topic, its offsets in the transactions."""
        words = ("transform", self.bootstrap, source, target, group, transactional_id)
        started = Lines(self.program.start(*words))
        self._left.append(started)
        return started

    def committed(self, topic: str, ends: set[str], group: str) -> list[str]:
        """What a read_committed consumer sees up to the last of `ends`, which end the partitions.

        A record that is read again counts once: on a busy machine the group may have thrown its member out,
        which then begins anew.
        """
        reader = ProgramMember(self.program.start("committed", self.bootstrap, topic, group))

        def seen() -> list[str]:
            by_place = {(one["partition"], one["offset"]): one["value"] for one in list(reader.records)}
            return list(by_place.values())

        def ended() -> bool:
            assert reader.child.poll() is None, "the reader has ended"
            reader.poll()
            return ends <= set(seen())

        try:
            members.until(f"{topic} is read up to {sorted(ends)}", ended)
        except BaseException:
            reader.kill()
            raise
        reader.close()
        return [value for value in seen() if value not in ends]

    def close(self) -> None:
        """End all of them."""
        for one in self._left:
            one.kill()


class Lines:
    """A process that prints lines of JSON until it is told to leave."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        self.lines.extend(json.loads(line) for line in self.child.stdout)

    def count(self, what: Callable[[dict[str, Any]], bool]) -> int:
        """How many of its lines are so."""
        return sum(map(what, list(self.lines)))

    def leave(self) -> None:
        """Let it end in its own way."""
        assert self.child.stdin is not None and self.child.stderr is not None
        self.child.stdin.close()
        try:
            status = self.child.wait(60)
        except subprocess.TimeoutExpired:
            self.child.kill()
            status = self.child.wait(WITHIN_S)
        joined(self._reader)
        assert status == 0, self.child.stderr.read()[-3000:]

    def kill(self) -> None:
        """End it at once."""
        self.child.kill()
        self.child.wait(WITHIN_S)
        joined(self._reader)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            assert pipe is not None
            pipe.close()
