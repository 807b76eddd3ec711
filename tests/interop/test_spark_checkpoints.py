"""A checkpoint goes from our Spark source to Spark's own Kafka connector, and back, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interop.test_spark_connector import connector_jars
from odradek import Admin, NewTopic
from odradek.testing import Broker


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("kafka_toolchain")
def test_each_goes_on_where_the_other_ended(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    job = Path(__file__).with_name("spark_checkpoint_job.py")
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("shared", num_partitions=2)])
        done = subprocess.run(
            [sys.executable, str(job), broker.bootstrap_servers, str(tmp_path), connector_jars()],
            capture_output=True,
            text=True,
            timeout=900,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    runs = json.loads(done.stdout.splitlines()[-1])
    for number, (source, values, offsets) in enumerate(runs):
        assert values == [f"{number}-{part}" for part in range(3)], source
        assert offsets["shared"] == {"0": 2 * number + 2, "1": number + 1}
        # Ours keeps the topic's id, and where its first batch began, as topics without partitions: the
        # connector reads nothing in them.
        notes = {name: parts for name, parts in offsets.items() if name != "shared"}
        assert all(name.startswith("shared#") and parts == {} for name, parts in notes.items()), notes
        assert len([name for name in notes if "#began:" not in name]) == (source == "odradek")
        assert len(notes) <= 2 * (source == "odradek")
