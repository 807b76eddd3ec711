"""Deleted partitions leave the disk: by their own clock, and after a stop at once, a few at a time."""

from __future__ import annotations

import errno
import threading
import uuid
from pathlib import Path

from odradek.broker.upkeep.removing import RETRY_MS, STEP
from odradek.log.storage.real_files import RealFileSystem
from odradek.util.clock import ManualClock

from ..live import create_topic, create_topic_with_record, delete_topics, running
from ..net import run, settle

NOW_MS = 1_700_000_000_000


class Disk(RealFileSystem):
    """Counts what one step removes; `refuses` fails."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []
        self.refuses = False

    def remove_tree(self, directory: Path) -> None:
        assert threading.current_thread() is not threading.main_thread()
        if self.refuses:
            raise OSError(errno.EBUSY, "Device or resource busy", str(directory))
        super().remove_tree(directory)


def leftovers(data: Path) -> list[Path]:
    return [path for path in data.iterdir() if path.name.endswith("-delete")]


def test_a_deleted_topic_goes_after_its_delay_whatever_retention_does(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(NOW_MS)
        async with running(tmp_path, clock=clock, files=Disk(), log_segment_delete_delay_ms=5000) as broker:
            assert "removals" in {one.name for one in broker.housekeeping.periodic}
            await create_topic(broker, "t", STEP + 10)
            removals = broker.housekeeping.removals
            assert removals is not None
            await delete_topics(broker, ["t"])
            clock.advance(4999)
            removals.check()
            assert len(leftovers(tmp_path)) == STEP + 10
            clock.advance(1)
            removals.check()
            # While one step is under way there is no other.
            removals.check()
            await settle(lambda: not leftovers(tmp_path), "for the folders to go")

    run(main)


def test_a_start_removes_at_once_what_was_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic_with_record(broker, "t")
        count = 3 * STEP + 1
        for number in range(count):
            folder = tmp_path / f"gone-{number}.{uuid.uuid4().hex}-delete"
            folder.mkdir()
            (folder / f"{0:020}.log").write_bytes(b"x")
        async with running(tmp_path, files=Disk()) as broker:
            begin, sizes = broker.logs.removals.begin, []

            def counted(now_ms: int, most: int | None = None):
                job = begin(now_ms, most)
                sizes.append(len(job))
                return job

            broker.logs.removals.begin = counted  # type: ignore[method-assign]
            await settle(lambda: not leftovers(tmp_path), "for the folders to go")
            assert max(sizes) <= STEP
            assert broker.replicas.get("t", 0).log.log_end_offset == 1

    run(main)


def test_what_cannot_be_removed_is_tried_again_later(tmp_path: Path) -> None:
    async def main() -> None:
        clock, disk = ManualClock(NOW_MS), Disk()
        async with running(tmp_path, clock=clock, files=disk, log_segment_delete_delay_ms=0) as broker:
            removals = broker.housekeeping.removals
            assert removals is not None
            await create_topic(broker, "t")
            disk.refuses = True
            await delete_topics(broker, ["t"])
            removals.check()
            await settle(lambda: not removals.is_busy, "for the failure")
            disk.refuses = False
            removals.check()
            assert leftovers(tmp_path)
            clock.advance(RETRY_MS)
            removals.check()
            await settle(lambda: not leftovers(tmp_path), "for the folder to go")

    run(main)
