"""What a thin client of Spark Connect does with topics: batch and stream, written and read.

Run by `test_spark_connect` with a Python that has `pyspark-client`, and neither Spark nor odradek:
REMOTE BOOTSTRAP CHECKPOINT, a folder of the server's. Prints JSON: the rows of two topics.
"""

from __future__ import annotations

import importlib.util
import json
import sys

from pyspark.sql import DataFrame, SparkSession

ROWS = 1000


def values(frame: DataFrame) -> list[int]:
    """The numbers that are a topic's values."""
    found = frame.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS number").orderBy("number").collect()
    return [row.number for row in found]


def main(remote: str, bootstrap: str, checkpoint: str) -> None:
    """The whole client."""
    assert importlib.util.find_spec("odradek") is None, "this Python has odradek"
    spark = SparkSession.builder.remote(remote).getOrCreate()
    at = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    rows.write.format("odradek").options(**at, topic="numbers").mode("append").save()
    stream = spark.readStream.format("odradek").options(**at, subscribe="numbers", startingOffsets="earliest")
    doubled = stream.load().selectExpr(
        "key", "CAST(2 * CAST(CAST(value AS STRING) AS BIGINT) AS STRING) AS value"
    )
    query = (
        doubled.writeStream.format("odradek")
        .options(**at, topic="doubled", deliveryGuarantee="exactly-once", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    read = spark.read.format("odradek").options(**at)
    told = {
        "numbers": values(read.option("subscribe", "numbers").load()),
        "doubled": values(read.option("subscribe", "doubled").load()),
    }
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
