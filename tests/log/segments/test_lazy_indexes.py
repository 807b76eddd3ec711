"""Indexes that a start does not look at: opened at the first use, and built again where they are bad."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.log import LogConfig, LogManager, RealFileSystem
from odradek.log.storage.file_names import parse_numbered
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.util.clock import ManualClock

from ..batches import NOW_MS, batch, values_of

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=150, segment_index_bytes=600, retention_ms=-1)
DATA = Path("/d")


def start(files: MemoryFileSystem) -> LogManager:
    files.restart()
    manager = LogManager([DATA], files, ManualClock(NOW_MS), CONFIG)
    manager.load()
    return manager


def written(files: MemoryFileSystem) -> list[tuple[int, bytes]]:
    manager = start(files)
    log = manager.create("t", 0, CONFIG)
    for number in range(120):
        log.append(batch([b"%d" % number], timestamp=NOW_MS + number), leader_epoch=0, now_ms=NOW_MS)
    log.commit_all()
    assert len(log.segments) > 4
    manager.close()
    return values_of(log)


def test_a_start_after_a_clean_stop_opens_no_index_but_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFileSystem()
    values = written(files)
    opened: list[Path] = []
    real = files.open

    def note(path: Path, *, create: bool = False) -> object:
        opened.append(path)
        return real(path, create=create)

    monkeypatch.setattr(files, "open", note)
    log = start(files).get("t", 0)
    assert log is not None
    last = log.segments.active.base_offset
    assert {int(path.stem) for path in opened if path.suffix in (".index", ".timeindex", ".log")} == {last}
    assert values_of(log) == values


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage", ["empty", "zeros", "garbage", "half an entry", "an entry of the moon", "gone"]
)
def test_a_bad_index_is_built_again_when_it_is_needed(suffix: str, damage: str) -> None:
    files = MemoryFileSystem()
    values = written(files)
    sound = {}
    for path, inode in files.files.items():
        if path.suffix == suffix and len(inode.data) and "-0" in path.parent.name:
            sound[path] = bytes(inode.data)
    for path in list(sound)[:-1]:
        inode = files.files[path]
        if damage == "empty":
            inode.data[:] = b""
        elif damage == "zeros":
            inode.data[:] = bytes(len(inode.data))
        elif damage == "garbage":
            inode.data[:] = b"\xff" * len(inode.data)
        elif damage == "half an entry":
            del inode.data[-3:]
        elif damage == "an entry of the moon":
            inode.data[-4:] = b"\x7f\xff\xff\xff"
        else:
            del files.files[path]
    log = start(files).get("t", 0)
    assert log is not None
    assert values_of(log) == values
    for offset, value in values:
        read = log.read(offset, 1, upper_bound=log.log_end_offset, min_one_batch=True)
        assert read.first_offset <= offset
        found = log.offset_for_timestamp(NOW_MS + int(value))
        assert found is not None
        if suffix == ".index" or damage not in ("empty", "zeros", "an entry of the moon"):
            assert found.offset == offset
    if damage in ("garbage", "half an entry", "gone"):
        # The last one has its room reserved again.
        assert all(bytes(files.files[path].data) == sound[path] for path in list(sound)[:-1])


def test_names_of_files() -> None:
    assert parse_numbered("00000000000000000042.log") == (42, ".log", "")
    assert parse_numbered("00000000000000000042.timeindex.swap") == (42, ".timeindex", ".swap")
    for name in ("0000000000000000004.log", "000000000000000000421.log", "0000000000000000004².log", "x.log"):
        assert parse_numbered(name) is None


def test_entries_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"123")
    (tmp_path / "a").mkdir()
    assert list(RealFileSystem().entries(tmp_path).items()) == [("a", -1), ("b", 3)]
    memory = MemoryFileSystem()
    memory.make_dirs(DATA / "a")
    memory.write_atomically(DATA / "b", b"123")
    assert list(memory.entries(DATA).items()) == [("a", -1), ("b", 3)]
