"""The modules that Spark's processes load: who plans a stream never reads, who ends a write never writes."""

import json
import subprocess
import sys

import pytest

from odradek.testing import Broker

pytest.importorskip("pyspark")

PROGRAM = """
import json, sys
import pyspark.sql.streaming.python_streaming_source_runner
import pyarrow as pa

by_spark = set(sys.modules)

def loaded():
    names = [name for name in sys.modules if name not in by_spark]
    by_spark.update(names)
    return names

from odradek.spark.source import OdradekDataSource

options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": "t", "startingOffsets": "earliest"}
source = OdradekDataSource(options)
reader = source.streamReader(source.schema())
start = reader.initialOffset()
reader.prepareForTriggerAvailableNow()
end = reader.latestOffset(start, reader.getDefaultReadLimit())
tasks = reader.partitions(start, end)
planning = loaded()
rows = sum(batch.num_rows for task in tasks for batch in reader.read(task))
print(json.dumps([planning, loaded(), rows]))
"""

WRITE_PROGRAM = """
import json, pickle, sys
import pyspark.sql.worker.write_into_data_source
from pyspark.sql.types import BinaryType, StructType
from odradek.spark.source import OdradekDataSource
from odradek.spark.writing.writer import Written

options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
source = OdradekDataSource(options)
writer = source.writer(StructType().add("value", BinaryType()), False)
writer = pickle.loads(pickle.dumps(writer))
writer.commit([Written(3, 30)])
writer.abort([None])
print(json.dumps(list(sys.modules)))
"""

ONLY_WHERE_RECORDS_ARE = (
    "odradek.records.batch",
    "odradek.records.compression",
    "odradek.records._kernel",
    "lz4",
    "cramjam",
)
ONLY_WHERE_ROWS_ARE_WRITTEN = (
    "odradek.client.blocking_produce",
    "odradek.client.transactional",
    "odradek.spark.writing.coordinators",
)
ONLY_WHERE_ASKED_FOR = (
    "ssl",
    "difflib",
    "pyarrow.compute",
    "odradek.util.java_regex",
    "odradek.spark.where.parser",
    "odradek.spark.where.conditions",
    "odradek.spark.reading.late_binding",
    "odradek.client.raw_writer",
)


def test_a_planner_loads_nothing_of_records_and_a_task_nothing_that_it_does_not_use() -> None:
    with Broker() as broker:
        from odradek.client import Producer

        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(3):
                producer.send("t", value=b"x")
        words = [sys.executable, "-c", PROGRAM, broker.bootstrap_servers]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    planning, reading, rows = json.loads(done.stdout)
    assert rows == 3
    assert "odradek.client.raw_reader" in planning
    assert "odradek.client.raw_fetching" in reading
    assert set(planning).isdisjoint((*ONLY_WHERE_RECORDS_ARE, *ONLY_WHERE_ASKED_FOR))
    assert set(reading).isdisjoint(ONLY_WHERE_ASKED_FOR)


def test_the_driver_of_a_write_loads_nothing_that_writes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITE_PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = json.loads(done.stdout)
    assert "odradek.spark.writing.writer" in loaded
    assert set(loaded).isdisjoint((*ONLY_WHERE_ROWS_ARE_WRITTEN, *ONLY_WHERE_RECORDS_ARE, "pyarrow"))
