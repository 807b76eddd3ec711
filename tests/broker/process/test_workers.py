"""Several brokers of one machine as processes: what each is given, signals, and the death of the one who runs
them; with stand-ins that hold a session with the shared store."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from odradek.broker.process.options import read_config
from odradek.broker.process.workers import (
    SharedStore,
    WorkerOptions,
    check_single,
    check_workers,
    warn_of_others,
    worker_command,
    worker_settings,
)
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.store.remote_store import RemoteStore
from waiting import WITHIN_S

STORE = Path("/run/store.sock")


def options(settings: Mapping[str, str], file: Path | None = None, port: int | None = None) -> WorkerOptions:
    return WorkerOptions(read_config(file, {"log.dirs": "/d", **settings}, port=port), file, settings)


# ---------------------------------------------------------------------- what each is given


def test_each_has_its_own_id_port_and_folder() -> None:
    assert worker_settings(options({}), 2, STORE) == {
        "broker.id": "2",
        "broker.rack": socket.gethostname(),
        "controlled.shutdown.max.retries": "30",
        "controlled.shutdown.retry.backoff.ms": "500",
        "default.replication.factor": "1",
        "leader.imbalance.check.interval.seconds": "10",
        "listeners": "PLAINTEXT://127.0.0.1:9094",
        "log.dirs": "/d/workers/2",
        "odradek.store.socket": str(STORE),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
    }


def test_what_is_given_is_kept_and_counted_from(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "node.id=5\nbroker.id=5\nlisteners=PLAINTEXT://:9000,B://:9500\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://one:19000,B://two:19500\nlog.dirs=/a,/b\n"
        "default.replication.factor=3\nbroker.rack=r\n",
        encoding="utf-8",
    )
    settings = {"offsets.topic.replication.factor": "2"}
    given = WorkerOptions(read_config(file, settings), file, settings)
    own = worker_settings(given, 1, STORE)
    assert own["broker.id"] == own["node.id"] == "6"
    assert own["listeners"] == "PLAINTEXT://:9001,B://:9501"
    assert own["advertised.listeners"] == "PLAINTEXT://one:19001,B://two:19501"
    assert own["log.dirs"] == "/a/workers/1,/b/workers/1"
    assert own["offsets.topic.replication.factor"] == "2"
    assert "default.replication.factor" not in own, "the file says it"
    assert "broker.rack" not in own
    of_worker = read_config(file, own)
    assert of_worker.default_replication_factor == 3
    assert [one.port for one in of_worker.listener_endpoints] == [9001, 9501]


def test_the_command_has_the_file_and_the_options_and_says_nothing_of_the_files_secrets(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("ssl.key.password=secret\n", encoding="utf-8")
    given = options({}, file)._replace(arguments=("--log-level", "debug"), request_log=Path("/r"))
    line = worker_command(given, 1, STORE)(None)
    assert line[:4] == [sys.executable, "-P", "-m", "odradek"]
    assert line[4:9] == ["server", "--worker", "1", "--log-level", "debug"]
    assert ["--config", str(file), "--request-log", "/r.1"] == list(line[9:13])
    assert "secret" not in " ".join(line)


def test_a_free_port_is_kept_by_the_next_process_of_the_worker() -> None:
    given = options({}, port=0)
    assert worker_settings(given, 1, STORE)["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert worker_settings(given, 1, STORE, "127.0.0.1:5678")["listeners"] == "PLAINTEXT://127.0.0.1:5678"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"listeners": "PLAINTEXT://:65533"}, "65535"),
        ({"broker.id": "-1"}, "broker.id"),
        ({"zookeeper.connect": "h:2181"}, "zookeeper.connect: workers have a metadata store of their own"),
        ({"odradek.store.socket": "/s"}, "odradek.store.socket: workers have"),
        (
            {
                "listeners": "PLAINTEXT://:9000,B://:9002",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
            },
            "4 apart",
        ),
    ],
)
def test_what_does_not_suffice_for_all_is_refused(settings: Mapping[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_workers(options(settings).config, 4)
    check_workers(options({}).config, 4)


def test_a_single_brokers_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="a broker that is alone"):
        check_workers(options({"log.dirs": str(tmp_path)}).config, 2)


def test_the_workers_folder_is_no_single_brokers(tmp_path: Path) -> None:
    given = options({"log.dirs": str(tmp_path)}).config
    check_single(given)
    SharedStore(tmp_path).close()
    with pytest.raises(ConfigError, match="Give --workers as before"):
        check_single(given)


def test_workers_of_before_that_are_missing_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("odradek"), "propagate", True)
    for name in ("0", "1", "2", "x"):
        (tmp_path / "workers" / name).mkdir(parents=True)
        (tmp_path / "workers" / name / "meta.properties").touch()
    given = options({"log.dirs": str(tmp_path)}).config
    warn_of_others(given, 3)
    assert caplog.messages == []
    warn_of_others(given, 1)
    assert caplog.messages == ["workers of before are not started numbers=1,2"]


def test_a_socket_whose_path_would_be_too_long_is_elsewhere(tmp_path: Path) -> None:
    store = SharedStore(tmp_path / ("x" * 100))
    RemoteStore(store.path).close()
    folder = store.path.parent
    assert not folder.is_relative_to(tmp_path)
    store.close()
    assert not folder.exists()


# ---------------------------------------------------------------------- processes

STAND_IN = """
import os, signal, sys, threading
from odradek.broker.process import lifeline
from odradek.cluster.store.remote_store import RemoteStore
number, path, control = sys.argv[1:]
stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())
lifeline.hold()
store = RemoteStore(path)
said = os.open(control, os.O_WRONLY)
os.write(said, f"started {number} {os.getpid()}\\n".encode())
print(f"ready h:{number}", flush=True)
stopped.wait()
os.write(said, f"stopped {number}\\n".encode())
store.close()
"""

RUNS = """
import sys
from pathlib import Path
from odradek.broker.process.options import read_config
from odradek.broker.process.workers import WorkerOptions, run_workers
script, data, control = sys.argv[1:]
def command(options, number, store):
    return lambda address: [sys.executable, "-c", script, str(number), str(store), control]
options = WorkerOptions(read_config(None, {"log.dirs": data}))
sys.exit(run_workers(options, 2, on_ready=lambda all: print("ready", all, flush=True), command=command))
"""


class Running:
    """Two stand-ins and the process that runs them."""

    def __init__(self, folder: Path) -> None:
        control = folder / "control"
        os.mkfifo(control)
        # Open for both, so that it neither waits for a writer nor ends with one.
        self.said = control.open("r+b", buffering=0)
        command = [sys.executable, "-c", RUNS, STAND_IN, str(folder / "data"), str(control)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def hear(self, count: int) -> list[str]:
        return sorted(self.said.readline().decode().strip() for _ in range(count))

    def started(self) -> dict[str, int]:
        found = [line.split() for line in self.hear(2)]
        assert [word for word, _, _ in found] == ["started", "started"]
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready h:0,h:1\n"
        return {number: int(pid) for _, number, pid in found}


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    one = Running(folder)
    with closing(one.said):
        try:
            yield one
        finally:
            if one.process.poll() is None:
                one.process.kill()
            one.process.communicate(timeout=WITHIN_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_all_in_good_order(number: signal.Signals, tmp_path: Path) -> None:
    with running(tmp_path) as one:
        one.started()
        one.process.send_signal(number)
        assert one.hear(2) == ["stopped 0", "stopped 1"]
        _, errors = one.process.communicate(timeout=60)
        assert one.process.returncode == 0, errors
        assert errors == b""
        assert not (tmp_path / "data/workers/store.sock").exists()


def test_a_killed_worker_is_started_again(tmp_path: Path) -> None:
    with running(tmp_path) as one:
        pids = one.started()
        os.kill(pids["1"], signal.SIGKILL)
        word, number, pid = one.hear(1)[0].split()
        assert (word, number) == ("started", "1")
        assert int(pid) != pids["1"]
        one.process.terminate()
        assert one.hear(2) == ["stopped 0", "stopped 1"]
        assert one.process.wait(60) == 0


def test_a_signal_restarts_one_after_the_other(tmp_path: Path) -> None:
    with running(tmp_path) as one:
        one.started()
        one.process.send_signal(signal.SIGUSR1)
        heard = [one.hear(1)[0].split()[:2] for _ in range(4)]
        assert heard == [["stopped", "0"], ["started", "0"], ["stopped", "1"], ["started", "1"]]
        one.process.terminate()
        assert one.hear(2) == ["stopped 0", "stopped 1"]
        assert one.process.wait(60) == 0


def test_workers_stop_when_the_one_who_runs_them_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as one:
        one.started()
        one.process.kill()
        assert one.hear(2) == ["stopped 0", "stopped 1"]


def test_data_in_use_is_refused(tmp_path: Path) -> None:
    store = SharedStore(tmp_path / "data")
    with running(tmp_path) as one:
        _, errors = one.process.communicate(timeout=60)
        assert one.process.returncode == 1
        assert b"is in use by another broker" in errors
    store.close()


def test_a_broker_that_is_told_so_stops_in_good_order_when_its_input_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek", "server", "--data", str(tmp_path), "--port", "0"]
    with subprocess.Popen(
        [*command, "--worker", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline().startswith(b"ready ")
        broker.communicate(timeout=60)  # closes its input
        assert broker.returncode == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
