"""A Spark job on Spark's own Kafka connector: write, read back, stream from one topic to another.

Run by `test_spark_connector` in a process of its own: BOOTSTRAP CHECKPOINT-FOLDER JAR[,JAR…]
Prints one JSON object with what it saw.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import functions as fn

from odradek.spark import session

ROWS = 2_000


def main(bootstrap: str, folder: str, jars: str) -> None:
    """The whole job."""
    spark = session(app_name="connector", master="local[2]", **{"spark.jars": jars})

    def read(topic: str) -> object:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        return reader.option("subscribe", topic).option("includeHeaders", "true").load()

    rows = spark.range(ROWS).select(
        fn.col("id").cast("string").cast("binary").alias("key"),
        fn.concat(fn.lit("value-"), fn.col("id")).cast("binary").alias("value"),
        fn.array(
            fn.struct(fn.lit("n").alias("key"), fn.col("id").cast("string").cast("binary").alias("value"))
        ).alias("headers"),
    )
    written = rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    written.option("topic", "connector").option("includeHeaders", "true").save()
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "connector")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 700)
        .load()
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "copy")
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()
    first = read("connector").orderBy(fn.col("key").cast("string").cast("int")).first()
    print(
        json.dumps(
            {
                "rows": read("connector").select("value").distinct().count(),
                "copied": read("copy").select("value").distinct().count(),
                "batches": len(stream.recentProgress),
                "first": [
                    bytes(first.key).decode(),
                    bytes(first.value).decode(),
                    first.topic,
                    first.timestampType,
                ],
                "header": [first.headers[0].key, bytes(first.headers[0].value).decode()],
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
