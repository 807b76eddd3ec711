"""Transactional ids of one process: a task's transaction waits for the driver; the next task needs another.

Only the process that made an id ever begins a transaction under it. So nobody's late start can abort a
transaction that was decided on. A process uses an id again once a batch after that of its last transaction
was decided on. To be given a later batch is not enough: another driver of the same query may be running the
decided one once more, and would take its transactions to have timed out. One that runs an older batch than
the decided one finds that out when it decides, and gives up.
"""

import os
import uuid


class Slots:
    """The ids of this process.

    Args:
        process: tells it from all others, for good.
    """

    def __init__(self, process: str) -> None:
        self._process = process
        self._last: dict[str, list[int]] = {}

    def take(self, name: str, batch: int, decided: int) -> str:
        """An id for a transaction of a batch of the query `name`.

        Args:
            name: of the query.
            batch: the batch's number.
            decided: the newest batch that was decided on; -1 if none was.
        """
        last = self._last.setdefault(name, [])
        for number, used_by in enumerate(last):
            if used_by < decided:
                last[number] = batch
                return f"{name}:{self._process}:{number}"
        last.append(batch)
        return f"{name}:{self._process}:{len(last) - 1}"


_of_process: tuple[int, Slots] | None = None


def slots_here() -> Slots:
    """Those of this process; a forked one has its own."""
    global _of_process
    if _of_process is None or _of_process[0] != os.getpid():
        _of_process = (os.getpid(), Slots(uuid.uuid4().hex[:12]))
    return _of_process[1]
