"""A broker that dies before, or in the midst of, any of its writes while transactions go on.

One life of a few transactions on files in memory; before each write what the disk holds is put aside, with
what the clients had been told by then. Then a broker starts on each of these, and is asked what it remembers.
The history up to there, with what is read now, has to be sound; offsets are those of the transactions; and no
transaction hangs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from odradek.broker.app import Broker
from odradek.errors.codes import ErrorCode
from odradek.log.storage.memory_files import Inode, MemoryFileSystem
from odradek.testing.checker import Poll, Record, Recorder, Send, check
from odradek.testing.workload.journal import LocalJournal, Notes
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from waiting import until_async

from ..live import Client, connect, create_topic, fetch, running
from ..transactional import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Transactional,
    find_coordinator,
    latest,
    visible,
)
from .test_transactional_offsets import add_offsets
from .test_transactional_offsets import commit as commit_offset
from .test_transactional_offsets import fetch as fetch_offset

SMALL = {
    "transaction_state_log_num_partitions": 1,
    "log_index_size_max_bytes": 4096,
    "log_cleaner_enable": False,
}
PARTITIONS = 2
IDS = ("a", "b")
FIRST_V2, LAST_V1 = 5, 4  # of EndTxn
IMPLICIT = 12  # the first version of Produce by which a partition joins its transaction
TXN_OFFSET_COMMIT = {FIRST_V2: 5, LAST_V1: 3}


class Moments(MemoryFileSystem):
    """Puts aside what the disk holds before each operation.

    Attributes:
        taken: pairs of the files and what `mark` gave.
        mark: called at each operation; None: nothing is put aside.
    """

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[dict[Path, bytes], Told]] = []
        self.mark: Callable[[], Told] | None = None

    def step(self, name: str, path: Path, size: int = 0) -> int | None:
        """One operation."""
        if self.mark is not None:
            files = {one: bytes(inode.data) for one, inode in self.files.items()}
            if not self.taken or self.taken[-1][0] != files:
                self.taken.append((files, self.mark()))
        return super().step(name, path, size)

    def again(self, files: dict[Path, bytes]) -> MemoryFileSystem:
        """A disk with these files."""
        disk = MemoryFileSystem()
        disk.dirs = set(self.dirs) | {folder for path in files for folder in path.parents}
        disk.files = {path: Inode(bytearray(content)) for path, content in files.items()}
        return disk


@dataclass(frozen=True)
class Told:
    """What the clients knew at a moment.

    Attributes:
        events: how many of the history's.
        decided: processes that had asked for their transaction's commit.
        offsets: which committed offsets of the group are right.
    """

    events: int
    decided: frozenset[str]
    offsets: frozenset[int]


@dataclass
class Life:
    """The clients of the one life."""

    broker: Broker
    version: int
    recorder: Recorder = field(default_factory=Recorder)
    offsets: frozenset[int] = frozenset({-1})

    def __post_init__(self) -> None:
        self.journal = LocalJournal(self.recorder)
        self.notes = Notes(self.journal)
        self.number = 0

    def told(self) -> Told:
        return Told(len(self.recorder.events), frozenset(self.journal.decided), self.offsets)

    async def producer(self, who: str) -> Transactional:
        producer = Transactional(await connect(self.broker), who)
        await find_coordinator(producer.client, who)
        assert await producer.init() == ErrorCode.NONE
        return producer

    async def transaction(
        self, me: str, producer: Transactional, commit: bool | None, *indexes: int, offset: int | None = None
    ) -> None:
        """One transaction with two records in each of the partitions, ended unless `commit` is None."""
        v2 = self.version >= FIRST_V2
        self.number += 1
        sends = [Send(f"t-{index}", f"{self.number}.{n}") for index in indexes for n in range(2)]
        self.notes.invoke(me, "txn", sends)
        if not v2:
            assert await producer.add("t", *indexes) == ErrorCode.NONE
        for index in indexes:
            values = [str(one.value).encode() for one in sends if one.partition == f"t-{index}"]
            sent = await producer.send("t", values, index, IMPLICIT if v2 else 9)
            assert sent == ErrorCode.NONE
        if offset is not None:
            if not v2:
                await add_offsets(producer)
            assert (await commit_offset(producer, offset, TXN_OFFSET_COMMIT[self.version]))[0] == 0
        if commit is None:
            return
        if commit:
            self.notes.deciding(me)
            if offset is not None:
                self.offsets |= {offset}
        error = await until_async(
            lambda: producer.end(commit=commit, version=self.version),
            f"the end of {me}'s transaction",
            holds=lambda error: error != ErrorCode.CONCURRENT_TRANSACTIONS,
            every_s=0,
        )
        assert error == ErrorCode.NONE
        if commit and offset is not None:
            self.offsets = frozenset({offset})
        self.notes.complete(me, "ok" if commit else "fail", "txn", sends)

    async def run(self) -> None:
        a, b = await self.producer("a"), await self.producer("b")
        await self.transaction("a", a, True, 0, 1)
        await self.transaction("b", b, False, 1)
        await self.transaction("a", a, True, 0, offset=7)
        await self.transaction("b", b, None, 0, 1)
        await self.transaction("a", a, False, 1, offset=8)
        # The successor aborts what was left open.
        successor = await self.producer("b")
        self.notes.lost("b")
        b.client.close()
        await self.transaction("b.1", successor, True, 1, 0, offset=9)
        await self.transaction("a", a, True, 1)
        a.client.close()
        successor.client.close()


def moments(files: Moments) -> Iterator[tuple[str, dict[Path, bytes], Told]]:
    """Before each write, and in its midst."""
    for number, (now, told) in enumerate(files.taken):
        yield f"before write {number}", now, told
        if number + 1 == len(files.taken):
            return
        for path, later in files.taken[number + 1][0].items():
            before = now.get(path, b"")
            if path.suffix == ".log" and len(later) > len(before) and later.startswith(before):
                torn = later[: len(before) + (len(later) - len(before)) // 2]
                yield f"in the midst of write {number} to {path}", {**now, path: torn}, told


@pytest.mark.slow
@pytest.mark.parametrize("version", [LAST_V1, FIRST_V2])
def test_a_broker_dies_at_every_write(tmp_path: Path, version: int) -> None:
    files = Moments()

    async def live() -> Recorder:
        async with running(tmp_path, files=files, **SMALL) as broker:
            await create_topic(broker, "t", PARTITIONS)
            client = await connect(broker)
            await client.call(FindCoordinatorRequest(key="g"), 0)
            await find_coordinator(client, "a")
            life = Life(broker, version)
            files.mark = life.told
            await life.run()
            # What is owed is written, too.
            await all_is_stable(client)
            files.mark = None
            client.close()
        return life.recorder

    recorder = asyncio.run(live())
    count = 0
    for where, disk, told in moments(files):
        try:
            asyncio.run(remembered(tmp_path, files.again(disk), recorder, told))
        except BaseException as problem:
            problem.add_note(where)
            raise
        count += 1
    sys.stdout.write(f"{count} deaths\n")
    assert count > 80


async def remembered(data: Path, disk: MemoryFileSystem, recorder: Recorder, told: Told) -> None:
    """Start on what is left, and hold it against what was told."""
    history = Recorder()
    journal = LocalJournal(history)
    notes = Notes(journal)
    for event in recorder.events[: told.events]:
        journal.event(event)
    journal.decided = set(told.decided)
    journal.all_lost(["a", "b", "b.1"])
    async with running(data, files=disk, **SMALL) as broker:
        client = await connect(broker)
        await client.call(FindCoordinatorRequest(key="g"), 0)
        for who in IDS:
            # Whoever comes back ends what was left, and can work.
            producer = Transactional(client, who)
            await find_coordinator(client, who)
            assert await producer.init() == ErrorCode.NONE
            sends = [Send("t-0", f"{who} is back")]
            notes.invoke(f"{who} again", "txn", sends)
            await producer.write("t", [str(sends[0].value).encode()], commit=True)
            notes.complete(f"{who} again", "ok", "txn", sends)
        await all_is_stable(client)
        records = [one for index in range(PARTITIONS) for one in await committed(client, index)]
        notes.control("reader", "assign", [f"t-{index}" for index in range(PARTITIONS)])
        notes.invoke("reader", "poll", [Poll()])
        notes.complete("reader", "ok", "poll", [Poll(tuple(records))])
        error, offset = await fetch_offset(client)
        assert error == 0
        assert offset in told.offsets
        client.close()
    report = check(history.events)
    assert report.valid, report.summary()


async def all_is_stable(client: Client) -> None:
    """Until every marker is there."""
    async with asyncio.timeout(30):
        for index in range(PARTITIONS):
            end = await latest(client, "t", isolation_level=READ_UNCOMMITTED, index=index)
            while await latest(client, "t", isolation_level=READ_COMMITTED, index=index) < end:
                await asyncio.sleep(0.001)
        while (await fetch_offset(client))[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            await asyncio.sleep(0.001)


async def committed(client: Client, index: int) -> list[Record]:
    answer = await client.call(fetch("t", index=index, isolation_level=READ_COMMITTED), 11)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.NONE
    aborted = sorted(partition.aborted_transactions or (), key=lambda one: one.first_offset)
    return [
        Record(f"t-{index}", offset, (value or b"").decode())
        for offset, value in visible(bytes(partition.records or b""), aborted)
    ]
