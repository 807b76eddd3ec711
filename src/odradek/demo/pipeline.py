"""The Spark query of the demo: both topics in, windowed together, out to Parquet and to a third topic."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.demo.feed import COUNTERS, REQUESTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

WINDOWS = "machine-windows"
"""The third topic: one JSON document for each window, keyed by its start."""

_COUNTER_FIELDS = (
    "kind string, time_ms bigint, busy_s double, total_s double, used_bytes double, total_bytes double, "
    "read_bytes double, written_bytes double, received_bytes double, sent_bytes double"
)
_REQUEST_FIELDS = (
    "api string, client_id string, time_ms bigint, request_bytes bigint, response_bytes bigint, total_ms "
    "double"
)


def observed(topic: str) -> str:
    """The name under which Spark reports how many rows it read of `topic`."""
    return "read_" + topic.replace("-", "_")


def windows(spark: "SparkSession", bootstrap_servers: str, window_s: int) -> "DataFrame":
    """One row for each window of `window_s` seconds, once no more events of it are expected."""
    from pyspark.sql import functions as f

    def events(topic: str, fields: str) -> "DataFrame":
        return (
            spark.readStream.format("odradek")
            .option("kafka.bootstrap.servers", bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("columns", "value")
            .load()
            .observe(observed(topic), f.count(f.lit(1)).alias("rows"))
            .select(f.from_json(f.col("value").cast("string"), fields).alias("event"))
            .select("event.*")
        )

    both = events(COUNTERS, _COUNTER_FIELDS).unionByName(
        events(REQUESTS, _REQUEST_FIELDS), allowMissingColumns=True
    )

    def growth(name: str, kind: str) -> Any:
        counter = f.when(f.col("kind") == kind, f.col(name))
        return f.max(counter) - f.min(counter)

    def calls(api: str) -> Any:
        return f.count(f.when(f.col("api") == api, 1))

    return (
        both.withColumn("time", f.timestamp_millis("time_ms"))
        .withWatermark("time", f"{window_s} seconds")
        .groupBy(f.window("time", f"{window_s} seconds"))
        .agg(
            f.count("kind").alias("counter_events"),
            f.count("api").alias("requests"),
            calls("Produce").alias("produce_requests"),
            calls("Fetch").alias("fetch_requests"),
            f.avg("total_ms").alias("request_ms"),
            f.sum(f.col("request_bytes") + f.col("response_bytes")).alias("request_bytes"),
            # A window with one sample in it has no growth, and no percentage.
            f.try_divide(100 * growth("busy_s", "cpu"), growth("total_s", "cpu")).alias("cpu_percent"),
            f.avg(f.when(f.col("kind") == "memory", f.col("used_bytes"))).alias("memory_bytes"),
            (growth("written_bytes", "disk") / window_s).alias("disk_written_bytes_per_s"),
            (growth("received_bytes", "network") / window_s).alias("network_bytes_per_s"),
        )
        .select(f.col("window.start").alias("window_start"), "*")
        .drop("window")
    )


def start(
    spark: "SparkSession", bootstrap_servers: str, folder: Path, window_s: int, trigger: str = "1 second"
) -> "StreamingQuery":
    """Start the query; `folder` keeps its checkpoint and its Parquet files from one run to the next."""
    from pyspark.sql import functions as f

    def write(batch: "DataFrame", batch_id: int) -> None:
        rows = batch.persist()
        if rows.isEmpty():  # most batches finish no window
            rows.unpersist()
            return
        # A batch that is run again after a crash replaces its own files.
        rows.coalesce(1).write.mode("overwrite").parquet(str(parquet_folder(folder) / f"batch={batch_id}"))
        (
            rows.select(
                f.col("window_start").cast("string").alias("key"),
                f.to_json(f.struct("*")).alias("value"),
            )
            .write.format("odradek")
            .option("kafka.bootstrap.servers", bootstrap_servers)
            .option("topic", WINDOWS)
            .mode("append")
            .save()
        )
        rows.unpersist()

    return (
        windows(spark, bootstrap_servers, window_s)
        .writeStream.queryName("demo")
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint_folder(folder)))
        .trigger(processingTime=trigger)
        .foreachBatch(write)
        .start()
    )


def parquet_folder(folder: Path) -> Path:
    """Return the folder of the windows, in which each batch has its own."""
    return folder / "windows"


def checkpoint_folder(folder: Path) -> Path:
    """Return the folder where Spark keeps offsets and state."""
    return folder / "checkpoint"
