"""Streams of Spark, topic to topic, on a cluster: of its own Kafka connector, and of ours.

Run by `test_cluster_clients` in a process of its own: BOOTSTRAP CHECKPOINT-FOLDER JAR[,JAR…] TOPIC…
A topic is named `spark-` and its format; `TOPIC.copy` gets its values, each in the partition that it had.
Prints `started`; ends when its standard input ends, with `stopped`, or with `failed` and why a stream had
failed by then.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from odradek.spark import session


def copy(spark: SparkSession, bootstrap: str, folder: Path, topic: str) -> StreamingQuery:
    """Begin to copy a topic."""
    kind = topic.removeprefix("spark-")
    rows = (
        spark.readStream.format(kind)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select("value", "partition")
    )
    sink = (
        rows.writeStream.format(kind)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", f"{topic}.copy")
        .option("checkpointLocation", str(folder / topic))
        .trigger(processingTime="1 second")
    )
    if kind == "odradek":
        sink = sink.option("deliveryGuarantee", "exactly-once")
    return sink.start()


def main(bootstrap: str, folder: str, jars: str, *topics: str) -> None:
    """The whole job. A task that fails is not tried again, and fails its stream."""
    given = {"spark.jars": jars} if jars else {}
    spark = session(app_name="cluster", master="local[4]", **{"spark.ui.enabled": "false", **given})
    queries = [copy(spark, bootstrap, Path(folder), topic) for topic in topics]
    print("started", flush=True)
    sys.stdin.read()
    failures = [query.exception() for query in queries]
    for query in queries:
        query.stop()
    told = "; ".join(" ".join(str(one).split())[:3000] for one in failures if one is not None)
    print(f"failed {told}" if told else "stopped", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
