"""Compaction under a running broker: a worker process, the swap, what readers and groups see of it."""

from __future__ import annotations

import asyncio
import gc
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.upkeep.cleaning import Cleaning
from odradek.log.cleaner.job import CleanJob
from odradek.log.cleaner.manager import CleanTask
from odradek.log.cleaner.worker import (
    BrokerGoneError,
    CleanFailedError,
    Throttle,
    WhileAlive,
    outcome,
    serve,
)
from odradek.testing import Broker
from waiting import gathered, until

QUICK = {"log_cleaner_backoff_ms": 20, "log_retention_check_interval_ms": 50}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "4000",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}
LIMIT_S = 60


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Other processes need real time."""
    until(condition, what, within_s=LIMIT_S, every_s=0.02)


def read_all(servers: str, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([(topic, 0)])
        end = consumer.end_offsets([(topic, 0)])[TopicPartition(topic, 0)]
        consumer.seek_to_beginning()
        found = gathered(
            lambda: consumer.poll(1_000),
            lambda: consumer.position((topic, 0)) >= end,
            f"the records of {topic} up to {end}",
        )
    return [(r.offset, r.key, r.value) for r in found]


def checkpoint(data: Path) -> dict[tuple[str, int], int]:
    path = data / "cleaner-offset-checkpoint"
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()[2:]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in map(str.split, lines)}


def active_base(broker: Broker, topic: str) -> int:
    return broker.call(lambda app: app.logs.get(topic, 0).segments.active.base_offset)


def test_a_topic_is_compacted_while_it_is_written_and_read(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", **QUICK) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("state", 1, configs=COMPACTED)])
        newest = {}
        with Producer(bootstrap_servers=servers, linger_ms=0, batch_size=500) as producer:
            for number in range(3_000):
                key, value = b"key-%d" % (number % 50), b"%d" % number
                newest[key] = (number, value)
                producer.send("state", value, key=key)
                if number % 500 == 499:
                    producer.flush()
        eventually(
            lambda: checkpoint(tmp_path / "data").get(("state", 0), 0) == active_base(broker, "state"),
            "the cleaner to reach the active segment",
        )
        clean_to = active_base(broker, "state")
        found = read_all(servers, "state")
        assert {key: (offset, value) for offset, key, value in found} == newest
        assert len([offset for offset, _, _ in found if offset < clean_to]) <= 50
        metrics = broker.call(lambda app: app.metrics.snapshot())
        assert metrics["kafka.log:LogCleaner", "cleaner-recopy-percent", ()] < 100
        broker.restart()
        assert read_all(broker.bootstrap_servers, "state") == found
    leftovers = [path for path in (tmp_path / "data").rglob("*") if path.suffix in (".cleaned", ".swap")]
    assert leftovers == []


def test_what_groups_have_committed_survives_the_compaction_of_their_topic(tmp_path: Path) -> None:
    settings = {**QUICK, "offsets_topic_num_partitions": 1, "offsets_topic_segment_bytes": 3_000}
    with Broker(data=tmp_path / "data", log_cleaner_min_cleanable_ratio=0.01, **settings) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("t", 1)])
        with Producer(bootstrap_servers=servers) as producer:
            for _ in range(300):
                producer.send("t", b"x")
        with Consumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:

            def three() -> list[Any]:
                records = consumer.poll(1_000, max_records=3)
                consumer.commit()
                return records

            gathered(three, 300, "the records that were sent")
        eventually(
            lambda: (
                checkpoint(tmp_path / "data").get(("__consumer_offsets", 0), 0)
                == active_base(broker, "__consumer_offsets")
                > 0
            ),
            "the groups' topic to be compacted",
        )
        records = read_all(servers, "__consumer_offsets")
        assert records[-1][0] > len(records)
        for _ in range(2):
            with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                assert admin.list_group_offsets("g")[TopicPartition("t", 0)].offset == 300
            broker.restart()


def test_a_damaged_log_is_left_alone_and_the_others_are_cleaned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(data=tmp_path / "data", **QUICK, log_cleaner_enable=False) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, 1, configs=COMPACTED) for name in ("bad", "good")])
        with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0, batch_size=500) as producer:
            for number in range(600):
                for topic in ("bad", "good"):
                    producer.send(topic, b"%d" % number, key=b"k")
    first = tmp_path / "data" / "bad-0" / f"{0:020d}.log"
    content = bytearray(first.read_bytes())
    content[100] ^= 1
    first.write_bytes(content)
    with Broker(data=tmp_path / "data", **QUICK) as broker:
        eventually(
            lambda: checkpoint(tmp_path / "data").get(("good", 0), 0) == active_base(broker, "good"),
            "the good log to be cleaned",
        )
        eventually(
            lambda: broker.call(lambda app: list(app.housekeeping.cleaner.uncleanable)) == [("bad", 0)],
            "the damage to be found",
        )
        assert first.read_bytes() == content
        assert not list(first.parent.glob("*.cleaned"))
    assert any("cannot be cleaned" in r.message and "corrupt" in r.message for r in caplog.records)


def test_a_stop_ends_the_workers(tmp_path: Path) -> None:
    slow = {**QUICK, "log_cleaner_io_max_bytes_per_second": 50.0}
    with Broker(data=tmp_path / "data", **slow) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("state", 1, configs=COMPACTED)])
        with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0, batch_size=500) as producer:
            for number in range(1_000):
                producer.send("state", b"%d" % number, key=b"k")
        eventually(
            lambda: broker.call(lambda app: app.housekeeping.cleaner.in_progress) == 1, "a pass to begin"
        )
        before = read_all(broker.bootstrap_servers, "state")
        broker.restart()
        assert read_all(broker.bootstrap_servers, "state") == before


JOB = (
    '{"directory": "%s", "sources": [{"base_offset": 0, "size": 5, "modified_ms": 0, "index_bytes": 0, '
    '"time_index_bytes": 0}], "first_dirty": 0, "first_uncleanable": 9, "now_ms": 0, "segment_bytes": 9, '
    '"segment_index_bytes": 9, "index_interval_bytes": 9, "delete_retention_ms": 0, '
    '"max_message_bytes": 9, "aborted": [], "producers": {}}\n'
)


def test_a_worker_tells_what_went_wrong(tmp_path: Path) -> None:
    said = io.StringIO()
    serve(io.StringIO(JOB % tmp_path), said)
    with pytest.raises(CleanFailedError, match="FileNotFoundError") as missing:
        outcome(said.getvalue(), 0)
    assert not missing.value.for_good
    (tmp_path / f"{0:020d}.log").write_bytes(b"short")
    said = io.StringIO()
    serve(io.StringIO(JOB % tmp_path), said)
    with pytest.raises(CleanFailedError, match="no whole batch") as damaged:
        outcome(said.getvalue(), 0)
    assert damaged.value.for_good
    with pytest.raises(CleanFailedError, match="exit code -9"):
        outcome("", -9)


def test_a_stop_says_nothing_of_the_workers_that_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    ended: list[str] = []
    tasks = [CleanTask(("t", 0), None, CleanJob.from_json(JOB % tmp_path))]  # type: ignore[arg-type]

    class Worker:
        def kill(self) -> None:
            ended.append("worker")

    def begin(command: list[str], **_: Any) -> Worker:
        commands.append(command)
        return Worker()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        told: list[Any] = []
        loop.set_exception_handler(lambda _, context: told.append(context))
        done = loop.create_future()
        waits = [done]
        monkeypatch.setattr(loop, "run_in_executor", lambda *_: waits.pop())
        cleaner: Any = SimpleNamespace(in_progress=0, take=lambda: tasks.pop() if tasks else None)
        cleaning = Cleaning(loop, cleaner, BrokerConfig({"log.dirs": str(tmp_path)}))
        cleaning.check()
        cleaning.stop()
        monkeypatch.undo()
        done.set_exception(CleanFailedError("the worker ended with exit code -9", for_good=False))
        await asyncio.sleep(0)
        del done
        gc.collect()
        assert told == []

    monkeypatch.setattr(subprocess, "Popen", begin)
    asyncio.run(main())
    assert ended == ["worker"]
    # With nothing from the folder that the broker was started in.
    assert [command[1:3] for command in commands] == [["-P", "-m"]]


@pytest.mark.parametrize("text", ["", JOB % "/nowhere"], ids=["before the job", "before the result"])
def test_a_worker_whose_broker_dies_ends_without_a_word(text: str) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "odradek.log.cleaner.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert worker.stderr is not None
    worker.stdout.close()
    worker.stdin.write(text)
    worker.stdin.close()
    assert worker.stderr.read() == ""
    worker.stderr.close()
    assert worker.wait(30) == 1


def test_a_worker_does_not_go_on_in_a_folder_that_another_broker_may_have() -> None:
    parents = iter([7, 7, 1])
    throttle = WhileAlive(1e9, lambda: next(parents))
    throttle(1)
    with pytest.raises(BrokerGoneError):
        throttle(1)


def test_the_throttle_waits_as_long_as_the_bytes_take() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    throttle = Throttle(1_000, lambda: now[0], sleep)
    throttle(500)
    throttle(250)
    now[0] += 10
    throttle(1)
    assert slept == [0.5]
