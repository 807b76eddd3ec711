"""`get-offsets`, `broker-api-versions`, the performance tools and `doctor` against a broker."""

from __future__ import annotations

import json
import re
import resource
import shlex
import subprocess
import sys
import sysconfig
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import RunTool
from odradek import Admin, NewTopic, Producer
from odradek.cli import doctor, producer_perf_test
from odradek.cli.broker_api_versions import version_line
from odradek.cli.consumer_perf_test import HEADER, stamp
from odradek.cli.producer_perf_test import MOST_LATENCIES, Latencies, Run
from odradek.util.extras import EXTRAS, install, requirements
from odradek.wire.api import ApiKey

BEGAN_MS = int(time.time() * 1000) - 3_600_000

# Offsets


@pytest.fixture
def topic(admin: Admin, producer: Producer, name: str) -> str:
    """Two partitions: 3 records, a second apart, and none."""
    admin.create_topics([NewTopic(name, num_partitions=2)])
    for i in range(3):
        producer.send(name, value=b"v", partition=0, timestamp_ms=BEGAN_MS + i * 1000)
    producer.flush()
    return name


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "T:0:3 T:1:0"),
        (["--time", "-1"], "T:0:3 T:1:0"),
        (["--time", "latest"], "T:0:3 T:1:0"),
        (["--time", "-2"], "T:0:0 T:1:0"),
        (["--time", "earliest"], "T:0:0 T:1:0"),
        (["--time", "max-timestamp"], "T:0:2"),
        (["--time", str(BEGAN_MS + 500)], "T:0:1"),
        (["--time", str(BEGAN_MS + 5000)], ""),
        (["--partitions", "1"], "T:1:0"),
        (["--partitions", "0,1,7"], "T:0:3 T:1:0"),
    ],
)
def test_offsets(tool: RunTool, topic: str, words: list[str], expected: str) -> None:
    found = tool("get-offsets", "--topic", topic, *words)
    assert found.stdout == "".join(line.replace("T", topic) + "\n" for line in expected.split())
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("T", "T:0:3 T:1:0"),
        ("T:0", "T:0:3"),
        ("T:0-1", "T:0:3"),
        ("T:1-", "T:1:0"),
        ("T:-1", "T:0:3"),
        ("T:0,T:1", "T:0:3 T:1:0"),
        ("T:", "T:0:3 T:1:0"),
    ],
)
def test_offsets_of_partition_ranges(tool: RunTool, topic: str, spec: str, expected: str) -> None:
    found = tool("get-offsets", "--topic-partitions", spec.replace("T", topic))
    assert found.stdout.split() == [line.replace("T", topic) for line in expected.split()]


def test_offsets_without_a_name(tool: RunTool, topic: str) -> None:
    everything = tool("get-offsets", "--exclude-internal-topics", "--time", "earliest").stdout
    assert f"{topic}:0:0\n{topic}:1:0\n" in everything
    assert "__consumer_offsets" not in everything


def test_old_flags_of_get_offsets(tool: RunTool, run: RunTool, servers: str, topic: str) -> None:
    words = ("--broker-list", servers, "--topic", topic, "--max-wait-ms", "1000", "--offsets", "1")
    found = run("get-offsets", *words)
    assert found.stdout == f"{topic}:0:3\n{topic}:1:0\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--topic", "absent"], "Could not match any topic-partitions with the specified filters"),
        (["--topic", "T", "--partitions", "9"], "Could not match any topic-partitions"),
        (["--topic", "T", "--time", "x"], "Malformed time argument x. Please use -1 or latest"),
        (["--topic", "T", "--time", "-9"], "Malformed time argument -9"),
        (["--topic", "T", "--partitions", "1,x"], "but received: 1,x"),
        (["--topic", "T", "--topic-partitions", "T"], "cannot be used with --topic or --partitions"),
        (["--topic-partitions", "T:x"], "is not TOPIC:FROM-TO"),
        (["--topic", "a("], "is not a regular expression"),
    ],
)
def test_get_offsets_refuses(tool: RunTool, topic: str, words: list[str], complaint: str) -> None:
    refused = tool("get-offsets", *(word.replace("T", topic) for word in words), status=1)
    assert complaint in refused.stderr
    assert refused.stdout == ""


# API versions


def test_api_versions(tool: RunTool, servers: str, admin: Admin) -> None:
    lines = tool("broker-api-versions").stdout.splitlines()
    assert lines[0] == f"{servers} (id: 0 rack: null isFenced: false) -> ("
    assert lines[-1] == ")"
    served = [line for line in lines[1:-1] if "UNSUPPORTED" not in line]
    assert len(served) == len(admin.api_versions())
    assert all(re.fullmatch(r"\t\w+\(\d+\): \d+( to \d+)? \[usable: \d+\],?", line) for line in served)
    assert not lines[-2].endswith(",")


def test_lines_of_versions() -> None:
    assert version_line(1, (4, 18), ApiKey.FETCH) == "Fetch(1): 4 to 18 [usable: 18]"
    assert version_line(42, (0, 0), ApiKey.DELETE_GROUPS) == "DeleteGroups(42): 0 [usable: 0]"
    assert version_line(1, None, ApiKey.FETCH) == "Fetch(1): UNSUPPORTED"
    assert version_line(1, (90, 91), ApiKey.FETCH) == "Fetch(1): 90 to 91 [unusable: node too new]"
    assert version_line(999, (0, 3), None) == "UNKNOWN(999): 0 to 3"


# Performance

SENT = re.compile(
    r"(\d+) records sent( \(steady state\))?, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
    r"[\d.]+ ms max latency(, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99.9th)?\."
)


def test_producing_and_consuming_are_measured(tool: RunTool, servers: str, name: str) -> None:
    done = tool("producer-perf-test", "--topic", name, "--num-records", "500", "--record-size", "100",
                "--throughput", "-1", "--warmup-records", "100", "--print-metrics", "--producer-props",
                "linger.ms=5", "acks=1", "enable.idempotence=false")  # fmt: skip
    total, steady, *metrics = done.stdout.splitlines()
    for line, count in ((total, "500"), (steady, "400")):
        match = SENT.fullmatch(line)
        assert match is not None and match[1] == count
    assert any(line.startswith("producer-metrics:record-send-total:{client-id=") for line in metrics)
    assert done.stderr == ""
    for more in ([], ["--arrow"]):
        read = tool("consumer-perf-test", "--topic", name, "--num-records", "500", *more)
        header, figures = read.stdout.splitlines()
        assert header == HEADER
        cells = figures.split(", ")
        assert len(cells) == len(header.split(", "))
        assert (cells[2], cells[4]) == (f"{500 * 100 / 2**20:.4f}", "500")


def test_servers_among_the_properties(run: RunTool, servers: str, name: str) -> None:
    words = ("--topic", name, "--num-records", "2", "--record-size", "1", "--throughput", "-1")
    done = run(
        "producer-perf-test", *words, "--producer-props", "linger.ms=1", f"bootstrap.servers={servers}"
    )
    assert done.exit_code == 0, done.output


def test_payloads(tool: RunTool, name: str, tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_text("a|b|", encoding="utf-8")
    words = ("--num-records", "20", "--throughput", "-1")
    tool(
        "producer-perf-test", "--topic", name, *words, "--payload-file", str(file), "--payload-delimiter", "|"
    )
    read = ("console-consumer", "--topic", name, "--from-beginning", "--max-messages")
    assert set(tool(*read, "20").stdout.split()) == {"a", "b"}
    tool("producer-perf-test", "--topic", f"{name}-m", *words, "--payload-monotonic")
    numbers = tool("console-consumer", "--topic", f"{name}-m", "--from-beginning", "--max-messages", "20")
    assert numbers.stdout.split() == [str(i) for i in range(20)]
    file.write_text("|", encoding="utf-8")
    refused = ("producer-perf-test", "--topic", name, *words, "--payload-file", str(file))
    assert "holds no payload" in tool(*refused, "--payload-delimiter", "|", status=1).stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--num-records", "1", "--throughput", "-1"], "exactly one of --record-size"),
        (["--num-records", "1", "--throughput", "-1", "--record-size", "0"], "0"),
        (["--num-records", "x", "--throughput", "-1", "--record-size", "1"], "not a valid integer"),
        (["--num-records", "1", "--throughput", "fast", "--record-size", "1"], "not a valid float"),
        (["--num-records", "1", "--record-size", "1"], "--throughput"),
        (["--num-records", "1", "--throughput", "-1", "--record-size", "1", "nonsense"], "not key=value"),
        (
            ["--num-records", "5", "--throughput", "-1", "--record-size", "1", "--warmup-records", "5"],
            "must be fewer than --num-records",
        ),
        (
            ["--num-records", "1", "--throughput", "-1", "--record-size", "2000000"],
            "max.request.size",
        ),
    ],
)
def test_producer_perf_test_refuses(tool: RunTool, name: str, words: list[str], complaint: str) -> None:
    refused = tool("producer-perf-test", "--topic", name, *words, status=1)
    assert complaint.lower() in refused.stderr.lower().replace("_", ".")


@pytest.mark.parametrize(
    "words",
    [
        ["--transactional-id", "NAME"],
        ["--transaction-duration-ms", "1"],
        ["--command-property", "transactional.id=NAME", "--transaction-duration-ms", "60000"],
    ],
)
def test_producer_perf_test_in_transactions(tool: RunTool, admin: Admin, name: str, words: list[str]) -> None:
    admin.create_topics([NewTopic(name, num_partitions=1)])
    words = [word.replace("NAME", name) for word in words]
    before = {one.transactional_id for one in admin.list_transactions()[0]}
    done = tool("producer-perf-test", "--topic", name, "--num-records", "50", "--record-size", "10",
                "--throughput", "1000", *words)  # fmt: skip
    assert done.stdout.startswith("50 records sent, ")
    new = {one.transactional_id for one in admin.list_transactions()[0]} - before
    assert new == {name} or (len(new) == 1 and new.pop().startswith("performance-producer-"))
    stable = admin.list_offsets({(name, 0): -1}, isolation_level="read_committed")
    (end,) = (found.offset for found in stable.values())
    # A marker at the end of each transaction: there is one, or, with short ones, any number.
    assert (end > 50) if words[1] == "1" else (end == 51)
    (state,) = admin.describe_producers([(name, 0)]).popitem()[1]
    assert state.transaction_start_offset is None


def test_transactions_last_as_long_as_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record takes a millisecond; a transaction ends with the record that is sent 3 ms after its start."""
    now_ms = 0
    said: list[str] = []

    class Clock:
        def perf_counter(self) -> float:
            return now_ms / 1000

    class Sink:
        def send(self, topic: str, *, value: bytes, on_delivery: object) -> None:
            nonlocal now_ms
            now_ms += 1
            said.append(value.decode())

        def begin_transaction(self) -> None:
            said.append("begin")

        def commit_transaction(self) -> None:
            said.append("commit")

        def flush(self) -> None:
            said.append("flush")

    monkeypatch.setattr(producer_perf_test, "time", Clock())
    run = Run("t", 6, 0, -1, 5000, transaction_ms=3)
    run.send(Sink(), (b"%d" % i for i in range(6)))  # type: ignore[arg-type]
    assert " ".join(said) == "begin 0 1 2 3 commit begin 4 5 commit flush"
    said.clear()
    now_ms = 0
    Run("t", 4, 0, -1, 5000, transaction_ms=3).send(Sink(), iter([b"v"] * 4))  # type: ignore[arg-type]
    assert " ".join(said) == "begin v v v v commit flush"
    said.clear()
    Run("t", 2, 0, -1, 5000).send(Sink(), iter([b"v"] * 2))  # type: ignore[arg-type]
    assert " ".join(said) == "v v flush"


def test_producer_perf_test_needs_servers(run: RunTool) -> None:
    words = ("--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1")
    refused = run("producer-perf-test", *words)
    assert refused.exit_code == 1
    assert "give --bootstrap-server" in refused.stderr


def test_consumer_perf_test_gives_up_and_reports(tool: RunTool, name: str) -> None:
    tool("console-producer", "--topic", name, stdin=b"v\n" * 5)
    words = ("--topic", name, "--timeout", "3000", "--hide-header", "--print-metrics")
    done = tool("consumer-perf-test", *words, "--messages", "9", "--threads", "4")
    assert "WARNING: --threads has no effect" in done.stderr
    assert (
        "WARNING: Exiting before consuming the expected number of records: timeout (3000 ms)" in done.stderr
    )
    assert done.stdout.splitlines()[0].split(", ")[4] == "5"
    detailed = tool("consumer-perf-test", "--topic", name, "--num-records", "5", "--show-detailed-stats",
                    "--reporting-interval", "1", "--date-format", "yyyy'T'HH")  # fmt: skip
    lines = detailed.stdout.splitlines()
    assert lines[0].startswith("time, threadId, ")
    assert re.fullmatch(r"\d{4}T\d\d, 0, 0\.0000, .*", lines[1])


def test_consumer_perf_test_refuses(tool: RunTool) -> None:
    refused = tool("consumer-perf-test", "--num-records", "1", status=1)
    assert "Exactly one of --include/--topic is required." in refused.stderr
    assert "Missing option" in tool("consumer-perf-test", "--topic", "t", status=1).stderr


def test_latencies_are_bounded_and_right() -> None:
    some = Latencies(100)
    for i in range(1, 101):
        some.record(float(i), 10, None)
    some.record(5.0, 10, ValueError("lost"))
    assert some.window(2.0) == (
        "100 records sent, 50.0 records/sec (0.00 MB/sec), 50.5 ms avg latency, 100.0 ms max latency."
    )
    assert some.window(1.0).startswith("0 records sent, 0.0 records/sec")
    assert some.total(10.0) == (
        "100 records sent, 10.000000 records/sec (0.00 MB/sec), 50.50 ms avg latency, 100.00 ms max latency, "
        "51 ms 50th, 96 ms 95th, 100 ms 99th, 100 ms 99.9th."
    )
    assert (some.failures, str(some.first_error)) == (1, "lost")
    many = Latencies(10 * MOST_LATENCIES)
    for i in range(110):
        many.record(float(i), 1, None)
    assert len(many.kept_ms) == 10
    assert Latencies(0).total(1.0).startswith("0 records sent")


def test_stamps() -> None:
    moment = time.mktime((2026, 1, 31, 23, 59, 7, 0, 0, -1)) + 0.25
    assert stamp(moment, "yyyy-MM-dd HH:mm:ss:SSS") == "2026-01-31 23:59:07:250"
    assert stamp(moment, "yy'o''clock'") == "26oclock"


# Doctor


def test_doctor(run: RunTool) -> None:
    told = run("doctor")
    assert told.exit_code in (0, 1)
    assert "odradek" in told.stdout
    assert "\x1b" not in told.stdout
    findings = [json.loads(line) for line in run("doctor", "--json").stdout.splitlines()]
    assert {"subject", "well", "what", "remedy"} == set(findings[0])
    by_subject = {f["subject"]: f for f in findings}
    assert {"odradek", "uvloop", "fastcrc", "cramjam", "pyarrow", "compression", "open files"} <= set(
        by_subject
    )
    assert {
        f"kernel {part}" for part in ("records._kernel", "broker.network._sending", "client.core._client")
    } <= set(by_subject)
    assert all(f["remedy"] for f in findings if not f["well"])
    assert told.exit_code == (0 if all(f["well"] for f in findings) else 1)


def test_doctor_on_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "compiled_parts", lambda: ["_absent", "records._kernel"])
    absent, _ = doctor.kernel()
    assert not absent.well
    assert absent.state.startswith("not compiled: ")
    assert "C compiler" in absent.remedy
    monkeypatch.setattr(doctor, "compiled_parts", lambda: ["util"])
    (python,) = doctor.kernel()  # what can be imported and is no compiled module
    assert not python.well


def test_doctor_on_a_kernel_of_older_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be imported, and is not: its twin serves."""
    pytest.importorskip("odradek.records._kernel", reason="the kernel is not compiled")
    monkeypatch.delenv("ODRADEK_KERNEL", raising=False)
    monkeypatch.setattr(doctor, "compiled_parts", lambda: ["records._kernel"])
    monkeypatch.setattr("odradek.util.stale.is_stale", lambda name: name == "records/_kernel.pyx")
    (found,) = doctor.kernel()
    assert not found.well
    assert found.state.startswith("changed since it was compiled: ")
    assert found.remedy


def test_doctor_on_codecs(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = doctor.codecs()
    assert found == ("compression", True, "gzip, snappy, lz4, zstd", "")
    monkeypatch.setattr("odradek.records.compression.compress", lambda codec, data: b"broken")
    (found,) = doctor.codecs()
    assert not found.well
    assert "zstd" in found.state and found.remedy


@pytest.mark.parametrize(
    ("limits", "well", "remedy"),
    [
        ((1024, 1_048_576), True, ""),
        ((1024, resource.RLIM_INFINITY), True, ""),
        ((1024, 4096), False, "have the system's hard limit, 4096, raised to 8192"),
        ((8192, 8192), True, ""),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), True, ""),
    ],
)
def test_doctor_on_open_files(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], well: bool, remedy: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits)
    (found,) = doctor.limits()
    assert found.well == well
    assert found.remedy.startswith(remedy) and bool(found.remedy) == bool(remedy)


def test_doctor_on_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is optional may be absent; what is needed may not, nor be too old."""
    there = {"uvloop": "0.21", "fastcrc": "0.3.1", "cramjam": "2.8.9"}
    there |= {"lz4": "4.4.5", "zlib_ng": "1.1.0", "zstandard": "0.25.0", "mypy_extensions": "1.1.0"}

    def version(name: str) -> str:
        if name not in there:
            raise PackageNotFoundError(name)
        return there[name]

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("sys.executable", "/the venv/bin/python")
    found = {one.subject: one for one in doctor.packages()}
    assert [name for name, one in found.items() if not one.well] == ["cramjam"]
    assert found["cramjam"].state == "2.8.9 is too old: 2.9 or newer is needed"
    pip = "'/the venv/bin/python' -m pip install "
    assert found["cramjam"].remedy == f"{pip}'cramjam>=2.9'"
    assert found["pyarrow"].state.startswith("absent, and optional")
    assert found["pyarrow"].remedy == f"{pip}'pyarrow>=18'"
    assert found["pyspark"].remedy.startswith(f"{pip}'pyspark[")
    assert "odradek" not in found["pyspark"].remedy  # it is in no registry
    assert found["cryptography"].remedy == f"{pip}'cryptography>=43'"
    assert found["kazoo"].remedy == f"{pip}'kazoo>=2.10' 'pure-sasl>=0.6.2'"
    del there["fastcrc"]
    (absent,) = [one for one in doctor.packages() if one.subject == "fastcrc"]
    assert (absent.well, absent.remedy) == (False, f"{pip}'fastcrc>=0.3'")
    assert "does not start" in absent.state


def test_doctor_recommends_only_what_is_imported() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8") for path in Path(doctor.__file__).parents[1].rglob("*.py")
    )
    modules = {
        "grpcio-tools": "grpc_tools",
        "opentelemetry-api": "opentelemetry",
        "protobuf": "google.protobuf",
        "pyjwt": "jwt",
    }
    for name in (*doctor.NEEDED, *(extra.package for extra in EXTRAS.values())):
        module = modules.get(name, name.replace("-", "_"))
        assert re.search(rf"^\s*(import|from) {module}\b", sources, re.MULTILINE), name


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ({"dir_info": {"editable": True}, "url": "file:///a%20b/odradek"}, ["-e", "/a b/odradek"]),
        ({"dir_info": {}, "url": "file:///src/odradek"}, ["/src/odradek"]),
    ],
)
def test_doctor_builds_again_from_where_it_came(
    monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any], words: list[str]
) -> None:
    class Installed:
        def read_text(self, name: str) -> str:
            return json.dumps(origin)

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed())
    assert doctor.source() == words
    assert shlex.join(words) in doctor.compile_remedy()


def test_doctor_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", absent)
    monkeypatch.setattr("importlib.metadata.requires", absent)
    assert doctor.source() == ["-e", str(Path(doctor.__file__).parents[3])]
    assert requirements(None) == requirements("spark") == []
    assert install("tls").endswith(" -m pip install cryptography")


BASE = ("odradek", "uvloop", "fastcrc", "cramjam", "lz4", "zlib_ng", "zstandard", "mypy_extensions", "click")


def test_doctor_is_content_with_a_complete_base_install(tmp_path: Path) -> None:
    """Without pyarrow, PySpark and Java there is nothing to complain about."""
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name.split("-")[0].split(".")[0] in BASE:
            (tmp_path / path.name).symlink_to(path)
    folders = [str(tmp_path), str(Path(doctor.__file__).parents[2])]
    code = f"import sys; sys.path[:0] = {folders!r}; from odradek.cli.doctor import command; command()"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", code],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    missing = [line for line in done.stdout.splitlines() if line.startswith("-- ")]
    # What is compiled may be left out on purpose, and the machine's limit of open files be what it is.
    on_purpose = ("kernel", "what requests pass", "open files")
    missing = [line for line in missing if not any(one in line for one in on_purpose)]
    assert missing == [], done.stderr
    assert "pyspark" in done.stdout
    assert "absent, and optional: the Spark pipeline" in done.stdout
    assert "absent, and optional: poll_arrow" in done.stdout
    complaints = "-- " in done.stdout
    assert done.returncode == int(complaints)
