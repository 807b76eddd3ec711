"""franz-go's own transactional test, as its author runs it, on three workers: consume, transform, produce.

Its members write with Produce 12 and later, by which the broker adds the partitions to the transaction; the
coordinators of their transactions are on other brokers than most of the partitions that they write to.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from broker.process.test_workers_live import Workers
from interop import programs

MODULE = "github.com/twmb/franz-go"
TESTS = "TestTxnEtl"
RECORDS = 20_000
WORKERS = 3
SETTINGS = (
    "default.replication.factor=3",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
)


@pytest.mark.interop
def test_its_transactions_on_three_workers(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("not on this machine: go")
    _, binary = programs.go_suite(MODULE, "pkg/kgo")
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    with (
        Workers(tmp_path / "data", *words, number=WORKERS) as workers,
        (tmp_path / "tests.log").open("w", encoding="utf-8") as log,
    ):
        done = subprocess.run(
            [str(binary), "-test.v", "-test.timeout=400s", f"-test.run={TESTS}"],
            cwd=binary.parent,
            env={
                **os.environ,
                "KGO_SEEDS": workers.bootstrap_servers,
                "KGO_TEST_RF": str(WORKERS),
                "KGO_TEST_RECORDS": str(RECORDS),
                "KGO_LOG_LEVEL": "none",
            },
            stdout=log,
            stderr=log,
            timeout=500,
        )
        workers.stop()
    told = (tmp_path / "tests.log").read_text(encoding="utf-8", errors="replace")
    failed = re.findall(r"^ *--- FAIL: (\S+)|^(panic: .*)", told, re.MULTILINE)
    assert done.returncode == 0, f"{failed}\n{told[-3000:]}"
    assert f"--- PASS: {TESTS} (" in told
