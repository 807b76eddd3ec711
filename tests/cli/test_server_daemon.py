"""`odradek server -daemon`, with a file and `--override`, as Kafka's start script takes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from odradek import Admin
from odradek.cli.server_stop import user_of
from waiting import until

ODRADEK = (sys.executable, "-m", "odradek")


def run(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end."""
    return subprocess.run(
        [*ODRADEK, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def test_a_server_goes_on_in_the_background(tmp_path: Path) -> None:
    data, logs, file = tmp_path / "data", tmp_path / "log", tmp_path / "server.properties"
    file.write_text(
        f"broker.id=7\nlog.dirs={data}\nlisteners=PLAINTEXT://127.0.0.1:0\nnum.partitions=4\n",
        encoding="utf-8",
    )
    words = ("server", "-daemon", str(file), "--override", "num.partitions=6", "--override", "broker.id=8")
    started = run(*words, cwd=tmp_path, LOG_DIR=str(logs))
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
    output = logs / "kafkaServer.out"
    try:
        ready = until(
            lambda: [
                line for line in output.read_text(encoding="utf-8").splitlines() if line[:6] == "ready "
            ],
            "the line that says ready",
            instead=lambda: output.read_text(encoding="utf-8"),
        )
        with Admin(bootstrap_servers=ready[0].split()[1]) as admin:
            assert [node.id for node in admin.describe_cluster().nodes] == [8]
            admin.create_topics(["t"])
            assert len(admin.describe_topics(["t"])["t"].partitions) == 6
        pid = user_of(data)
        assert pid is not None
        # Nothing that ends the session of a shell reaches it.
        assert os.getsid(pid) == pid
    finally:
        stopped = run("server-stop", "--config", str(file), cwd=tmp_path)
    assert stopped.returncode == 0, stopped.stderr
    until(lambda: user_of(data) is None, "the end of the server")
    assert "signal received name=SIGTERM" in output.read_text(encoding="utf-8")


def test_a_log_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "logs").write_bytes(b"")
    refused = run("server", "-daemon", "--data", "data", cwd=tmp_path, LOG_DIR="")
    assert refused.returncode == 1
    assert "logs" in refused.stderr
    assert "Nothing was started" in refused.stderr
    assert not (tmp_path / "data").exists()
