"""franz-go's own transactional test, as its author runs it, on three workers: consume, transform, produce.

Its members write with Produce 12 and later, by which the broker adds the partitions to the transaction; the
coordinators of their transactions are on other brokers than most of the partitions that they write to.
Each of its six pipelines is three topics long, with up to eight members a step, some of which come later or
leave early. It ends when every record has come through each step once, in the order of its partition.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.process.test_workers_live import Workers
from interop import compatibility, programs
from interop.worker_kills import WorkerKills, alarms

pytestmark = pytest.mark.interop

MODULE = "github.com/twmb/franz-go"
TESTS = "TestTxnEtl"
WORKERS = 3
TOPICS = 10
"""The source, and three of each pipeline; those that ask for KIP-848 are skipped."""
SEED = int(os.environ.get("ODRADEK_FAULT_SEED", "1"))
PATIENT = (
    programs.Change(
        "helpers_test.go",
        "AlwaysRetryEOF(),",
        "AlwaysRetryEOF(), Dialer(dialPatiently),",
        "franz_patience_test.go",
    ),
    programs.Change(
        "txn_test.go",
        "fetchErrs := fetches.Errors(); len(fetchErrs) > 0 {",
        "fetchErrs := lasting(fetches.Errors()); len(fetchErrs) > 0 {",
    ),
    programs.Change(
        "source.go",
        "o.lastConsumedTime = lastRecord.Timestamp\n\t}\n",
        "o.lastConsumedTime = lastRecord.Timestamp\n\t}\n"
        "\to.lastConsumedEpoch = epochOfLast(rp.RecordBatches, o.offset, o.lastConsumedEpoch)\n",
    ),
)
"""As it is, the first kill ends the test, with three brokers of Kafka 4.3.1 as well. Its clients report each
time that they could not join their group, and join it the next time; and they give up at a refused connection
where they look for a coordinator. One that times out they try again.

And they move on over the records of aborted transactions, but keep the leader epoch of what they had before:
of the beginning of the log, for one, as ListOffsets told it of a log that was empty then. At the next leader
they ask where that epoch ended (OffsetForLeaderEpoch). It ended where the log begins, as no record is of it,
and they take what they passed over for lost ("lost records; the client consumed to offset 344 epoch 2 but
was reset to offset 0 epoch 2"). Kafka answers so as well: `LeaderEpochFileCache.endOffsetFor`."""
SETTINGS = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
)


def run(binary: Path, bootstrap_servers: str, records: int, log: Path) -> str:
    """Run its test to the end; returns what it has told.

    Raises:
        AssertionError: it has failed.
    """
    with log.open("w", encoding="utf-8") as told:
        done = subprocess.run(
            [str(binary), "-test.v", "-test.timeout=400s", f"-test.run={TESTS}"],
            cwd=binary.parent,
            env={
                **os.environ,
                "KGO_SEEDS": bootstrap_servers,
                "KGO_TEST_RF": str(WORKERS),
                "KGO_TEST_RECORDS": str(records),
                "KGO_LOG_LEVEL": os.environ.get("KGO_LOG_LEVEL", "none"),
            },
            stdout=told,
            stderr=told,
            timeout=500,
        )
    text = log.read_text(encoding="utf-8", errors="replace")
    failed = re.findall(r"^ *--- FAIL: (\S+)|^(panic: .*)|sendErr (.*)", text, re.MULTILINE)
    assert done.returncode == 0, f"{failed}\n{text[-3000:]}"
    assert f"--- PASS: {TESTS} (" in text
    return text


def started(data: Path) -> Workers:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    return Workers(data, *words, number=WORKERS)


def suite(*changes: programs.Change) -> tuple[str, Path]:
    """Its release, and its tests."""
    if shutil.which("go") is None:
        pytest.skip("not on this machine: go")
    return programs.go_suite(MODULE, "pkg/kgo", changes)


def test_its_transactions_on_three_workers(
    tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]
) -> None:
    version, binary = suite()
    row = compatibility_row("Go", "franz-go, its TestTxnEtl on three workers", version, "Go modules")
    with started(tmp_path / "data") as workers:
        run(binary, workers.bootstrap_servers, 20_000, tmp_path / "tests.log")
        workers.stop()
    assert not alarms(workers)
    row.does("produce", "consume", "group", "rebalance")
    row.does("transactions", what="with offsets")


@pytest.mark.faults
def test_its_transactions_while_workers_are_killed(
    tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]
) -> None:
    version, binary = suite(*PATIENT)
    row = compatibility_row("Go", "franz-go, its TestTxnEtl on three workers", version, "Go modules")
    with started(tmp_path / "data") as workers:
        with WorkerKills(workers, SEED, topics=TOPICS) as kills:
            run(binary, workers.bootstrap_servers, 10_000, tmp_path / "tests.log")
        assert kills.killed
        workers.stop()
    assert not alarms(workers)
    row.does("broker restart", what="workers killed")
