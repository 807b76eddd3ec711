"""`odradek wire record` and `odradek wire play`: a client is recorded, and plays to the transcript."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import RunTool
from odradek import Admin, Consumer, Producer
from odradek.errors import OdradekError
from odradek.testing import Broker, Cluster, Security
from odradek.testing.transcripts.frames import read_transcript
from waiting import until

LIMIT_S = 60.0


class Running:
    """A process of `odradek wire`.

    Attributes:
        servers: where it listens.
        printed: what it has printed after that, when it has ended.
    """

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "odradek", "wire", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            raise AssertionError(self.process.communicate(timeout=LIMIT_S))
        self.servers = line.split()[1]
        self.printed = self.errors = ""

    def end(self, how: signal.Signals | None = signal.SIGTERM) -> int:
        """End it, or wait for its end; return the exit code."""
        if how is not None and self.process.poll() is None:
            self.process.send_signal(how)
        self.printed, self.errors = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode


@contextmanager
def wire(*words: object) -> Iterator[Running]:
    running = Running(*map(str, words))
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.communicate(timeout=LIMIT_S)


def roundtrip(servers: str, value: bytes = b"tea", **more: Any) -> list[bytes | None]:
    """Send a record and read it."""
    with Producer(bootstrap_servers=servers, **more) as producer:
        producer.send("orders", value, partition=0, key=b"k").result(LIMIT_S)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **more) as consumer:
        consumer.assign([("orders", 0)])
        records = until(lambda: list(consumer.poll(1)), "the record")
    return [record.value for record in records]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The transcript of a round trip."""
    path = tmp_path_factory.mktemp("transcripts") / "orders.jsonl"
    with Broker() as broker:
        broker.create_topic("orders")
        with wire("record", "--bootstrap-server", broker.bootstrap_servers, "--output", path) as recorder:
            assert roundtrip(recorder.servers) == [b"tea"]
            assert recorder.end() == 0, recorder.errors
    return path


def test_the_transcript_has_the_form_of_the_golden_ones(recorded: Path) -> None:
    names = ["t_ms", "conn", "dir", "key", "version", "correlation", "hex"]
    lines = [json.loads(line) for line in recorded.read_text(encoding="utf-8").splitlines()]
    assert all(list(line) == names for line in lines)
    assert {line["key"] for line in lines} >= {0, 1, 3, 18}
    by_dir = Counter((line["conn"], line["key"], line["dir"]) for line in lines)
    assert by_dir[1, 18, "request"] == by_dir[1, 18, "response"] == 1


def test_the_same_client_does_as_the_transcript_has_it(recorded: Path) -> None:
    with wire("play", recorded) as player:
        assert roundtrip(player.servers) == [b"tea"]
        # By itself: all was asked for, and the clients have gone.
        assert player.end(None) == 0, player.printed
    assert player.printed == "departures 0\n"


def test_a_client_that_departs_is_told(recorded: Path) -> None:
    with wire("play", recorded) as player:
        roundtrip(player.servers, b"milk")
        assert player.end(None) == 1
    departure, last = player.printed.splitlines()
    assert departure.startswith("departure Produce ")
    assert departure.endswith("records[0].value: expected b'tea', seen b'milk'")
    assert last == "departures 1"


def test_a_client_that_does_less_is_told(recorded: Path) -> None:
    with wire("play", recorded) as player:
        with Admin(bootstrap_servers=player.servers) as admin:
            admin.list_topics()
        assert player.end() == 1
    assert "departure Produce " in player.printed
    assert "expected the request, seen none" in player.printed


def test_each_broker_of_a_cluster_has_a_port_and_gzip_will_do(tmp_path: Path) -> None:
    path = tmp_path / "cluster.jsonl.gz"
    with Cluster(2) as cluster:
        cluster.create_topic("orders", 4)
        with wire("record", "--bootstrap-server", cluster.bootstrap_servers, "--output", path) as recorder:
            with Producer(bootstrap_servers=recorder.servers) as producer:
                for future in [producer.send("orders", b"tea", partition=number) for number in range(4)]:
                    future.result(LIMIT_S)
            recorder.end()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        produced = [line for line in map(json.loads, file) if (line["key"], line["dir"]) == (0, "request")]
    assert len({line["conn"] for line in produced}) == 2


def test_other_clients(tmp_path: Path) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    path = tmp_path / "confluent.jsonl"

    def send(servers: str) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 0})
        producer.produce("orders", b"tea", partition=0)
        assert producer.flush(60) == 0

    with Broker() as broker:
        broker.create_topic("orders")
        with wire("record", "--bootstrap-server", broker.bootstrap_servers, "--output", path) as recorder:
            send(recorder.servers)
            recorder.end()
    assert b"tea" in b"".join(frame.data for frame in read_transcript(path))
    with wire("play", path) as player:
        send(player.servers)
        player.end()
    assert player.printed == "departures 0\n"


def test_kcat_writes_and_reads(tmp_path: Path) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("not on this machine: kcat")
    path = tmp_path / "kcat.jsonl"

    def both(servers: str) -> bytes:
        at = ("-b", servers, "-t", "jewellery")
        subprocess.run(["kcat", "-P", *at, "-p", "0"], input=b"ring\n", check=True, timeout=LIMIT_S)
        read = ["kcat", "-C", *at, "-o", "beginning", "-e", "-q"]
        return subprocess.run(read, capture_output=True, check=True, timeout=LIMIT_S).stdout

    play(path, both, b"ring\n")


def test_a_group_reads_and_commits(tmp_path: Path) -> None:
    def both(servers: str) -> None:
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("jewellery", b"ring").result(LIMIT_S)
        configs = {"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"}
        read_in_group(configs, 1)

    play(tmp_path / "group.jsonl", both, None)


def play(path: Path, both: Callable[[str], object], outcome: object) -> None:
    """Have clients do the same at a broker and at its transcript."""
    with Broker() as broker:
        broker.create_topic("jewellery")
        with wire("record", "--bootstrap-server", broker.bootstrap_servers, "--output", path) as recorder:
            assert both(recorder.servers) == outcome
            assert recorder.end() == 0
    with wire("play", path) as player:
        assert both(player.servers) == outcome
        assert player.end(None) == 0, player.printed
    assert player.printed == "departures 0\n"


def read_in_group(configs: dict[str, Any], count: int) -> None:
    """Read and commit so many records."""
    records: list[object] = []
    with Consumer(configs) as consumer:
        consumer.subscribe(["jewellery"])
        until(lambda: records.extend(consumer.poll(1)) or len(records) >= count, "the records")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk: /dev/full is absent")
def test_a_transcript_that_cannot_be_written_ends_the_recorder() -> None:
    with (
        Broker() as broker,
        wire("record", "--bootstrap-server", broker.bootstrap_servers, "--output", "/dev/full") as recorder,
    ):
        with (
            pytest.raises(OdradekError),
            Admin(
                bootstrap_servers=recorder.servers, request_timeout_ms=1000, default_api_timeout_ms=1500
            ) as admin,
        ):
            admin.list_topics()
        assert recorder.end(None) == 1
    assert "No space left on device" in recorder.errors
    assert "Traceback" not in recorder.errors


SECRETS = ("grandmother", "jewellery", "billing", "my-client", "courier", "letmein", "hunter2")


def test_a_masked_transcript_tells_nothing(tmp_path: Path) -> None:
    paths = {mask: tmp_path / f"{mask or 'login'}.jsonl" for mask in ("all", "")}
    with Broker(security=Security(users={"courier": "letmein"})) as broker:
        configs = broker.client_configs("courier", "SCRAM-SHA-256")
        broker.create_topic("jewellery")
        for mask, path in paths.items():
            words = ("record", "--bootstrap-server", broker.bootstrap_servers, "--output", path)
            with wire(*words, *(["--mask", mask] if mask else [])) as recorder:
                told = {**configs, "bootstrap.servers": recorder.servers, "client.id": "my-client"}
                for codec in ("none", "gzip", "zstd"):
                    with Producer({**told, "compression.type": codec}) as producer:
                        producer.send(
                            "jewellery", b"hunter2", key=b"grandmother", headers=[("hunter2", b"x")]
                        )
                read_in_group({**told, "group.id": "billing", "auto.offset.reset": "earliest"}, 3)
                recorder.end()
                assert recorder.errors == ""
    for mask, path in paths.items():
        frames = list(read_transcript(path))
        text = b"\n".join(frame.data for frame in frames).decode("latin-1")
        known = [secret for secret in SECRETS if secret in text]
        assert known == ([] if mask else ["grandmother", "jewellery", "billing", "my-client", "hunter2"])
        assert not any(part in text for part in ("n,,n=", ",r=", ",p=", "v="))
        assert {frame.key for frame in frames} >= {0, 1, 11, 36}
    # It can be read, and has each name as one.
    assert "name-1" in b"".join(frame.data for frame in read_transcript(paths["all"])).decode("latin-1")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("record", "--bootstrap-server", "nowhere", "--output", "x"), "'nowhere' is not HOST:PORT"),
        (("record", "--bootstrap-server", "127.0.0.1:1", "--output", "{}"), "no broker can be reached"),
        (
            ("record", "--bootstrap-server", "127.0.0.1:1", "--output", "x", "--mask", "kees"),
            "'kees' is none of keys, values, names, credentials, all",
        ),
        (("play", __file__), "line 1: not a transcript"),
    ],
)
def test_what_cannot_be_is_one_line(
    run: RunTool, tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    result = run("wire", *(word.replace("{}", str(tmp_path / "out.jsonl")) for word in words))
    assert result.exit_code == 1
    assert reason in result.stderr
    assert "Traceback" not in result.stderr
