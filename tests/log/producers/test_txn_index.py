"""Which aborted transactions a reader has to know of."""

from __future__ import annotations

import random
from pathlib import Path

from odradek.log.segments.txn_index import AbortedTxn, TxnIndex
from odradek.log.storage.memory_files import MemoryFileSystem
from seeds import each_seed


def history(seed: int) -> list[AbortedTxn]:
    """Aborted transactions as they come: markers in order, some of them long, the stable offset between."""
    chance = random.Random(seed)
    found: list[AbortedTxn] = []
    ongoing: dict[int, int] = {}
    for offset in range(300):
        producer_id = chance.randrange(5)
        if producer_id not in ongoing:
            ongoing[producer_id] = offset
        elif chance.random() < 0.4:
            first = ongoing.pop(producer_id)
            stable = min(ongoing.values(), default=offset + 1)
            if chance.random() < 0.7:
                found.append(AbortedTxn(producer_id, first, offset, stable))
    return found


@each_seed(5)
def test_what_overlaps_is_collected(seed: int) -> None:
    entries = history(seed)
    files = MemoryFileSystem()
    path = Path("/log/00000000000000000000.txnindex")
    files.make_dirs(path.parent)
    index = TxnIndex(files, path, 0)
    for entry in entries:
        index.append(entry)
    again = TxnIndex(files, path, 0)
    again.load()
    chance = random.Random(seed)
    ended_early = 0
    for _ in range(500):
        start = chance.randrange(320)
        end = start + chance.choice((1, 5, 50, 320))
        expected = [one for one in entries if one.last_offset >= start and one.first_offset < end]
        for one in (index, again):
            found, complete = one.collect(start, end)
            # What begins behind a stable offset that was reached later is no reader's below it.
            assert found == expected
            assert not complete or any(entry.last_stable_offset >= end for entry in entries)
        ended_early += complete
    assert ended_early > 10
