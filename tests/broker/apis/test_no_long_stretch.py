"""No request holds the loop for long, however many items it has.

Work is counted, not timed: the lines of Python that run between two turns of the event loop. They are the
time by which slices end, too.
"""

from __future__ import annotations

import asyncio
import importlib
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from compiled_walk import only_interpreted
from odradek.broker.apis.registry import SERVED
from odradek.broker.app import Broker
from odradek.broker.conversion.packed import QUICK_UNPACKED_BYTES
from odradek.broker.event_loop import slices
from odradek.broker.process.warm_up import BESIDES_HANDLERS
from odradek.wire.api import ApiKey
from odradek.wire.headers import encode_request
from odradek.wire.messages import request_class
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from seeds import each_seed

from .. import attacks, live, many_items
from ..conversion.unpacked import counting_unpacked, large_batch
from ..net import run

pytestmark = only_interpreted

# A broker has imported these soon after its start; here their lines would be counted as a request's.
for _name in BESIDES_HANDLERS:
    importlib.import_module(_name)

MOST_LINES = 10_000
"""Some 1 ms of work between two pauses."""

SLICE_LINES = 2_000
"""How long a slice is here: to this the longest step of work comes."""

COUNT = 1_200
"""Items: handled in one go they take more than `MOST_LINES` lines, at seven lines each."""

FEW = {ApiKey.CREATE_TOPICS: 60}
"""Items where each is work for the disk, more than are done in one go."""

LONGER = {
    ApiKey.CREATE_TOPICS: 30_000,  # files are opened
    # Refused above some thousands of elements.
    ApiKey.PRODUCE: 25_000,
    ApiKey.LEAVE_GROUP: 45_000,
    ApiKey.CREATE_ACLS: 30_000,
    ApiKey.DELETE_ACLS: 40_000,
    ApiKey.UPDATE_FEATURES: 60_000,
    ApiKey.LIST_CONFIG_RESOURCES: 60_000,
}
"""What `MOST_LINES` is for APIs whose requests cannot hold much more than `COUNT` items."""


class Lines:
    """Counts the lines that run in this thread, and finds the most between two turns of the loop.

    Attributes:
        most: the most so far.
        where: lines by function, of that stretch.
        trace: what `sys.settrace` takes.
    """

    def __init__(self) -> None:
        self.most = 0
        self.where: dict[str, int] = {}
        self._before = 0
        self._now: list[CodeType] = []
        self.trace = _tracing(self._now)

    @property
    def total(self) -> int:
        """All lines so far."""
        return self._before + len(self._now)

    def turn(self) -> None:
        """The loop comes by."""
        lines = len(self._now)
        if lines > self.most:
            self.most = lines
            counts = Counter(self._now)
            self.where = {f"{code.co_filename}:{code.co_qualname}": n for code, n in counts.items()}
        self._before += lines
        self._now.clear()

    def told(self) -> str:
        """Where the longest stretch was spent."""
        top = sorted(self.where.items(), key=lambda item: -item[1])[:6]
        return f"{self.most} lines: " + ", ".join(f"{name} {n}" for name, n in top)


def _tracing(lines: list[CodeType]) -> Callable[[FrameType, str, object], Any]:
    """Return a function that adds the code of each line; it runs for each, and does no more than it must."""
    add = lines.append

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            add(frame.f_code)
        return trace

    return trace


@contextmanager
def counting(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """Count what happens in the block."""
    lines = Lines()
    whole = asyncio.Handle._run

    def run_counted(handle: Any) -> None:
        sys.settrace(lines.trace)
        try:
            whole(handle)
        finally:
            sys.settrace(None)
            lines.turn()

    with monkeypatch.context() as patched:
        patched.setattr(slices, "SLICE_S", SLICE_LINES)
        patched.setattr(broker.slicer, "_clock", lambda: lines.total)
        patched.setattr(asyncio.Handle, "_run", run_counted)
        yield lines


async def raw(broker: Broker, frame: bytes) -> bytes:
    """Ask without making the question or taking the answer apart: that would be counted, too."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, limit=2**26)
    try:
        writer.write(frame)
        size = await reader.read(4)
        if not size:
            return b""  # refused for its length
        return await reader.readexactly(int.from_bytes(size, "big"))
    except ConnectionResetError:
        return b""  # refused before all of it had been read
    finally:
        writer.transport.abort()


async def stretches(broker: Broker, key: int, topic_id: bytes, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What held the loop for too long."""
    cls, version = request_class(key), SERVED[key].versions[-1]
    found = []
    for path in many_items.paths(cls, version):
        for present in (True, False):
            few, many = (
                many_items.request(key, version, path, count, present=present, topic_id=topic_id)
                for count in (1, FEW.get(key, COUNT))
            )
            frames = [b"".join(encode_request(key, version, 1, "many", one)) for one in (few, many)]
            await raw(broker, frames[0])
            with counting(broker, monkeypatch) as lines:
                await raw(broker, frames[1])
            if lines.most > LONGER.get(key, MOST_LINES):
                what = "present" if present else "absent"
                found.append(f"{ApiKey(key).api_name} {'.'.join(path)} {what}: {lines.told()}")
    return found


@pytest.mark.parametrize("part", range(4))
def test_many_items_leave_room_for_others(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        found = []
        async with live.running(tmp_path, offsets_topic_num_partitions=1) as broker:
            await broker.controller.event_queue.run(broker.groups.ensure_topic)
            for key in many_items.apis()[part::4]:
                if broker.image.topic(many_items.TOPIC) is None:
                    await live.create_topic(broker, many_items.TOPIC, many_items.PARTITIONS)
                topic_id = broker.image.topic_id(many_items.TOPIC)
                found += await stretches(broker, key, topic_id, monkeypatch)
        assert not found, "\n".join(found)

    run(main, loop="asyncio")  # whose handles can be counted


async def attacked(
    broker: Broker, attacks: Iterable[attacks.Attack], monkeypatch: pytest.MonkeyPatch, most: int = MOST_LINES
) -> list[str]:
    """What held the loop for too long; each attack goes once before, for what a first request imports."""
    found = []
    for what, frame in attacks:
        await raw(broker, frame)
        with counting(broker, monkeypatch) as lines:
            await raw(broker, frame)
        if lines.most > most:
            found.append(f"{what}: {lines.told()}")
    return found


@pytest.mark.fuzz
@pytest.mark.parametrize("part", range(2))
def test_no_field_of_a_request_holds_the_loop(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown tagged fields in every struct, and every text and piece of bytes as long as may be."""

    async def main() -> None:
        found: list[str] = []
        async with live.running(tmp_path, offsets_topic_num_partitions=1) as broker:
            await broker.controller.event_queue.run(broker.groups.ensure_topic)
            for key in many_items.apis()[part::2]:
                if broker.image.topic(many_items.TOPIC) is None:
                    await live.create_topic(broker, many_items.TOPIC, many_items.PARTITIONS)
                topic_id = broker.image.topic_id(many_items.TOPIC)
                found += await attacked(broker, attacks.tagged(key, topic_id, COUNT), monkeypatch)
                found += await attacked(broker, attacks.sized(key, topic_id), monkeypatch)
        assert not found, "\n".join(found)

    run(main, loop="asyncio")


@each_seed(3)
def test_no_mixture_holds_the_loop(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of all that at once, in any version; and what it brings is unpacked in small pieces."""

    async def main() -> None:
        chance = random.Random(seed)
        found: list[str] = []
        async with live.running(tmp_path, offsets_topic_num_partitions=1) as broker:
            await broker.controller.event_queue.run(broker.groups.ensure_topic)
            for key in chance.sample(many_items.apis(), 12):
                if broker.image.topic(many_items.TOPIC) is None:
                    await live.create_topic(broker, many_items.TOPIC, many_items.PARTITIONS)
                topic_id = broker.image.topic_id(many_items.TOPIC)
                items = FEW.get(key, COUNT)
                attack = attacks.by_chance(key, topic_id, chance, items, large_batch)
                most = LONGER.get(key, MOST_LINES)
                with counting_unpacked(monkeypatch) as unpacked:
                    found += await attacked(broker, [attack], monkeypatch, most)
                if unpacked.most > 2 * QUICK_UNPACKED_BYTES:
                    found.append(f"{attack[0]}: {unpacked.most} bytes unpacked")
        assert not found, "\n".join(found)

    run(main, loop="asyncio")


REQUESTS = 500
"""Answered in one go they take more than `MOST_LINES` lines several times."""


def test_many_requests_of_one_read_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a slice's work, in as few reads as they come in."""

    async def main() -> None:
        async with live.running(tmp_path) as broker:
            frame = b"".join(encode_request(ApiKey.API_VERSIONS, 0, 1, "many", ApiVersionsRequest()))
            size = len(await raw(broker, frame)) + 4
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, limit=2**26)
            with counting(broker, monkeypatch) as lines:
                writer.write(frame * REQUESTS)
                await reader.readexactly(REQUESTS * size)
            assert lines.total > 3 * MOST_LINES
            assert lines.most <= MOST_LINES, lines.told()
            writer.transport.abort()

    run(main, loop="asyncio")


TOPICS = 2
EACH = 800
"""Partitions of each topic: told of in one go, all of them take more than `MOST_LINES` lines."""


async def held(broker: Broker, message: Any, version: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """What held the loop for too long while a request was answered; empty for nothing."""
    frame = b"".join(encode_request(message.API_KEY, version, 1, "many", message))
    with counting(broker, monkeypatch) as lines:
        await raw(broker, frame)
    return f"{ApiKey(message.API_KEY).api_name} {lines.told()}" if lines.most > MOST_LINES else ""


def commit_of_all() -> OffsetCommitRequest:
    """The partition's number as the offset of each."""
    offsets = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=index) for index in range(EACH)
    ]
    topics = [OffsetCommitRequestTopic(name=f"many-{n}", partitions=offsets) for n in range(TOPICS)]
    return OffsetCommitRequest(group_id=many_items.GROUP, topics=topics)


def test_few_words_that_ask_for_much_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group's offsets, all folders' logs: what is answered is long, not what is asked."""

    async def main() -> None:
        async with live.running(tmp_path, offsets_topic_num_partitions=1) as broker:
            broker.housekeeping.stop()  # which looks at all logs now and then, for no request
            await broker.controller.event_queue.run(broker.groups.ensure_topic)
            for number in range(TOPICS):
                await live.create_topic(broker, f"many-{number}", EACH)
            client = await live.connect(broker)
            await client.call(commit_of_all(), 8)
            of_group = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=many_items.GROUP, topics=None)]
            )
            of_group_alone = OffsetFetchRequest(group_id=many_items.GROUP, topics=None)
            of_all_logs = DescribeLogDirsRequest(topics=None)
            asked = [(of_group_alone, 2), (of_group, 8), (of_all_logs, 4)]
            for message, version in asked:  # what the first request imports is not its work
                await client.call(message, version)
            found = [await held(broker, message, version, monkeypatch) for message, version in asked]
            assert not any(found), "\n".join(found)
            (group,) = (await client.call(of_group, 8)).groups
            assert {
                topic.name: [(one.partition_index, one.committed_offset) for one in topic.partitions]
                for topic in group.topics
            } == {f"many-{n}": [(index, index) for index in range(EACH)] for n in range(TOPICS)}
            (folder,) = (await client.call(DescribeLogDirsRequest(topics=None), 4)).results
            assert sum(len(topic.partitions) for topic in folder.topics) == TOPICS * EACH + 1
            client.close()

    run(main, loop="asyncio")
