"""kill -9 of the driver, at several moments of a batch: what was read is read once, and all of it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from waiting import WITHIN_S, joined

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

DRIVER = Path(__file__).with_name("stream_driver.py")
_SECONDS_TO_REACH_A_MOMENT = 400


@contextmanager
def written_all_the_while(topic: Any) -> Iterator[None]:
    """Records keep coming, to both partitions, until the block ends."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            topic.produce([str(number + step) for step in range(20)], number % 2)
            number += 1
            stop.wait(0.2)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        joined(thread)


def kill_when(servers: str, topic: str, folder: Path, moment: Callable[[], bool]) -> None:
    """Run the job, and kill driver, JVM and workers as soon as `moment` is there."""
    log = (folder / "driver.log").open("ab")
    driver = subprocess.Popen(
        [sys.executable, str(DRIVER), servers, topic, str(folder), "run"],
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    deadline = time.monotonic() + _SECONDS_TO_REACH_A_MOMENT
    try:
        while not moment():
            if driver.poll() is not None:
                pytest.fail(
                    f"the job ended by itself:\n{(folder / 'driver.log').read_text(encoding='utf-8')[-3000:]}"
                )
            assert time.monotonic() < deadline, "the job did not get so far"
            time.sleep(0.002)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(WITHIN_S)
        log.close()


def highest(folder: Path) -> int:
    """The highest number among the files of a checkpoint's log, -1 without any."""
    return max((int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()), default=-1)


def test_nothing_is_lost_and_nothing_read_twice(servers: str, new_topic: Any, tmp_path: Path) -> None:
    topic = new_topic(2)
    topic.produce([str(number) for number in range(50)], 0)
    checkpoint = tmp_path / "checkpoint"
    planned, finished = checkpoint / "offsets", checkpoint / "commits"
    with written_all_the_while(topic):
        # As soon as the first batch is planned: "latest" has been asked for, and no record read.
        kill_when(servers, topic.name, tmp_path, lambda: highest(planned) == 0)
        # In the middle of a batch: planned, not finished.
        at = highest(finished) + 3
        kill_when(servers, topic.name, tmp_path, lambda: highest(planned) >= at > highest(finished))
        # Between a batch's effect and its being marked as finished.
        batches = tmp_path / "batches"
        seen = highest(finished) + 3
        kill_when(servers, topic.name, tmp_path, lambda: (batches / f"{seen}.json").exists())
    first = json.loads((planned / "0").read_text(encoding="utf-8").splitlines()[-1])[topic.name]
    subprocess.run(
        [sys.executable, str(DRIVER), servers, topic.name, str(tmp_path), "drain"],
        check=True,
        timeout=300,
        capture_output=True,
    )
    read = Counter(
        (partition, offset)
        for path in (tmp_path / "batches").glob("*.json")
        for partition, offset in json.loads(path.read_text(encoding="utf-8"))
    )
    expected = Counter(
        (partition, offset)
        for partition, end in topic.ends().items()
        for offset in range(first[str(partition)], end)
    )
    assert read == expected
    assert sum(expected.values()) > 100, "too little was read for this to mean anything"
