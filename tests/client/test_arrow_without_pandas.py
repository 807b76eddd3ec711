"""Columns are sent and taken without pandas: a process that does no more starts half a second sooner."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from odradek.records import scalars
from odradek.testing import Broker
from waiting import WITHIN_S

PROGRAM = """
import sys
import pyarrow as pa
from odradek import Consumer, Producer, TopicPartition
from odradek.spark.schema import arrow_schema
from odradek.spark.reading.task import Shape

servers, rows = sys.argv[1], pa.ipc.open_file(sys.argv[2]).read_all()
with Producer(bootstrap_servers=servers) as producer:
    for columns in (["value"], ["key", "value"], ["key", "value", "partition"], ["none", "value"]):
        names = ["key" if name == "none" else name for name in columns]
        producer.send_arrow(rows.select(columns).rename_columns(names), topic="t")
with Consumer(bootstrap_servers=servers) as consumer:
    consumer.assign([TopicPartition("t", 0)])
    consumer.seek_to_beginning()
    taken = 0
    while taken < 4 * rows.num_rows:
        table = consumer.poll_arrow(timeout_ms=60_000)
        taken += table.num_rows
        for batch in table.to_batches():
            Shape(("topic", "partition", "value"), TopicPartition("t", 0)).table_rows(batch)
print(taken, "pandas" in sys.modules)
"""


def test_nobody_imports_it(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyspark")
    texts = pa.array(["a", "b", "c"])
    columns = {"key": texts, "value": texts, "none": pa.nulls(3), "partition": pa.nulls(3, pa.int32())}
    file = tmp_path / "rows.arrow"
    with pa.ipc.new_file(file, pa.table(columns).schema) as writer:
        writer.write_table(pa.table(columns))
    with Broker() as broker:
        words = [sys.executable, "-c", PROGRAM, broker.bootstrap_servers, str(file)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S)
    assert (done.stdout, done.stderr) == ("12 False\n", "")


@pytest.mark.parametrize("value", [0, -1, 2**31 - 1, -(2**31)])
def test_numbers(value: int) -> None:
    assert scalars.int32(value).equals(pa.scalar(value, pa.int32()))


@pytest.mark.parametrize("value", ["", "topic", "größe-日本"])
def test_texts(value: str) -> None:
    assert scalars.string(value).equals(pa.scalar(value, pa.string()))
