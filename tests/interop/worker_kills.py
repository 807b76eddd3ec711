"""`kill -9` of one worker after the other, drawn from a seed, while something else is at work with them."""

from __future__ import annotations

import os
import random
import signal
import threading
from types import TracebackType

from broker.process.test_workers_live import LIMIT_S, Workers, until
from interop.asking import ask
from odradek.broker.process.supervisor import RestartLimits
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse
from waiting import joined

DEATHS_MAX = RestartLimits().deaths_max - 1
"""How often a worker dies here at most: one more in a row, and it would not be started again."""

PAUSE_S = 3.0
"""The longest that all are left alone."""


def alarms(workers: Workers) -> list[str]:
    """The errors that workers have logged: none, whoever of them dies."""
    return [line for line in workers.lines if " ERROR " in line or "Traceback" in line]


class WorkerKills:
    """Kills workers in a thread, each when the last is back and every replica in sync again.

    Used as a context. Its end waits for the kill that it is at, and prints what was logged after an error.

    Attributes:
        killed: the workers, in the order in which they were.
    """

    def __init__(self, workers: Workers, seed: int, *, topics: int = 0) -> None:
        """
        Args:
            workers: those to be killed.
            seed: which ones, and after which pauses; printed, so that a test that fails tells it.
            topics: how many, but for internal ones, have to be there before the first is killed: a topic
                cannot be created with more replicas than brokers are there.
        """
        self.killed: list[int] = []
        self._workers = workers
        self._topics = topics
        self._random = random.Random(seed)
        self._left = [worker for worker in range(len(workers.addresses)) for _ in range(DEATHS_MAX)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        print(f"seed of the kills: {seed}")

    def __enter__(self) -> WorkerKills:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        joined(self._thread, within_s=LIMIT_S)
        if error is not None:
            print("\n".join(self._workers.lines))
        elif self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            until(lambda: self._ended.wait(0.1) or self._has_topics())
            while self._left and not self._ended.wait(self._random.uniform(0, PAUSE_S)):
                self._kill(self._left.pop(self._random.randrange(len(self._left))))
        except BaseException as error:
            self._error = error

    def _kill(self, worker: int) -> None:
        """Kill a worker, and wait until it is back, and all is as it was."""
        ready = f"worker {worker} ready"
        before = sum(ready in line for line in self._workers.lines)
        os.kill(self._workers.pids(worker)[-1], signal.SIGKILL)
        self.killed.append(worker)
        self._workers.says(ready, before + 1)
        until(
            lambda: self._ended.wait(0.1) or self._is_whole(),
            lambda: "\n".join(self._workers.lines[-100:]),
        )

    def _told(self) -> list[MetadataResponse]:
        """What each worker says of the cluster; nothing when one of them cannot be asked."""
        try:
            return [
                ask(int(address.rpartition(":")[2]), MetadataRequest(topics=None), 12)
                for address in self._workers.addresses
            ]
        except OSError:
            return []

    def _has_topics(self) -> bool:
        return any(
            sum(not topic.is_internal for topic in seen.topics) >= self._topics for seen in self._told()
        )

    def _is_whole(self) -> bool:
        """Do all workers say that all are there, and all replicas in sync?"""
        told = self._told()
        return bool(told) and all(
            len(seen.brokers) == len(told)
            and all(
                set(partition.isr_nodes) == set(partition.replica_nodes)
                for topic in seen.topics
                for partition in topic.partitions
            )
            for seen in told
        )
