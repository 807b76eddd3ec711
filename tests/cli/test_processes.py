"""The tools as processes: signals, pipes, exit codes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from odradek import Admin, NewTopic, Producer, TopicPartition
from waiting import WITHIN_S, until

LIMIT_S = 120.0


class Child:
    """`odradek` as a child process."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "odradek", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def read(self, size: int) -> bytes:
        """So many bytes of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.read(size)

    def line(self) -> bytes:
        """One line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def write(self, data: bytes) -> None:
        """To its input."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self, how: signal.Signals | None = None) -> tuple[int, str]:
        """Signal it, or wait; return (exit code, standard error)."""
        if how is not None:
            self.process.send_signal(how)
        _, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, err.decode()

    def kill(self) -> None:
        """Clean up."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate(timeout=WITHIN_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def children() -> Iterator[list[Child]]:
    """Children that are gone after the test."""
    started: list[Child] = []
    yield started
    for child in started:
        child.kill()


def committed(admin: Admin, group: str, topic: str) -> int:
    return admin.list_group_offsets(group)[TopicPartition(topic, 0)].offset


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_console_consumer_that_is_ended_commits_and_leaves(
    children: list[Child],
    servers: str,
    admin: Admin,
    producer: Producer,
    name: str,
    how: signal.Signals,
    status: int,
) -> None:
    for i in range(10):
        producer.send(name, value=b"%d" % i)
    producer.flush()
    words = ("console-consumer", "--bootstrap-server", servers, "--topic", name, "--group", name)
    child = Child(*words, "--from-beginning")
    children.append(child)
    assert child.read(20) == b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    assert child.end(how) == (status, "Processed a total of 10 messages\n")
    assert committed(admin, name, name) == 10
    described = admin.describe_groups([name])[name]
    assert (described.state, described.members) == ("Empty", ())


def test_a_signal_before_the_broker_answers_ends_it_too(children: list[Child]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(LIMIT_S)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        child = Child("console-consumer", "--bootstrap-server", address, "--topic", "t")
        children.append(child)
        with silent.accept()[0]:
            assert child.end(signal.SIGINT) == (130, "Processed a total of 0 messages\n")


def reading(children: list[Child], servers: str, admin: Admin, producer: Producer, name: str) -> Child:
    """A console-consumer in a group, before more records than a pipe takes: the numbers up to 30,000."""
    admin.create_topics([NewTopic(name)])
    for i in range(30_000):
        producer.send(name, value=b"%09d" % i)
    producer.flush()
    words = ("console-consumer", "--bootstrap-server", servers, "--topic", name, "--group", name)
    child = Child(*words, "--from-beginning")
    children.append(child)
    return child


def test_records_that_nobody_read_are_not_committed(
    children: list[Child], servers: str, admin: Admin, producer: Producer, name: str
) -> None:
    """`console-consumer | head -3` ends quietly, and the next consumer of the group loses nothing."""
    child = reading(children, servers, admin, producer, name)
    assert child.read(30) == b"000000000\n000000001\n000000002\n"
    assert child.process.stdout is not None
    child.process.stdout.close()
    child.process.stdout = None
    status, err = child.end()
    assert (status, err.splitlines()[0].split(" messages")[0][:20]) == (0, "Processed a total of")
    assert len(err.splitlines()) == 1
    # The pipe took what fits in it, which nobody can know to be unread; nothing beyond counts as read.
    pipe = 65_536 + 8_192
    assert committed(admin, name, name) <= 3 + pipe // 10 + 500


def test_what_cat_could_not_print_is_not_committed(
    children: list[Child],
    servers: str,
    admin: Admin,
    producer: Producer,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # what is printed waits for a flush
    producer.send(name, value=b"v")
    producer.flush()
    child = Child("cat", "-b", servers, "-o", "beginning", "-q", "-c", "1", "-G", name, name)
    children.append(child)
    assert child.process.stdout is not None
    child.process.stdout.close()
    child.process.stdout = None
    assert child.end() == (0, "")
    assert committed(admin, name, name) == 0


def test_what_is_committed_on_a_signal_is_exactly_what_was_printed(
    children: list[Child], servers: str, admin: Admin, producer: Producer, name: str
) -> None:
    child = reading(children, servers, admin, producer, name)
    # It is in the middle of its records: nobody reads, and the pipe is much smaller than they are.
    begun = child.read(30)
    child.process.send_signal(signal.SIGTERM)
    # Through the same buffer as before: `communicate` would pass over what it holds.
    rest = child.process.stdout.read()
    _, err = child.process.communicate(timeout=LIMIT_S)
    lines = (begun + rest).splitlines()
    assert lines == [b"%09d" % i for i in range(len(lines))]
    assert len(lines) < 30_000
    assert committed(admin, name, name) == len(lines)
    assert (child.process.returncode, err) == (143, b"Processed a total of %d messages\n" % len(lines))


def test_other_tools_end_quietly_when_nobody_reads(
    children: list[Child], servers: str, admin: Admin, name: str
) -> None:
    admin.create_topics([name])
    child = Child("get-offsets", "--bootstrap-server", servers)
    children.append(child)
    assert child.process.stdout is not None
    child.process.stdout.close()
    child.process.stdout = None
    assert child.end() == (0, "")


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_console_producer_that_is_ended_sends_what_it_has_read(
    children: list[Child], servers: str, admin: Admin, name: str, how: signal.Signals, status: int
) -> None:
    admin.create_topics([name])
    # A record that is a batch of its own goes when the next one comes; the last would wait a minute.
    child = Child("console-producer", "--bootstrap-server", servers, "--topic", name, "--timeout", "60000",
                  "--batch-size", "1")  # fmt: skip
    children.append(child)
    child.write(b"".join(b"%d\n" % i for i in range(100)))

    def end_offset() -> int:
        return admin.list_offsets({(name, 0): -1})[TopicPartition(name, 0)].offset

    until(end_offset, "all records but the last", holds=lambda end: end >= 99)
    assert child.end(how) == (status, "")
    assert end_offset() == 100


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_cat_that_is_ended_does_not_wait_for_more_input(
    children: list[Child], servers: str, admin: Admin, name: str, how: signal.Signals, status: int
) -> None:
    admin.create_topics([name])
    child = Child("cat", "-P", "-b", servers, "-t", name, "-X", f"transactional.id={name}", "-q")
    children.append(child)
    child.write(b"a record\n")
    until(lambda: admin.list_offsets({(name, 0): -1})[TopicPartition(name, 0)].offset == 1, "the record")
    child.process.send_signal(how)
    # Its input stays open, as in `tail -f … | odradek cat -P`.
    assert child.process.wait(LIMIT_S) == status
    assert admin.describe_transactions([name])[name].state == "CompleteAbort"


def test_a_person_sees_progress_on_the_terminal_and_a_script_does_not(servers: str, name: str) -> None:
    words = ("producer-perf-test", "--bootstrap-server", servers, "--topic", name, "--num-records", "300",
             "--record-size", "10", "--throughput", "600")  # fmt: skip
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "odradek", *words], stdout=subprocess.PIPE, stderr=theirs, timeout=LIMIT_S
        )
        seen = os.read(ours, 65_536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    assert " of 300 acknowledged (" in seen
    assert done.stdout.startswith(b"300 records sent, ")
    assert b"\x1b" not in done.stdout
    plain = subprocess.run([sys.executable, "-m", "odradek", *words], capture_output=True, timeout=LIMIT_S)
    assert plain.stderr == b""


@pytest.mark.parametrize("unbuffered", ["1", ""])
def test_a_full_disk_is_an_error(servers: str, unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "odradek", "broker-api-versions", "--bootstrap-server", servers],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            timeout=LIMIT_S,
        )
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_a_measurement_that_is_ended_is_reported(
    children: list[Child], servers: str, admin: Admin, name: str
) -> None:
    admin.create_topics([name])
    words = ("--topic", name, "--num-records", "1000000", "--record-size", "10", "--throughput", "100")
    child = Child("producer-perf-test", "--bootstrap-server", servers, *words, "--reporting-interval", "100")
    children.append(child)
    until(
        child.line,
        "a report of records that were sent",
        holds=lambda line: b"records sent" in line and not line.startswith(b"0 "),
        every_s=0,
    )
    child.process.send_signal(signal.SIGINT)
    out, _ = child.process.communicate(timeout=LIMIT_S)
    assert b" ms 99.9th." in out.splitlines()[-1]
    assert child.process.returncode == 130
