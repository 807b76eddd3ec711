"""A dead broker's folder, damaged: bytes cut off, flipped or zeroed in any file that a log lives by.

The start succeeds, or is refused with the file's name and nothing changed. After a start everything that was
acknowledged and stands before the damage is there, whichever way it is looked for, and nothing is served that
was not acknowledged. Files are in memory, but for a few lives of a real process at the end. A failing test
names its seed; `ODRADEK_DAMAGE_SEEDS` asks for more of them.
"""

from __future__ import annotations

import copy
import functools
import os
import random
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from log.batches import NOW_MS, batch, marker, records_of
from log.following import flush_dirty
from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.log import LogConfig, LogManager, PartitionLog
from odradek.log.errors import DataDirectoryError
from odradek.log.producers.producer_state import Origin
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.batch import iter_batches
from odradek.util.clock import ManualClock
from ports import free_port
from waiting import gathered

from .server import SETTINGS, Server

SEEDS = int(os.environ.get("ODRADEK_DAMAGE_SEEDS", "240"))
BLOCKS = 4
LIVES = 7
DATA = Path("/data")
LOG_STARTS = DATA / "log-start-offset-checkpoint"
CONFIG = LogConfig(
    segment_bytes=1500,
    segment_index_bytes=480,
    index_interval_bytes=150,
    file_delete_delay_ms=0,
    retention_ms=-1,
)
TOPIC_ID = bytes(range(16))
PARTITIONS = (0, 1)

Sent = tuple[int, int, bytes | None]
"""Offset, timestamp, value."""


@dataclass
class Life:
    """What a broker did before it was killed: the folder, and what it had acknowledged."""

    files: MemoryFileSystem
    sent: dict[int, list[Sent]] = field(default_factory=dict)
    ends: dict[int, list[tuple[Path, int, int]]] = field(default_factory=dict)
    """Per partition and batch: its segment, where it ends there, its last offset."""
    starts: dict[int, int] = field(default_factory=dict)


class Producers:
    """One idempotent and one transactional producer of a partition, in turn."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._sequences = {7: 0, 9: 0}
        self._open = False

    def next(self, values: list[bytes], timestamp: int) -> tuple[bytes, list[bytes], Origin]:
        """The next batch, the values that are in it, and who sends it."""
        transactional = self._rng.random() < 0.3
        if self._open and not transactional:
            self._open = False
            return marker(9, 0, commit=self._rng.random() < 0.5), [], Origin.COORDINATOR
        producer = 9 if transactional else 7
        self._open = transactional
        data = batch(
            values,
            producer_id=producer,
            epoch=0,
            sequence=self._sequences[producer],
            transactional=transactional,
            timestamp=timestamp,
        )
        self._sequences[producer] += len(values)
        return data, values, Origin.CLIENT


@functools.cache
def _lived(seed: int) -> Life:
    return live(seed)


def dead(seed: int) -> Life:
    """A folder of its own, left behind by one of a few lives."""
    return copy.deepcopy(_lived(seed % LIVES))


def live(seed: int) -> Life:
    """Some records in each of two partitions, with producers, transactions, checkpoints; then SIGKILL."""
    rng = random.Random(seed)
    files = MemoryFileSystem()
    manager = LogManager([DATA], files, ManualClock(NOW_MS), CONFIG)
    manager.identity.check(1, "cluster")
    manager.load()
    life = Life(files)
    for index in PARTITIONS:
        log = manager.create("t", index, CONFIG, TOPIC_ID)
        producers = Producers(rng)
        sent = life.sent[index] = []
        ends = life.ends[index] = []
        epoch = 0
        for step in range(rng.randint(20, 60)):
            size = rng.choice((3, 40))
            values = [b"%d.%d.%d" % (index, step, n) + b"." * size for n in range(rng.randint(1, 3))]
            # Not always later than what stands before it.
            timestamp = NOW_MS + step * 100 - rng.choice((0, 0, 250))
            data, values, origin = producers.next(values, timestamp)
            epoch += rng.random() < 0.1
            info = log.append(data, leader_epoch=epoch, now_ms=NOW_MS, origin=origin)
            sent += [(info.first_offset + n, timestamp + n, value) for n, value in enumerate(values)]
            ends.append((log.segments.active.path, log.segments.active.size, info.last_offset))
            log.update_high_watermark(log.log_end_offset)
            if rng.random() < 0.1:
                flush_dirty(manager, NOW_MS)
            if rng.random() < 0.15:
                manager.checkpoint()
        if rng.random() < 0.3:
            log.delete_records_before(log.log_end_offset // 3)
        life.starts[index] = log.log_start_offset
    manager.checkpoint()
    files.restart()
    return life


def harm(files: MemoryFileSystem, path: Path, rng: random.Random) -> int:
    """Damage a file in one of five ways; the first byte that is another than before, or the size."""
    data = files.files[path].data
    before = bytes(data)
    how = rng.randrange(5)
    at = rng.randrange(len(data)) if data else 0
    if how == 0:
        del data[at:]
    elif how == 1 and data:
        data[at] ^= 1 << rng.randrange(8)
    elif how == 2:
        end = min(len(data), at + rng.choice((1, 4, 8, 100)))
        data[at:end] = bytes(end - at)
    elif how == 3:
        end = min(len(data), at + rng.choice((1, 4, 12, 100)))
        data[at:end] = rng.randbytes(end - at)
    else:
        data += rng.choice((bytes(50), rng.randbytes(50)))
    same = (n for n, (old, new) in enumerate(zip(before, data, strict=False)) if old != new)
    return next(same, min(len(before), len(data)))


def targets(files: MemoryFileSystem) -> list[Path]:
    """The last segments, and all indexes, snapshots and checkpoints of logs."""
    others = (".lock", "metadata.sqlite")
    paths = sorted(path for path in files.files if path.name not in others)
    last = {
        max(p for p in paths if p.parent.name == f"t-{index}" and p.suffix == ".log") for index in PARTITIONS
    }
    return [path for path in paths if path.suffix != ".log" or path in last]


def contents(files: MemoryFileSystem) -> dict[Path, bytes]:
    return {path: bytes(inode.data) for path, inode in files.files.items() if path.name != ".lock"}


@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_damaged_file(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        life = dead(seed)
        rng = random.Random(seed)
        path = rng.choice(targets(life.files))
        at = harm(life.files, path, rng)
        try:
            check_start(life, {path: at})
        except Exception as problem:
            problem.add_note(f"seed {seed}: {path} from byte {at} on")
            raise


@pytest.mark.parametrize("block", range(BLOCKS))
def test_several_damaged_files(block: int) -> None:
    for seed in range(block, SEEDS // 2, BLOCKS):
        life = dead(seed)
        rng = random.Random(-seed)
        paths = rng.sample(targets(life.files), rng.randint(2, 6))
        damage = {path: harm(life.files, path, rng) for path in paths}
        try:
            check_start(life, damage)
        except Exception as problem:
            problem.add_note(f"seed {seed}: {damage}")
            raise


def check_start(life: Life, damage: dict[Path, int]) -> None:
    """Start on the damaged folder, and look at what is there; `damage` says from which byte on, by file."""
    files = life.files
    before = contents(files)
    manager = LogManager([DATA], files, ManualClock(NOW_MS), CONFIG)
    try:
        manager.identity.check(1, "cluster")
        manager.load()
    except DataDirectoryError as refusal:
        assert any(path.name in str(refusal) for path in damage), refusal
        assert contents(files) == before, "changed by a start that was refused"
        return
    for index in PARTITIONS:
        log = manager.get("t", index)
        assert log is not None
        check_log(log, life, index, damage)


def check_log(log: PartitionLog, life: Life, index: int, damage: dict[Path, int]) -> None:
    """What a log serves after damage."""
    sent = {one[0]: one for one in life.sent[index]}
    markers = {last for _, _, last in life.ends[index]} - sent.keys()
    found = records_of(log)
    assert {one.offset for one in found} <= sent.keys() | markers
    served = [(one.offset, one.timestamp, one.value) for one in found if one.offset in sent]
    assert served == [sent[one[0]] for one in served]
    safe = safe_until(life, index, damage)
    assert [one for one in served if one[0] < safe] == [
        one for one in life.sent[index] if log.log_start_offset <= one[0] < safe
    ]
    if LOG_STARTS not in damage:
        assert log.log_start_offset == life.starts[index]
    end = life.ends[index][-1][2] + 1
    assert log.log_start_offset <= end
    # From everywhere, not only from the beginning.
    for offset, _, _ in served:
        read = log.read(offset, 1, upper_bound=log.log_end_offset, min_one_batch=True)
        ((header, _),) = iter_batches(read.records)
        assert header.base_offset <= offset <= header.last_offset
    times_are_known = not any(path.suffix == ".timeindex" for path in damage)
    for _, timestamp, _ in served[::5]:
        answer = log.offset_for_timestamp(timestamp)
        if answer is None:
            assert not times_are_known
            continue
        assert answer.timestamp == sent[answer.offset][1] >= timestamp
        # A time index that has lost its end lets a segment look older than it is.
        if times_are_known:
            assert answer.offset == next(one[0] for one in served if one[1] >= timestamp)


def safe_until(life: Life, index: int, damage: dict[Path, int]) -> int:
    """The offset below which no record's bytes are damaged."""
    first = 0
    for path, end, last in life.ends[index]:
        if path in damage and end > damage[path]:
            return first
        first = last + 1
    return first


def test_a_log_start_beyond_everything_is_not_believed() -> None:
    """One digit of a checkpoint must not cost a log."""
    life = dead(0)
    damage = {LOG_STARTS: 0}
    life.files.files[LOG_STARTS].data = bytearray(b"0\n2\nt 0 912\nt 1 0\n")
    check_start(life, damage)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_process(seed: int, tmp_path: Path) -> None:
    """The same with a real process, real files and clients: SIGKILL, damage, start, read."""
    rng = random.Random(seed)
    data, port = tmp_path / "data", free_port()
    server = Server(data, port)
    sent = []
    try:
        server.wait_ready()
        with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        with Producer(bootstrap_servers=f"127.0.0.1:{port}", linger_ms=0) as producer:
            for number in range(1500):
                value = b"%d" % number + b"." * rng.choice((10, 300))
                producer.send("t", value, partition=0)
                sent.append(value)
                if number % 10 == 0:
                    producer.flush()
    finally:
        server.end(signal.SIGKILL)
    folder = data / "t-0"
    paths = sorted(folder.iterdir())
    last = max(path for path in paths if path.suffix == ".log")
    paths = [path for path in paths if path.suffix in (".index", ".timeindex")] + [last] * 4
    path = rng.choice(paths)
    content = bytearray(path.read_bytes())
    at = rng.randrange(len(content))
    content[at : at + 4] = rng.randbytes(len(content[at : at + 4]))
    path.write_bytes(content)
    again = Server(data, port, {**SETTINGS, "odradek.refuse.damaged.logs": "true"})
    try:
        line = again.process.stdout.readline()
        if not line:
            assert again.process.wait(30) == 1
            assert path.name in Path(again.errors.name).read_text(encoding="utf-8")
            return
        with Consumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
            partition = TopicPartition("t", 0)
            consumer.assign([partition])
            end = consumer.end_offsets([partition])[partition]
            records = gathered(lambda: consumer.poll(1000), end, f"the records up to {end}")
        found = [record.value for record in records]
        assert found == sent[: len(found)]
        assert len(found) >= (int(last.stem) if path == last else len(sent))
    finally:
        again.end(signal.SIGKILL)
