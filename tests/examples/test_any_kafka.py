"""The example that runs one test against every Kafka."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from odradek.testing import kafka_versions

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_it_passes_with_every_release() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "test_any_kafka.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert f"{len(kafka_versions())} passed" in done.stdout, done.stdout + done.stderr
