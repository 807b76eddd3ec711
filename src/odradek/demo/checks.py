"""The books of a run: events produced = events in the log = events read by Spark, for each topic.

A run may find events that an interrupted one left unread; they count as carried over. What Spark had read
before comes from its checkpoint, which knows it whatever happened to the last run.
"""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Books:
    """Events of one topic in one run.

    Attributes:
        carried_over: in the log when the run began, not yet read.
        produced: acknowledged by the broker in this run.
        in_log: added to the log in this run, by its end offsets.
        read: rows that Spark counted in this run.
    """

    topic: str
    carried_over: int = 0
    produced: int = 0
    in_log: int = 0
    read: int = 0

    @property
    def problem(self) -> str | None:
        """The count that does not add up, in words, or None."""
        if self.produced != self.in_log:
            return f"{self.topic}: {self.produced} events were acknowledged, {self.in_log} are in the log"
        if self.carried_over + self.in_log != self.read:
            return (
                f"{self.topic}: {self.carried_over + self.in_log} events were to be read "
                f"({self.carried_over} of them from the last run), Spark read {self.read}"
            )
        return None


def committed_offsets(checkpoint: Path) -> dict[str, int]:
    """Return how many offsets of each topic the finished batches of a query have read, all partitions
    together.

    Read from the checkpoint's files: `commits/` has a file for each finished batch, `offsets/` one for each
    planned one with a line for each source after two lines of Spark's own.
    """
    finished = [int(path.name) for path in checkpoint.glob("commits/[0-9]*")]
    if not finished:
        return {}
    lines = (checkpoint / "offsets" / str(max(finished))).read_text(encoding="utf-8").splitlines()
    totals: dict[str, int] = {}
    for line in lines[2:]:
        if not line.startswith("{"):
            continue
        for topic, partitions in json.loads(line).items():
            totals[topic] = totals.get(topic, 0) + sum(partitions.values())
    return totals
