"""Ask one after the other until somebody answers; who does not answer soon is not waited for alone."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from odradek.client.core.silence import SILENCE_MS
from odradek.client.errors import AuthenticationError, ClosedError, NoBrokersAvailableError, nobody_reached
from odradek.errors import OdradekError

T = TypeVar("T")


class NobodyAnswered(Exception):
    """All have failed.

    Attributes:
        problems: why, in the order of their failures.
    """

    def __init__(self, problems: list[OdradekError]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems

    def as_error(self, last_failure: Exception | None) -> OdradekError:
        """Return the error that a client raises.

        Args:
            last_failure: told where nobody could be asked at all, as all have failed a moment ago.
        """
        if self.problems:
            return nobody_reached(self.problems)
        if isinstance(last_failure, NoBrokersAvailableError):
            return NoBrokersAvailableError(last_failure.message)
        if isinstance(last_failure, AuthenticationError):
            return last_failure
        return NoBrokersAvailableError(f"no broker could be reached: {last_failure}")


def by_promise(
    connections: Mapping[tuple[int, str], bool],
    brokers: list[int],
    bootstrap_servers: int,
) -> list[int]:
    """Brokers in the order in which they are asked for what any of them can tell.

    Those come first that are likeliest to answer at once.

    Args:
        connections: the open ones, by broker and purpose, and whether each owes an answer for long.
        brokers: those that are known to live.
        bootstrap_servers: how many there are; they have the ids -1, -2, …
    """
    connected = list({node for node, purpose in connections if purpose == ""})
    silent = {node for (node, _), is_silent in connections.items() if is_silent}
    if silent:
        # Not always the same: it may be one that does not hear of the others itself.
        random.shuffle(connected)
    random.shuffle(brokers)
    nodes = dict.fromkeys([*connected, *brokers])
    in_order = [*(node for node in nodes if node not in silent), *(node for node in nodes if node in silent)]
    return list(dict.fromkeys([*in_order, *range(-1, -1 - bootstrap_servers, -1)]))


async def first_answer(nodes: Iterable[int], ask: Callable[[int], Coroutine[Any, Any, T]]) -> T:
    """The first answer that comes. The next one is asked when the one before has failed or been silent.

    Raises:
        NobodyAnswered: all have failed.
        ClosedError: as soon as one of them does.
        Exception: what is no `OdradekError`, at once.
    """
    loop = asyncio.get_running_loop()
    waiting = deque(nodes)
    tasks: set[asyncio.Task[T]] = set()
    problems: list[OdradekError] = []
    try:
        while waiting or tasks:
            if waiting:
                tasks.add(loop.create_task(ask(waiting.popleft())))
            patience_s = SILENCE_MS / 1000 if waiting else None
            done, tasks = await asyncio.wait(tasks, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            failed = {task: task.exception() for task in done}
            for task, problem in failed.items():
                if problem is None:
                    return task.result()
            for problem in failed.values():
                if not isinstance(problem, OdradekError) or isinstance(problem, ClosedError):
                    assert problem is not None
                    raise problem
                problems.append(problem)
    finally:
        for task in tasks:
            task.cancel()
    raise NobodyAnswered(problems)
