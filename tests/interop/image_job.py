"""A job for executors in our containers: a batch fills a topic, a stream copies it, a batch reads that.

    spark-submit … image_job.py SERVERS CHECKPOINT

Prints a line of JSON with what an executor that comes by itself has to be told, and at the end one with the
sum of what was read and what an executor has.
"""

import json
import os
import sys
from typing import Any

from pyspark import SparkContext

from odradek.spark import session


def say(what: dict[str, Any]) -> None:
    """Print a line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def place_of(context: SparkContext) -> dict[str, Any]:
    """What executors are told of their application."""
    conf = context.getConf()
    return {
        "driver": f"spark://CoarseGrainedScheduler@{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}",
        "application": context.applicationId,
        "options": conf.get("spark.executor.extraJavaOptions", ""),
    }


def seen(_: int) -> dict[str, Any]:
    """What an executor has."""
    import odradek
    from odradek.records.kernel import NATIVE

    return {"python": sys.executable, "package": odradek.__file__, "native": NATIVE, "user": os.getuid()}


def main(servers: str, checkpoint: str) -> None:
    """Write, copy, read."""
    spark = session("image")
    say(place_of(spark.sparkContext))
    at = {"kafka.bootstrap.servers": servers}
    rows = spark.range(1000).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("odradek").options(**at, topic="numbers").mode("append").save()
    numbers = spark.readStream.format("odradek").options(
        **at, subscribe="numbers", startingOffsets="earliest"
    )
    copying = numbers.load().writeStream.format("odradek").options(**at, topic="copied")
    copying.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    copied = spark.read.format("odradek").options(**at, subscribe="copied").load()
    total = copied.selectExpr("sum(CAST(CAST(value AS STRING) AS BIGINT)) AS total").collect()[0].total
    executors = spark.sparkContext.parallelize([0], 1).map(seen).collect()
    say({"sum": total, **executors[0]})
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
