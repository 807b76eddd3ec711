"""`make demo`, shortened: interrupted once, then run to its end on the same data."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("matplotlib")

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def start(folder: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-m", "odradek.demo", "--window", "2"]
    return subprocess.Popen(
        [*command, "--seconds", str(seconds), "--data", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def windows_in_topic(folder: Path) -> dict[str, dict[str, Any]]:
    """The third topic, read from the data that the demo left."""
    from odradek.client import RawReader
    from odradek.testing import Broker

    found = {}
    with Broker(data=folder / "broker") as broker, RawReader(broker.bootstrap_servers) as reader:
        partitions = [("machine-windows", number) for number in reader.partitions_for("machine-windows")]
        for (topic, number), end in reader.end_offsets(partitions).items():
            for rows in reader.fetch_columns(topic, number, 0, end):
                for value in rows.column("value").to_pylist():
                    row = json.loads(value)
                    found[row["window_start"]] = row
    return found


def test_interrupted_and_continued(tmp_path: Path) -> None:
    with start(tmp_path, 300) as interrupted:
        assert interrupted.stdout is not None
        printed = ""
        for line in interrupted.stdout:
            printed += line
            if re.search(r"\d+ s +\d+ batches", line):
                interrupted.send_signal(signal.SIGINT)
                break
        printed += interrupted.stdout.read()
    assert interrupted.returncode == 130, printed
    assert "stopped; the next run goes on from here" in printed
    assert "Traceback" not in printed

    second = start(tmp_path, 8)
    printed, _ = second.communicate(timeout=300)
    assert second.returncode == 0, printed
    assert "events produced = events in the log = events read by Spark" in printed

    from odradek.demo.report import read_windows

    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    windows = read_windows(tmp_path / "windows")
    assert sum(row["counter_events"] for row in windows) > 100
    assert sum(row["requests"] for row in windows) > 10
    in_topic = windows_in_topic(tmp_path)
    assert len(in_topic) == len(windows)
    for row in windows:
        start_text = row["window_start"].strftime("%Y-%m-%dT%H:%M:%S.000Z")
        assert in_topic[start_text]["counter_events"] == row["counter_events"]
        assert in_topic[start_text]["requests"] == row["requests"]
