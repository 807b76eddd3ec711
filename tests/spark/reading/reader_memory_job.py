"""Reads a topic as a task's Python process does, and prints how much memory that took at most, in KiB.

    python reader_memory_job.py SERVERS TOPIC

In a process of its own with all that a worker of Spark's has imported; batches go through Spark's own
serializer to where nobody keeps them.
"""

import sys
from pathlib import Path

import pyspark.worker  # noqa: F401
from pyspark.sql.conversion import ArrowTableToRowsConversion  # noqa: F401
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from odradek.spark.source import OdradekDataSource


def main(servers: str, topic: str) -> None:
    """Read all of it, one task after the other."""
    source = OdradekDataSource({"kafka.bootstrap.servers": servers, "subscribe": topic})
    reader = source.reader(source.schema())
    with Path("/dev/null").open("wb") as nowhere:
        for task in reader.partitions():
            ArrowStreamSerializer().dump_stream(reader.read(task), nowhere)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    sys.stdout.write(f"{peak}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
