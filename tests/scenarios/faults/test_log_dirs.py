"""A data folder that cannot be written any more, and disks that are full."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from scenarios.faults.conftest import Judged
from scenarios.faults.page import Page, Skipped
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
WORKLOADS = pytest.mark.parametrize("workload", [Workload(), Workload("snappy", transactional=True)], ids=str)
WHO = pytest.mark.parametrize("who", ["leader", "follower"])
#: Partitions are spread over two folders of each broker.
PARTITIONS = 4
#: Folders are written often, so a failure is seen soon.
SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": "500"}
DISK_MIB = 64
FILL = "fill"


def make_unwritable(folder: Path) -> None:
    """Have all that is created in a folder fail; permissions would not keep root out."""
    folder.rename(folder.with_name(f"{folder.name}.away"))
    folder.write_bytes(b"in its place")


def repair(folder: Path) -> None:
    """Take `make_unwritable` back."""
    folder.unlink()
    folder.with_name(f"{folder.name}.away").rename(folder)


def chosen(run: Run, who: str) -> tuple[int, Path]:
    """A broker that leads or follows partition 0, and the folder in which it is."""
    broker = run.leader() if who == "leader" else run.follower()
    return broker, run.cluster.folder_of(broker, TOPIC)


def others_of(run: Run, broker: int, folder: Path) -> list[int]:
    """Partitions that a broker has in its other folders."""
    found = [n for n in range(PARTITIONS) if run.cluster.folder_of(broker, TOPIC, n) != folder]
    assert found
    return found


def fails_and_returns(
    run: Run, who: str, fail: Callable[[Path], object], mend: Callable[[Path], object]
) -> None:
    """A folder fails; its broker serves the other one, then returns, and is the only one left."""
    broker, folder = chosen(run, who)
    untouched = others_of(run, broker, folder)
    fail(folder)
    run.await_out_of_sync(broker)
    run.cluster.await_partition(TOPIC, lambda one: one.leader not in (-1, broker))
    run.writing.go_on()
    for index in untouched:
        run.cluster.await_whole(TOPIC, index)
    run.cluster.stop(broker)
    mend(folder)
    run.cluster.start(broker)
    run.cluster.await_all_whole(TOPIC)
    others = [one for one in run.cluster.live if one != broker]
    run.cluster.kill(*others)
    run.cluster.await_partition(TOPIC, lambda one: one.leader == broker)
    run.cluster.start(*others)
    run.cluster.await_all_whole(TOPIC)


@WORKLOADS
@WHO
def test_a_folder_becomes_unwritable(judged: Judged, who: str, workload: Workload) -> None:
    fault = f"one of two log dirs unwritable at the {who}; then a bounce; then all others killed"
    with judged(fault, workload, partitions=PARTITIONS, folders=2, settings=SETTINGS) as run:
        fails_and_returns(run, who, make_unwritable, repair)


@contextmanager
def small_disks(folders: list[Path]) -> Iterator[None]:
    """Mount a small file system at each folder. Raises OSError where that is not allowed."""
    with ExitStack() as mounted:
        for folder in folders:
            folder.mkdir(parents=True)
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)],
                capture_output=True,
                check=False,
                timeout=300,
            )
            if done.returncode:
                raise OSError(done.stderr.decode(errors="replace"))
            mounted.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
        yield


def fill(folder: Path) -> None:
    """Leave no room on a folder's disk, and keep it so while files are removed there."""
    with (folder / FILL).open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def make_room(folder: Path) -> None:
    """Take `fill` back."""
    (folder / FILL).unlink()


@WORKLOADS
@WHO
def test_a_disk_is_full(judged: Judged, page: Page, tmp_path: Path, who: str, workload: Workload) -> None:
    fault = f"disk of one of two log dirs full at the {who}; then a bounce; then all others killed"
    folders = [tmp_path / f"data-{broker}-{n}" for broker in range(3) for n in range(2)]
    with ExitStack() as disks:
        try:
            disks.enter_context(small_disks(folders))
        except OSError as why:
            page.add(Skipped(fault, f"no file system can be mounted here ({why})"))
            pytest.skip(f"tmpfs: {why}")
        with judged(fault, workload, partitions=PARTITIONS, folders=2, settings=SETTINGS) as run:
            fails_and_returns(run, who, fill, make_room)
