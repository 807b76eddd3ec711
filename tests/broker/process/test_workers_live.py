"""`odradek server --workers 2`, with real brokers: one cluster, deaths, restarts, the end, refusals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import waiting
from odradek.broker.process.workers import SharedStore
from odradek.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.client.types import PartitionInfo
from odradek.errors import UnknownTopicOrPartitionError
from ports import free_port
from waiting import joined

COMMAND = [sys.executable, "-m", "odradek", "server"]
LIMIT_S = 90
GROUPS = count()


class Workers:
    """Workers and the process that runs them. What they log is read all the time.

    Attributes:
        process: the one that runs them.
        addresses: what its `ready` line has said.
        lines: what all have logged so far.
    """

    def __init__(self, data: Path, *arguments: str, number: int = 2) -> None:
        command = [*COMMAND, "--data", str(data), "--port", "0", "--workers", str(number), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        word, _, addresses = self.process.stdout.readline().strip().partition(" ")
        if word != "ready":
            self.kill()
            raise AssertionError("\n".join(self.lines))
        self.addresses = addresses.split(",")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """The workers end with it."""
        self.process.kill()
        self.ended()

    def stop(self) -> None:
        self.process.terminate()
        assert self.ended() == 0, "\n".join(self.lines)

    def ended(self) -> int:
        """Wait until it has, and all of its workers: their standard error is its own."""
        code = self.process.wait(LIMIT_S)
        joined(self._reader, LIMIT_S)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def pids(self, worker: int) -> list[int]:
        """The processes that a worker has been, the last one last."""
        found = [re.search(rf"supervisor worker {worker} started pid=(\d+)", line) for line in self.lines]
        return [int(one[1]) for one in found if one is not None]

    def says(self, text: str, times: int = 1) -> None:
        until(lambda: sum(text in line for line in self.lines) >= times, lambda: "\n".join(self.lines))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.addresses)


def until(condition: Callable[[], bool], told: Callable[[], object] = lambda: "") -> None:
    waiting.until(condition, within_s=LIMIT_S, instead=told)


def brokers(address: str) -> dict[int, str]:
    with Admin(bootstrap_servers=address) as admin:
        return {one.id: f"{one.host}:{one.port}" for one in admin.describe_cluster().nodes}


def names_all(workers: Workers, address: str) -> None:
    expected = dict(enumerate(workers.addresses))
    until(lambda: brokers(address) == expected, lambda: (brokers(address), expected))


def create(workers: Workers, topic: str, partitions: int, copies: int = -1) -> None:
    with Admin(bootstrap_servers=workers.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, copies)])

    def everywhere() -> bool:
        try:
            return all(
                one.leader >= 0 for address in workers.addresses for one in partitions_of(address, topic)
            )
        except UnknownTopicOrPartitionError:
            return False  # the controller tells the others a moment later

    until(everywhere)


def produce(address: str, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=address, acks="all") as producer:
        for sent in [producer.send(topic, value=value) for value in values]:
            sent.result(LIMIT_S)


def read(address: str, topic: str, number: int) -> list[bytes]:
    """So many values of a topic, as a group, sorted."""
    values: list[bytes] = []
    with Consumer(
        topic, bootstrap_servers=address, group_id=f"readers-{next(GROUPS)}", auto_offset_reset="earliest"
    ) as consumer:

        def poll() -> bool:
            values.extend(bytes(one.value or b"") for one in consumer.poll(100))
            return len(values) >= number

        until(poll, lambda: values)
    return sorted(values)


def partitions_of(address: str, topic: str) -> tuple[PartitionInfo, ...]:
    with Admin(bootstrap_servers=address) as admin:
        return admin.describe_topics([topic])[topic].partitions


def in_sync(workers: Workers, topic: str) -> None:
    def look() -> bool:
        found = partitions_of(workers.bootstrap_servers, topic)
        return all(len(one.in_sync_replicas) == len(one.replicas) for one in found)

    until(look)


def values(name: str, number: int) -> list[bytes]:
    return sorted(b"%s-%d" % (name.encode(), index) for index in range(number))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with Workers(tmp_path_factory.mktemp("shared")) as workers:
        yield workers


def test_each_names_both(shared: Workers) -> None:
    assert len(set(shared.addresses)) == 2
    for address in shared.addresses:
        names_all(shared, address)


def test_sigquit_shows_the_stacks_of_the_process_that_gets_it(shared: Workers) -> None:
    worker = shared.pids(1)[-1]
    os.kill(worker, signal.SIGUSR2)
    os.kill(worker, signal.SIGQUIT)
    shared.process.send_signal(signal.SIGQUIT)
    shared.says("stacks are told", times=2)
    shown = [line for line in shared.lines if re.search(r"tasks count=\d+ names=", line)]
    assert any(line.startswith("[worker 1] ") and "broker/process/main.py:" in line for line in shown)
    assert any("broker/process/workers.py:" in line for line in shown)
    assert len(shared.pids(1)) == 1


def test_a_topic_is_spread_over_both_and_served_through_either(shared: Workers) -> None:
    create(shared, "spread", 4)
    partitions = partitions_of(shared.addresses[1], "spread")
    assert sorted(one.leader for one in partitions) == [0, 0, 1, 1]
    assert all(len(one.replicas) == 1 for one in partitions), "one copy, unless more are asked for"
    sent = [b"%d" % number for number in range(40)]
    for partition, address in enumerate([*shared.addresses, *shared.addresses]):
        with Producer(bootstrap_servers=address) as producer:
            for value in sent[partition::4]:
                producer.send("spread", value=value, partition=partition).result(LIMIT_S)
    for address in shared.addresses:
        assert read(address, "spread", 40) == sorted(sent)


def test_topics_of_offsets_and_transactions_have_one_copy_and_two_workers(shared: Workers) -> None:
    create(shared, "bills", 2)
    with Producer(bootstrap_servers=shared.addresses[1], transactional_id="billing") as producer:
        producer.init_transactions()
        with producer.begin_transaction():
            producer.send("bills", key=b"a", value=b"1")
    assert read(shared.addresses[0], "bills", 1) == [b"1"]
    for topic in ("__consumer_offsets", "__transaction_state"):
        partitions = partitions_of(shared.bootstrap_servers, topic)
        assert {len(one.replicas) for one in partitions} == {1}
        assert {one.leader for one in partitions} == {0, 1}


@pytest.mark.parametrize("release", ["2.8", "4.2"])
def test_three_workers_pass_for_a_release(tmp_path: Path, release: str) -> None:
    """Each release in one process: test_kafka_versions_cluster.py."""
    with Workers(tmp_path, "--kafka-version", release, number=3) as workers:
        create(workers, "copied", 1, 3)
        produce(workers.bootstrap_servers, "copied", values("before", 20))
        (partition,) = partitions_of(workers.bootstrap_servers, "copied")
        (victim,) = workers.pids(partition.leader)
        os.kill(victim, signal.SIGKILL)
        produce(workers.bootstrap_servers, "copied", values("after", 20))
        expected = sorted(values("before", 20) + values("after", 20))
        assert read(workers.bootstrap_servers, "copied", 40) == expected
        assert not [line for line in workers.lines if "is not served here" in line]
        workers.stop()


def test_a_killed_worker_is_back_under_its_id_and_port_and_the_other_goes_on(tmp_path: Path) -> None:
    with Workers(tmp_path) as workers:
        create(workers, "copied", 4, 2)
        produce(workers.addresses[0], "copied", values("before", 20))
        # The first one is the controller.
        (victim,) = workers.pids(0)
        os.kill(victim, signal.SIGKILL)
        produce(workers.addresses[1], "copied", values("after", 20))
        workers.says("worker 0 ready", 2)
        assert len(partitions_of(workers.addresses[0], "copied")) == 4, "ready is who has been told all"
        assert workers.pids(0)[-1] != victim
        assert len(workers.pids(1)) == 1
        in_sync(workers, "copied")
        for address in workers.addresses:
            names_all(workers, address)
            assert read(address, "copied", 40) == sorted([*values("before", 20), *values("after", 20)])


def test_workers_are_restarted_one_by_one_and_a_producer_sees_no_error(tmp_path: Path) -> None:
    with Workers(tmp_path) as workers:
        create(workers, "copied", 4, 2)
        old = [*workers.pids(0), *workers.pids(1)]
        sent: list[bytes] = []
        with Producer(bootstrap_servers=workers.bootstrap_servers, acks="all") as producer:

            def send() -> None:
                some = [b"%d" % number for number in range(len(sent), len(sent) + 10)]
                for one in [producer.send("copied", value=value) for value in some]:
                    one.result(LIMIT_S)
                sent.extend(some)

            send()
            workers.process.send_signal(signal.SIGUSR1)

            def done() -> bool:
                send()
                return any("all workers have been restarted" in line for line in workers.lines)

            until(done, lambda: "\n".join(workers.lines))
            send()
        assert [len(workers.pids(number)) for number in (0, 1)] == [2, 2]
        assert not set(old) & {workers.pids(0)[-1], workers.pids(1)[-1]}
        assert read(workers.addresses[0], "copied", len(sent)) == sorted(sent)
        with Consumer(bootstrap_servers=workers.bootstrap_servers) as consumer:
            ends = consumer.end_offsets([TopicPartition("copied", index) for index in range(4)])
        assert sum(ends.values()) == len(sent), "each once"


def test_all_stop_at_once_and_the_same_folder_has_everything(tmp_path: Path) -> None:
    # Whoever is left with what nobody else can lead does not rest until it may ask again.
    with Workers(tmp_path, "--set", "controlled.shutdown.retry.backoff.ms=3600000") as workers:
        create(workers, "copied", 4, 2)
        create(workers, "single", 4)
        produce(workers.addresses[0], "copied", values("copied", 20))
        produce(workers.addresses[1], "single", values("single", 20))
        workers.stop()
        clean = [line for line in workers.lines if "broker stopped" in line]
        assert len(clean) == 2
        assert all("clean=true" in line for line in clean)
        assert sorted(line.split("]")[0] for line in clean) == ["[worker 0", "[worker 1"]
        assert not (tmp_path / "workers/store.sock").exists()
    # One more may join.
    with Workers(tmp_path, "--log-format", "json", number=3) as workers:
        address = workers.addresses[2]
        assert read(address, "copied", 20) == values("copied", 20)
        assert read(address, "single", 20) == values("single", 20)
        names_all(workers, address)
        workers.stop()
        entries = [json.loads(line) for line in workers.lines]
        assert {one.get("worker") for one in entries} == {None, 0, 1, 2}


# ---------------------------------------------------------------------- refusals


def refused(data: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*COMMAND, "--data", str(data), *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_port_in_use_stops_all_and_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        while True:
            first = free_port()
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.1", first + 1))
                break
        taken.listen()
        said = refused(tmp_path, "--port", str(first), "--workers", "2")
    assert f"port {first + 1} on 127.0.0.1 is in use: another process listens there" in said
    assert "worker 1 did not start; it has said why. All workers were stopped." in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--set", "zookeeper.connect=127.0.0.1:2181"), "zookeeper.connect: workers have a metadata store"),
        (("--set", "num.partitions=many"), "num.partitions"),
        (("--port", "65535"), "65535 is the last"),
        (("--set", "listeners=SSL://127.0.0.1:0"), "a TLS listener needs a key"),
    ],
)
def test_bad_configs_are_refused(arguments: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    assert complaint in refused(tmp_path / "d", "--workers", "2", *arguments)


def test_the_folder_of_workers_is_not_one_brokers(tmp_path: Path) -> None:
    SharedStore(tmp_path).close()
    assert "the data folder of workers. Give --workers as before" in refused(tmp_path)
