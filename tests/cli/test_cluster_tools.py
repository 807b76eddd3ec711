"""`delete-records`, `cluster`, `features`, `groups`, `e2e-latency`, `storage` and `server-stop`.

`tests/interop/test_tools_side_by_side.py` compares what they print with Kafka's tools on the same broker.
"""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from cli.conftest import RunTool
from odradek import Admin, NewTopic, Producer
from odradek.cli import server_stop
from odradek.log.storage.file_names import LOCK
from odradek.log.storage.real_files import RealFileSystem
from odradek.testing import Broker
from odradek.wire.primitives import uuid_from_text

# delete-records


@pytest.fixture
def topic(admin: Admin, producer: Producer, name: str) -> str:
    """Two partitions of five records."""
    admin.create_topics([NewTopic(name, num_partitions=2)])
    for i in range(10):
        producer.send(name, value=b"v", partition=i % 2)
    producer.flush()
    return name


def plan(folder: Path, *entries: object, version: int = 1) -> str:
    """Write a file for --offset-json-file."""
    path = folder / "plan.json"
    path.write_text(json.dumps({"partitions": entries, "version": version}), encoding="utf-8")
    return str(path)


def cut(topic: str, partition: int, offset: int) -> dict[str, object]:
    """An element of the file."""
    return {"topic": topic, "partition": partition, "offset": offset}


def test_records_are_deleted(tool: RunTool, admin: Admin, topic: str, tmp_path: Path) -> None:
    file = plan(tmp_path, cut(topic, 1, -1), cut(topic, 0, 2))
    printed = tool("delete-records", "--offset-json-file", file).stdout
    assert printed.splitlines()[1:] == [
        "Records delete operation completed:",
        f"partition: {topic}-0\tlow_watermark: 2",
        f"partition: {topic}-1\tlow_watermark: 5",
    ]
    begins = admin.list_offsets({(topic, 0): -2, (topic, 1): -2})
    assert [begin.offset for begin in begins.values()] == [2, 5]


def test_a_partition_that_cannot_be_cut_does_not_keep_the_others(
    tool: RunTool, topic: str, tmp_path: Path
) -> None:
    file = plan(tmp_path, cut(topic, 0, 99), cut(topic, 1, 1))
    refused = tool("delete-records", "--offset-json-file", file, status=1)
    assert f"partition: {topic}-0\terror: " in refused.stdout
    assert f"partition: {topic}-1\tlow_watermark: 1" in refused.stdout
    assert refused.stderr == "Error: 1 of 2 partitions keep their records\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not a valid JSON"),
        ("[]", "Missing partitions field"),
        ('{"partitions": [], "version": 2}', "Not supported version field value 2"),
        ('{"partitions": [{"topic": "t", "partition": "0", "offset": 1}]}', "does not name a topic"),
        (json.dumps({"partitions": [cut("t", 0, 1), cut("t", 0, 2)]}), "duplicate topic partitions: t-0"),
    ],
)
def test_a_plan_that_says_nothing_clear_is_refused(
    tool: RunTool, tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text, encoding="utf-8")
    refused = tool("delete-records", "--offset-json-file", str(file), status=1)
    assert complaint in refused.stderr
    assert refused.stdout == ""


# cluster


def test_cluster_id(run: RunTool, servers: str, admin: Admin) -> None:
    printed = run("cluster", "cluster-id", "-b", servers)
    assert printed.stdout == f"Cluster ID: {admin.describe_cluster().cluster_id}\n"


@pytest.mark.parametrize("words", [[], ["--include-fenced-brokers"]])
def test_endpoints(run: RunTool, servers: str, words: list[str]) -> None:
    host, _, port = servers.partition(":")
    lines = run("cluster", "list-endpoints", "--bootstrap-server", servers, *words).stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"],
        ["0", host, port, "null", "unfenced", "broker"],
    ]
    listed = run("cluster", "list-endpoints", "--bootstrap-server", servers, "--json", *words)
    assert json.loads(listed.stdout) == [
        {"id": 0, "host": host, "port": int(port), "rack": None, "fenced": False}
    ]


def test_a_broker_that_is_not_registered_for_good_is_not_unregistered(run: RunTool, servers: str) -> None:
    refused = run("cluster", "unregister", "--bootstrap-server", servers, "--id", "7")
    assert refused.exit_code == 1
    assert "does not support the broker unregistration API" in refused.stderr
    assert "odradek reassign-partitions" in refused.stderr


# features


def test_levels_of_features_go_down_and_up(run: RunTool) -> None:
    with Broker() as broker:
        features = ("features", "--bootstrap-server", broker.bootstrap_servers)

        def level() -> int:
            (feature,) = json.loads(run(*features, "describe", "--json").stdout)
            return int(feature["finalizedVersionLevel"])

        described = run(*features, "describe").stdout
        assert re.fullmatch(
            r"Feature: transaction\.version {23}SupportedMinVersion: 0 {16}SupportedMaxVersion: 2 {16}"
            r"FinalizedVersionLevel: 2 {16}Epoch: \d+\n",
            described,
        )
        one = "transaction.version=1"
        dry = run(*features, "downgrade", "--feature", one, "--dry-run")
        assert (dry.stdout, level()) == ("transaction.version can be downgraded to 1.\n", 2)
        lower = run(*features, "downgrade", "--feature", one)
        assert (lower.stdout, level()) == ("transaction.version was downgraded to 1.\n", 1)
        off = run(*features, "disable", "--feature", "transaction.version")
        assert (off.stdout, level()) == ("transaction.version was disabled.\n", 0)
        higher = run(*features, "upgrade", "--feature", one)
        assert (higher.stdout, level()) == ("transaction.version was upgraded to 1.\n", 1)


@pytest.mark.parametrize(
    ("words", "out", "complaint"),
    [
        (
            ["upgrade", "--feature", "transaction.version=9"],
            "Could not upgrade transaction.version to 9. The update failed for all features since",
            "1 out of 1 operation(s) failed.",
        ),
        (["upgrade"], "", "You must specify at least one feature to upgrade"),
        (["upgrade", "--feature", "x"], "", "equals sign not found"),
        (["upgrade", "--feature", "x=99999"], "", "unable to parse 99999 as a short"),
        (["disable", "--feature", "x", "--feature", "x"], "", "Feature x was specified more than once."),
        (["upgrade", "--metadata", "1.0"], " `metadata` flag", "Unknown metadata.version 1.0"),
    ],
)
def test_levels_that_cannot_be_had(tool: RunTool, words: list[str], out: str, complaint: str) -> None:
    refused = tool("features", *words, status=1)
    assert refused.stdout.startswith(out)
    assert complaint in refused.stderr


# groups


def test_groups_of_all_types(tool: RunTool, admin: Admin, topic: str) -> None:
    group = f"group-of-{topic}"
    admin.alter_group_offsets(group, {(topic, 0): 1})
    for words in ([], ["--consumer"], ["--group-type", "classic"], ["--protocol", ""]):
        head, *rows = tool("groups", "--list", *words).stdout.splitlines()
        assert head.split() == ["GROUP", "TYPE", "PROTOCOL"]
        assert [group, "Classic"] in [row.split() for row in rows], words
    for words in (["--share"], ["--streams"], ["--group-type", "consumer"], ["--protocol", "connect"]):
        assert len(tool("groups", "--list", *words).stdout.splitlines()) == 1, words
    listed = json.loads(tool("groups", "--list", "--json").stdout)
    assert {"group": group, "type": "classic", "protocol": "", "state": "Empty"} in listed


@pytest.mark.parametrize(
    "words", [[], ["--list", "--share", "--streams"], ["--list", "--share", "--protocol", "x"]]
)
def test_groups_refuses(tool: RunTool, words: list[str]) -> None:
    assert tool("groups", *words, status=1).stdout == ""


# e2e-latency


def test_latencies(tool: RunTool, run: RunTool, servers: str, name: str) -> None:
    made = (
        f'Topic "{name}" does not exist. Will create topic with 1 partition(s) and replication factor = 1\n'
    )
    measured = r"0\t[\d.]+\nAvg latency: [\d.]+ ms\nPercentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+\n"
    words = ["--topic", name, "--num-records", "3", "--producer-acks", "all", "--record-size", "10"]
    words += ["--record-key-size", "4", "--num-headers", "2", "--record-header-size", "3"]
    assert re.fullmatch(re.escape(made) + measured, tool("e2e-latency", *words).stdout)
    assert re.fullmatch(measured, run("e2e-latency", servers, name, "2", "1", "10").stdout)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--topic", "t"], "missing: --bootstrap-server, --num-records, --producer-acks, --record-size"),
        (["localhost:1", "t", "1", "0", "10"], "Please use 1 or all"),
        (["localhost:1", "t", "x", "1", "10"], "RECORDS x: expected a number"),
        (["localhost:1", "t"], "expected BROKERS TOPIC RECORDS ACKS BYTES"),
    ],
)
def test_words_that_measure_nothing(run: RunTool, words: list[str], complaint: str) -> None:
    refused = run("e2e-latency", *words)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert complaint in refused.stderr


# storage


def properties(folder: Path, *lines: str) -> str:
    """Write a server.properties."""
    path = folder / "server.properties"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_random_uuid(run: RunTool) -> None:
    first, second = (run("storage", "random-uuid").stdout.strip() for _ in range(2))
    assert first != second
    assert len(uuid_from_text(first)) == len(uuid_from_text(second)) == 16


def test_a_broker_takes_the_id_of_formatted_folders(run: RunTool, tmp_path: Path) -> None:
    cluster_id = run("storage", "random-uuid").stdout.strip()
    folder = tmp_path / "data"
    config = properties(tmp_path, "broker.id=0", f"log.dirs={folder}")
    missing = run("storage", "info", "-c", config)
    assert (missing.exit_code, missing.stdout) == (1, f"Found problem:\n  {folder} does not exist\n\n")
    words = ("storage", "format", "-c", config, "-t", cluster_id)
    assert run(*words).stdout == f"Formatting {folder}.\n"
    refused = run(*words)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"{folder} is already formatted. Use --ignore-formatted" in refused.stderr
    assert run(*words, "-g").stdout == "All of the log directories are already formatted.\n"
    with Broker(data=folder) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.describe_cluster().cluster_id == cluster_id
    found = run("storage", "info", "--config", config)
    assert found.exit_code == 0
    metadata = f"Found metadata: {{broker.id=0, cluster.id={cluster_id}, version=0}}"
    assert found.stdout == f"Found log directory:\n  {folder}\n\n{metadata}\n\n"


def test_folders_of_two_clusters(run: RunTool, tmp_path: Path) -> None:
    for name, cluster in (("a", "one"), ("b", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(
            f"version=0\nbroker.id=1\ncluster.id={cluster}\n", encoding="latin-1"
        )
    config = properties(tmp_path, f"log.dirs={tmp_path / 'b'}, {tmp_path / 'a'}")
    found = json.loads(run("storage", "info", "-c", config, "--json").stdout)
    assert found == {
        "directories": [str(tmp_path / "a"), str(tmp_path / "b")],
        "metadata": {"version": "0", "broker.id": "1", "cluster.id": "one"},
        "problems": ["Mismatched cluster IDs between storage directories."],
    }


@pytest.mark.parametrize(
    ("lines", "cluster_id", "complaint"),
    [
        (["process.roles=broker", "node.id=1"], "AAAAAAAAAAAAAAAAAAAAAQ", "KRaft mode"),
        ([], "AAAAAAAAAAAAAAAAAAAAAQ", "set broker.id"),
        (["broker.id=1"], "short", "does not appear to be a valid UUID"),
    ],
)
def test_folders_that_are_not_formatted(
    run: RunTool, tmp_path: Path, lines: list[str], cluster_id: str, complaint: str
) -> None:
    config = properties(tmp_path, *lines, f"log.dirs={tmp_path / 'data'}")
    refused = run("storage", "format", "-c", config, "-t", cluster_id)
    assert refused.exit_code == 1
    assert complaint in refused.stderr
    assert not (tmp_path / "data").exists()


# server-stop


def test_the_user_of_a_data_folder_is_stopped(
    run: RunTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(server_stop.os, "kill", lambda pid, number: signals.append((pid, number)))
    words = ("server-stop", "--data", str(tmp_path))
    idle = run(*words)
    assert (idle.exit_code, idle.stderr) == (1, "Error: No kafka server to stop\n")
    lock = RealFileSystem().lock(tmp_path / LOCK)
    try:
        (tmp_path / LOCK).write_text(f"{os.getpid()}\n", encoding="ascii")
        assert run(*words).exit_code == 0
    finally:
        lock.release()
    assert signals == [(os.getpid(), signal.SIGTERM)]


def test_servers_among_processes() -> None:
    processes = [
        "  11 /usr/bin/python3 /venv/bin/odradek server --data d",
        "12 python -m odradek server --workers 2 --port 0",
        "13 python -m odradek server --worker 0",
        "14 vim odradek server",
        "15 /venv/bin/odradek topics --list",
        "16 grep it's odradek server",
        "17 odradek server server.properties",
        "18 odradek server",
        "19 /usr/bin/python3.12 -P -m odradek server server.properties",
        "20 python -c import odradek server",
    ]
    assert list(server_stop.server_processes(processes, own_pid=18)) == [11, 12, 17, 19]


# server, by Kafka's words


def test_the_server_takes_one_file(run: RunTool, tmp_path: Path) -> None:
    config = properties(tmp_path, "broker.id=0")
    refused = run("server", config, "--config", config)
    assert "FILE and --config name the same thing" in refused.stderr
