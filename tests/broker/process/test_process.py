"""`odradek server` as a process: the ready line, signals, refusals that change nothing."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.errors import ErrorCode, KafkaStorageError
from odradek.records.builder import build_batch
from odradek.testing import Broker
from odradek.util import repeats
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ports import free_port
from waiting import WITHIN_S

COMMAND = [sys.executable, "-m", "odradek", "server"]


@contextmanager
def server(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str, int]]:
    """A broker process that is ready; killed if the test has not ended it."""
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        if not line:
            assert process.stderr is not None
            raise AssertionError(process.stderr.read().decode())
        word, address = line.split()
        assert word == "ready"
        host, port = address.rsplit(":", 1)
        yield process, host, int(port)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=WITHIN_S)


def refused(*arguments: str) -> str:
    """Run a broker that must not start; returns what it says."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=60, check=False)
    assert done.returncode == 1, done
    assert done.stdout == b""
    return done.stderr.decode()


def fingerprint(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def metadata(host: str, port: int) -> object:
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(b"".join(encode_request(ApiKey.METADATA, 9, 1, "t", MetadataRequest(topics=[]))))
        stream = connection.makefile("rb")
        frame = stream.read(struct.unpack(">i", stream.read(4))[0])
        return decode_response(frame, ApiKey.METADATA, 9)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ready_serves_and_stops_on_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    with server("--data", str(tmp_path), "--port", "0") as (process, host, port):
        assert host == "127.0.0.1"
        answer = metadata(host, port)
        assert [(one.host, one.port) for one in answer.brokers] == [(host, port)]  # type: ignore[attr-defined]
        process.send_signal(number)
        assert process.wait(60) == 0
        assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    command = ["nohup", *COMMAND, "--data", str(tmp_path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        host, port = process.stdout.readline().decode().split()[1].rsplit(":", 1)
        process.send_signal(signal.SIGHUP)
        assert metadata(host, int(port))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert b"SIGHUP" not in errors


STOPPED_AGAIN = """
import os, signal, sys
from odradek.broker.app import Broker
from odradek.cli.server import command
stop = Broker.stop
async def slow(self):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(os.getpid(), number)
    await stop(self)
    os.kill(os.getpid(), signal.SIGINT)
Broker.stop = slow
command(["--data", sys.argv[1], "--port", "0"])
"""


def test_more_signals_while_it_stops_change_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STOPPED_AGAIN, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"ready ")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert b"Traceback" not in errors
    assert (tmp_path / ".kafka_cleanshutdown").exists()


STOPPED_WHILE_STARTING = """
import os, signal, sys
from odradek.broker.app import Broker
from odradek.cli.server import command
from odradek.log.folders.log_manager import LogManager
load, start = LogManager.load, Broker.start
def interrupt():
    os.kill(os.getpid(), signal.Signals[sys.argv[2]])
    for _ in range(10):
        pass
    print("went on")
def slow_load(self, *arguments, **named):
    load(self, *arguments, **named)
    interrupt()
async def slow_start(self):
    await start(self)
    interrupt()
if sys.argv[3] == "in the middle":
    LogManager.load = slow_load
else:
    Broker.start = slow_start
command(["--data", sys.argv[1], "--port", "0"])
"""


@pytest.mark.parametrize(
    ("name", "when"),
    [("SIGTERM", "in the middle"), ("SIGINT", "in the middle"), ("SIGHUP", "at the end")],
)
def test_a_signal_ends_a_start_that_takes_long(name: str, when: str, tmp_path: Path) -> None:
    with_a_topic(tmp_path)
    command = [sys.executable, "-c", STOPPED_WHILE_STARTING, str(tmp_path), name, when]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b""), done
    assert b"Traceback" not in done.stderr
    assert (b"clean=true" in done.stderr) == (when == "at the end")
    with Broker(data=tmp_path) as broker:
        assert broker.call(lambda one: one.image.topic("t")) is not None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux's /dev/full")
def test_a_ready_line_that_nobody_takes_is_no_reason_to_stop(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Path("/dev/full").open("wb") as full:
        process = subprocess.Popen(
            [*COMMAND, "--data", str(tmp_path), "--port", str(port)], stdout=full, stderr=subprocess.PIPE
        )
    assert process.stderr is not None
    try:
        while b"broker started" not in process.stderr.readline():
            assert process.poll() is None
        assert metadata("127.0.0.1", port)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0


def test_a_file_and_settings(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "server.properties"
    file.write_text(
        f"# a comment\nbroker.id=7\nlog.dirs={data}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
        "num.partitions=4\nno.such.config=1\n",
        encoding="utf-8",
    )
    with server("--config", str(file), "--set", "num.partitions=6", "--log-format", "json") as (
        process,
        host,
        port,
    ):
        answer = metadata(host, port)
        assert [one.node_id for one in answer.brokers] == [7]  # type: ignore[attr-defined]
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    lines = [json.loads(line) for line in errors.decode().splitlines()]
    # On a machine that is busy the watchdog may have its say too.
    told = [line for line in lines if line["logger"] != "odradek.broker.process.watchdog"]
    warnings = [line["message"] for line in told if line["level"] == "WARNING"]
    assert len(warnings) == 1
    assert "no.such.config" in warnings[0]
    (warning,) = [line for line in told if line["level"] == "WARNING"]
    assert warning["name"] == "no.such.config"
    (ready,) = [line for line in told if line["message"].startswith("ready ")]
    assert (ready["host"], ready["port"]) == (host, port)
    (started,) = [line for line in told if line["message"].startswith("broker started ")]
    assert (started["broker_id"], started["partitions"]) == (7, 0)
    assert "broker.id=7" in (data / "meta.properties").read_text(encoding="utf-8")


def test_the_request_log(tmp_path: Path) -> None:
    requests = tmp_path / "request.log"
    with server("--data", str(tmp_path / "d"), "--port", "0", "--request-log", str(requests)) as (
        process,
        host,
        port,
    ):
        metadata(host, port)
        (line,) = [json.loads(line) for line in requests.read_text(encoding="utf-8").splitlines()]
        assert (line["api"], line["version"], line["client_id"]) == ("Metadata", 9, "t")
        assert line["client_host"] == "127.0.0.1"
        assert line["request_bytes"] > 0
        assert line["response_bytes"] > 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        before = fingerprint(tmp_path)
        text = refused("--data", str(tmp_path), "--port", "0")
        assert str(tmp_path) in text
        assert str(os.getpid()) in text
        assert fingerprint(tmp_path) == before
        assert metadata(broker.host, broker.port)


def test_a_taken_port_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = refused("--data", str(tmp_path / "data"), "--port", str(port))
        assert str(port) in text
        assert not (tmp_path / "data").exists()


def with_a_topic(folder: Path) -> None:
    with Broker(data=folder, num_partitions=1) as broker:
        broker.create_topic("t")


def test_another_brokers_folder_is_refused(tmp_path: Path) -> None:
    with_a_topic(tmp_path)
    before = fingerprint(tmp_path)
    text = refused("--data", str(tmp_path), "--port", "0", "--set", "broker.id=9")
    assert "meta.properties" in text
    assert "broker.id=0" in text
    assert fingerprint(tmp_path) == before


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    with_a_topic(tmp_path)
    (tmp_path / "metadata.sqlite").write_bytes(b"this is no database" * 100)
    before = fingerprint(tmp_path)
    text = refused("--data", str(tmp_path), "--port", "0")
    assert "metadata.sqlite" in text
    assert fingerprint(tmp_path) == before


def test_a_log_damaged_beyond_its_tail_is_refused_where_that_is_wanted(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", configs={"segment.bytes": "20000"})
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "batch.size": 2000, "log_level": 0}
        )
        for number in range(1000):
            producer.produce("t", b"%d" % number * 20)
        assert producer.flush(60) == 0
        del producer
    segments = sorted((tmp_path / "t-0").glob("*.log"))
    assert len(segments) > 2
    (tmp_path / ".kafka_cleanshutdown").unlink()
    # As after a lost recovery point: everything is looked at, and the damage lies before the last segment.
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n", encoding="utf-8")
    content = bytearray(segments[0].read_bytes())
    content[len(content) // 2] ^= 0xFF
    segments[0].write_bytes(content)
    before = fingerprint(tmp_path)
    text = refused("--data", str(tmp_path), "--port", "0", "--set", "odradek.refuse.damaged.logs=true")
    assert str(segments[0]) in text
    after = fingerprint(tmp_path)
    assert after == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "listeners=SSL://127.0.0.1:0"], "ssl.keystore.location"),
        (["--set", "listeners=PLAINTEXT://0.0.0.0:0"], "nonroutable meta-address 0.0.0.0"),
        (
            ["--set", "authorizer.class.name=com.example.LdapAuthorizer"],
            "--insecure",
        ),
    ],
)
def test_wrong_configs_are_refused(arguments: list[str], words: str, tmp_path: Path) -> None:
    text = refused("--data", str(tmp_path / "data"), *arguments)
    assert words in text
    assert not (tmp_path / "data").exists()


def test_wrong_usage() -> None:
    for arguments in ([], ["--data", "x", "--set", "nonsense"], ["--data", "x", "--port", "99999"]):
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=60, check=False)
        assert done.returncode == 1
        assert b"Usage" in done.stderr


def test_a_metadata_store_that_does_not_answer_is_named(tmp_path: Path) -> None:
    pytest.importorskip("kazoo")
    text = refused(
        *("--data", str(tmp_path / "data"), "--port", "0"),
        *("--set", f"zookeeper.connect=127.0.0.1:{free_port()}"),
        *("--set", "zookeeper.connection.timeout.ms=200"),
    )
    assert "no ZooKeeper answers at 127.0.0.1" in text
    assert "zookeeper.connect" in text


def test_security_that_is_not_there_is_passed_over_only_when_that_is_meant(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "server.properties"
    file.write_text(
        f"log.dirs={data}\nlisteners=PLAINTEXT://127.0.0.1:0\nauthorizer.class.name=kafka.Acls\n"
        "listener.name.plaintext.sasl.jaas.config=hunter2\n",
        encoding="utf-8",
    )
    text = refused("--config", str(file))
    for name in ("authorizer.class.name", "listener.name.plaintext.sasl.jaas.config"):
        assert name in text
    assert "hunter2" not in text
    assert not data.exists()
    with server("--config", str(file), "--insecure") as (process, host, port):
        assert metadata(host, port)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    warned = [line for line in errors.decode().splitlines() if "asks for what is not there" in line]
    assert len(warned) == 2
    assert b"hunter2" not in errors
    assert b"has no effect" not in errors


def test_all_addresses_are_listened_on_and_not_advertised(tmp_path: Path) -> None:
    with server("--data", str(tmp_path), "--host", "0.0.0.0", "--port", "0") as (_, host, port):
        assert host == "127.0.0.1"
        (broker,) = metadata(host, port).brokers  # type: ignore[attr-defined]
        assert (broker.host, broker.port) == (socket.getfqdn(), port)


def test_options_win_over_what_the_file_advertises(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"log.dirs={tmp_path / 'd'}\nlisteners=PLAINTEXT://127.0.0.1:9092\n"
        "advertised.listeners=PLAINTEXT://broker.example:9092\n",
        encoding="utf-8",
    )
    with server("--config", str(file), "--port", "0") as (_, host, port):
        (broker,) = metadata(host, port).brokers  # type: ignore[attr-defined]
        assert (broker.host, broker.port) == ("broker.example", port)


def few_descriptors() -> None:
    """In the process of a broker, before it begins."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))


def ask(connection: socket.socket, message: Any, version: int) -> Any:
    connection.sendall(b"".join(encode_request(ApiKey(message.API_KEY), version, 1, "t", message)))
    stream = connection.makefile("rb")
    frame = stream.read(struct.unpack(">i", stream.read(4))[0])
    return decode_response(frame, ApiKey(message.API_KEY), version)[1]


def test_out_of_descriptors_what_is_connected_is_served_and_nothing_dies(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--data", str(tmp_path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=few_descriptors,
    )
    taken: list[socket.socket] = []
    try:
        assert process.stdout is not None
        host, port = process.stdout.readline().decode().split()[1].rsplit(":", 1)
        refused = 0
        while refused < 200:
            connection = socket.create_connection((host, int(port)), timeout=10)
            connection.sendall(
                b"".join(encode_request(ApiKey.METADATA, 9, 1, "t", MetadataRequest(topics=[])))
            )
            try:
                answered = connection.recv(1)
            except ConnectionResetError:
                answered = b""
            if answered:
                taken.append(connection)
                assert len(taken) < 128
            else:
                refused += 1
                connection.close()
        topics = [
            CreatableTopic(name=f"t{number}", num_partitions=8, replication_factor=1) for number in range(9)
        ]
        for connection in taken:
            drain(connection)
        created = ask(taken[0], CreateTopicsRequest(topics=topics, timeout_ms=30_000), 4)
        assert {one.error_code for one in created.topics} == {0}
        found = ask(taken[1], FindCoordinatorRequest(key="g"), 1)
        assert found.error_code in (0, 15)
        for number in range(9):
            for partition in range(8):
                answer = ask(taken[number], produce(f"t{number}", partition), 8)
                (told,) = answer.responses[0].partition_responses
                assert told.error_code == 0, (number, partition, told)
        for connection in taken[5:]:
            connection.close()
        assert metadata(host, int(port))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    finally:
        for connection in taken:
            connection.close()
        process.kill()
    assert process.returncode == 0, errors.decode()
    lines = errors.decode().splitlines()
    told = [line for line in lines if "file descriptors run out" in line]
    assert [("repeated=" in line) for line in told] == [False, True]
    assert not [line for line in lines if " ERROR " in line and line not in told]
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def drain(connection: socket.socket) -> None:
    """Read the rest of an answer of which the first byte has been read."""
    stream = connection.makefile("rb")
    stream.read(struct.unpack(">i", b"\0" + stream.read(3))[0])


def produce(topic: str, partition: int) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=build_batch([(0, None, b"x", ())]))
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def test_the_limit_of_open_files_is_raised_as_far_as_may_be(tmp_path: Path) -> None:
    def soft_is_low() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512))

    process = subprocess.Popen(
        [*COMMAND, "--data", str(tmp_path), "--port", "0"], stdout=subprocess.PIPE, preexec_fn=soft_is_low
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (512, 512)
    finally:
        process.kill()
        process.communicate(timeout=WITHIN_S)


def test_a_batch_that_no_segment_takes_is_the_clients_fault(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("odradek"), "propagate", True)
    with (
        Broker() as broker,
        socket.create_connection((broker.host, broker.port), timeout=10) as connection,
    ):
        broker.create_topic("t", configs={"segment.bytes": "14"})
        for _ in range(20):
            (answer,) = ask(connection, produce("t", 0), 8).responses[0].partition_responses
            assert answer.error_code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []


def test_an_append_that_the_disk_refuses_is_told_once_then_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(key: object) -> None:
        raise KafkaStorageError("the disk is full")

    monkeypatch.setattr(logging.getLogger("odradek"), "propagate", True)
    with (
        Broker() as broker,
        socket.create_connection((broker.host, broker.port), timeout=10) as connection,
    ):
        broker.create_topic("t")
        broker.call(lambda one: setattr(one.replicas.get("t", 0), "_on_progress", refuse))
        for _ in range(20):
            (answer,) = ask(connection, produce("t", 0), 8).responses[0].partition_responses
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.call(lambda _: repeats.tell_counts(at_once=True))
    told = [one.getMessage() for one in caplog.records if one.levelno > logging.INFO]
    assert told == [
        "append failed topic=t partition=0: the disk is full",
        "append failed topic=t partition=0: the disk is full repeated=19",
    ]


def test_a_disk_that_is_full_is_told_once_then_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("odradek"), "propagate", True)
    with (
        Broker() as broker,
        socket.create_connection((broker.host, broker.port), timeout=10) as connection,
    ):
        broker.create_topic("t")
        partition = broker.call(lambda one: one.replicas.get("t", 0))

        def full(key: object) -> None:
            raise partition.log.storage_error("appending", OSError(28, "No space left on device"))

        broker.call(lambda _: setattr(partition, "_on_progress", full))
        for _ in range(20):
            (answer,) = ask(connection, produce("t", 0), 8).responses[0].partition_responses
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    told = [one.getMessage() for one in caplog.records if one.levelno > logging.INFO]
    assert len(told) == 2
    assert told[0].startswith("t-0: appending in ")
    assert told[1].startswith("append failed topic=t partition=0: ")


def test_the_audit_log_in_a_file_of_its_own(tmp_path: Path) -> None:
    audit = tmp_path / "kafka-authorizer.log"
    words = ["--data", str(tmp_path / "data"), "--port", "0", "--authorizer-log", str(audit)]
    words += ["--set", "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"]
    with server(*words, "--authorizer-log-level", "debug") as (process, host, port):
        request = MetadataRequest(topics=[MetadataRequestTopic(name="secret\nINFO fake")])
        with socket.create_connection((host, port), 60) as connection:
            connection.sendall(b"".join(encode_request(ApiKey.METADATA, 9, 1, "test", request)))
            assert connection.recv(4)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    (line,) = audit.read_text(encoding="utf-8").splitlines()
    assert line.endswith(
        "INFO kafka.authorizer.logger Principal = User:ANONYMOUS is Denied operation = DESCRIBE from host = "
        "127.0.0.1 on resource = Topic:LITERAL:secret\\nINFO fake for request = Metadata with "
        "resourceRefCount = 1 based on rule DefaultDeny"
    )
    assert audit.stat().st_mode & 0o077 == 0
    assert "cannot be written" in refused(*words, "--authorizer-log", str(tmp_path / "no" / "folder"))
