"""The progress of a mirror in a partition, and the offsets of the copy that belong to those of the source.

The state of a partition is one record of the mirror's topic in the target cluster, written in the transaction
that copies. So it says exactly what has been copied, whatever dies, and it has the whole of what a restart
needs: the topic is compacted.

The offsets of a copy differ from those of its source: markers of transactions, aborted records and what
compaction has removed take offsets. A `Run` is a stretch without such a gap on either side. Within a run
translation is exact; behind its end the next record of the copy is meant. Old runs are thinned out, so that
an old offset may be translated to an earlier record than needed, which is then read once more, but never to a
later one.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from odradek.client.types import TopicPartition

#: So many runs are kept of a partition; the newer half of them without a gap.
MOST_RUNS = 64


class Run(NamedTuple):
    """`length` records, one after the other in the source from `source` on, in the copy from `target` on."""

    source: int
    target: int
    length: int


class PartitionState(NamedTuple):
    """The state of a partition.

    Attributes:
        position: the next offset to copy.
        runs: by offset; the first one is never thinned out.
    """

    position: int
    runs: tuple[Run, ...] = ()

    def after(self, copied: Iterable[tuple[int, int]]) -> PartitionState:
        """Return the state after further records were copied.

        Args:
            copied: (offset in the source, offset in the copy), in order, at least one.
        """
        runs = list(self.runs)
        for source, target in copied:
            if runs and source <= runs[-1].source:
                runs = []  # the topic was made anew, and its offsets begin again
            last = runs[-1] if runs else None
            if last and (source, target) == (last.source + last.length, last.target + last.length):
                runs[-1] = last._replace(length=last.length + 1)
            else:
                runs.append(Run(source, target, 1))
        while len(runs) > MOST_RUNS:
            half = len(runs) - MOST_RUNS // 2
            runs = [*runs[:half:2], *runs[half:]]
        return PartitionState(runs[-1].source + runs[-1].length, tuple(runs))

    def translate(self, offset: int) -> int | None:
        """Return where a group reads on in the copy that stands at `offset` in the source; None before there
        is a copy."""
        if not self.runs:
            return None
        index = bisect_right(self.runs, offset, key=lambda run: run.source) - 1
        if index < 0:
            return self.runs[0].target
        run = self.runs[index]
        return run.target + min(offset - run.source, run.length)


def encode(tp: TopicPartition, state: PartitionState) -> tuple[bytes, bytes]:
    """Return key and value of the record that keeps a state."""
    key = json.dumps([tp.topic, tp.partition])
    return key.encode(), json.dumps({"position": state.position, "runs": state.runs}).encode()


def decode(key: bytes, value: bytes) -> tuple[TopicPartition, PartitionState]:
    """Read such a record.

    Raises:
        ValueError: it is none.
    """
    try:
        topic, partition = json.loads(key)
        fields = json.loads(value)
        runs = tuple(Run(*map(int, run)) for run in fields["runs"])
        return TopicPartition(str(topic), int(partition)), PartitionState(int(fields["position"]), runs)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no state of a mirrored partition: {key!r}") from error
