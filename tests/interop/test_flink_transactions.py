"""Flink's exactly-once sink on our broker: job and broker are killed, each record is there once."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interop import compatibility, programs
from interop.committed import committed
from interop.conftest import OdradekServer
from interop.flink import RELEASES, flink_job
from interop.tap import OURS
from interop.test_java_releases import needs_java
from odradek import Admin, NewTopic, Producer
from waiting import WITHIN_S, until

RECORDS = 240
LIMIT_S = 180.0


def _last_checkpoint(directory: Path) -> str:
    """The newest complete checkpoint, as a URI."""
    complete = [path.parent for path in directory.glob("*/chk-*/_metadata")]
    return max(complete, key=lambda path: int(path.name.removeprefix("chk-"))).as_uri()


def _until(what: str, condition: Callable[[], bool]) -> None:
    """Wait for a condition; two JVMs start in between, on a machine that may be busy."""
    until(condition, what, within_s=LIMIT_S)


@contextmanager
def _running(job: programs.Program, directory: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A job until it is killed; what it complains about goes to a file, as that is much without a broker."""
    errors = directory / "errors.log"
    with errors.open("w", encoding="utf-8") as log:
        child = subprocess.Popen([*job.words, *words], stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield child
    except AssertionError as error:
        error.add_note(errors.read_text(encoding="utf-8")[-4000:])
        raise
    finally:
        child.kill()
        child.communicate(timeout=WITHIN_S)


@pytest.mark.interop
@pytest.mark.parametrize(("flink", "connector"), RELEASES)
def test_job_and_broker_are_killed(
    flink: str,
    connector: str,
    tapped: OdradekServer,
    tmp_path: Path,
    compatibility_row: Callable[..., compatibility.Row],
) -> None:
    row = compatibility_row("Engines", f"Flink {flink}: flink-connector-kafka", connector, "Maven Central")
    needs_java()
    job = flink_job("FlinkTransactions", flink, connector)
    at = tapped.bootstrap_servers
    wanted = sorted(f"value-{i:03d}" for i in range(RECORDS))
    with (
        Admin(bootstrap_servers=at, client_id=OURS) as admin,
        Producer(bootstrap_servers=at, client_id=OURS, transactional_id="feeder") as producer,
    ):
        admin.create_topics([NewTopic(name, num_partitions=2) for name in ("from", "to")])
        producer.init_transactions()
        for outcome in ("abort", "commit"):
            producer.begin_transaction()
            for i in range(RECORDS):
                value = f"value-{i:03d}" if outcome == "commit" else f"aborted-{i}"
                producer.send("from", value=value.encode(), partition=i % 2)
            producer.commit_transaction() if outcome == "commit" else producer.abort_transaction()
    words = ("copy", at, "from", "to", (tmp_path / "checkpoints").as_uri())
    with committed(at, "to", 2) as seen:
        with _running(job, tmp_path, *words, "-", "0"):
            _until("the first job has committed some", lambda: seen.count() > 20)
        # What it wrote since its last checkpoint is open in the log; what it prepared then may be, too.
        tapped.restart(signal.SIGKILL)
        with _running(job, tmp_path, *words, _last_checkpoint(tmp_path / "checkpoints"), "50"):
            before = seen.count()
            _until("the second job has committed some", lambda: seen.count() > before + 60)
            tapped.restart(signal.SIGKILL)
            _until("all is committed", lambda: seen.count() >= RECORDS)
        seen.count()
        assert sorted(seen.values) == wanted

    with _running(job, tmp_path, "read", at, "to") as read:
        out, _ = read.communicate(timeout=LIMIT_S)
        assert read.returncode == 0
    assert sorted(map(json.loads, out.splitlines())) == wanted
    row.does("transactions", what="exactly-once sink")
    row.does("broker restart")
