"""Partitions by offset range, without a group: blocking reads into Arrow, blocking writes from Arrow.

For engines that plan their own work (Spark tasks, tools, tests). No thread and no event loop is started: a
reader or writer may be made in a forked worker and used there. One object is used by one thread at a time.

    with RawReader("127.0.0.1:9092") as reader:
        for rows in reader.fetch_columns("events", 0, start_offset=0, end_offset=1_000_000):
            ...                                     # pyarrow.RecordBatch

    with RawWriter("127.0.0.1:9092", {"compression.type": "lz4"}) as writer:
        writer.write_columns(record_batch, topic="copies")
        writer.flush()
"""

from odradek.client.raw_reader import PartitionRange, RawReader
from odradek.client.raw_writer import RawWriter

__all__ = ["PartitionRange", "RawReader", "RawWriter"]
