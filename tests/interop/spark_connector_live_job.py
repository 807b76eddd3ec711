"""A running stream of Spark's own Kafka connector: topic → topic until told to end.

Run by `test_spark_connector` in a process of its own: BOOTSTRAP CHECKPOINT-FOLDER JAR[,JAR…] TRIGGER
TRIGGER: `stream` (micro-batches) or `real-time`. Prints `started`, or `refused` and the reason; ends when
its standard input ends, with `stopped`, or with `failed` and the reason when the stream has failed by then.
"""

from __future__ import annotations

import sys

from odradek.spark import session

#: How long a batch of the real-time mode lasts; the least that Spark allows unless told otherwise.
REAL_TIME_BATCH = "5 seconds"


def main(bootstrap: str, folder: str, jars: str, trigger: str) -> None:
    """The whole job."""
    spark = session(app_name="live", master="local[4]", **{"spark.jars": jars, "spark.ui.enabled": "false"})
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "live")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .selectExpr("key", "value", "headers")
    )
    sink = (
        source.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "live.copy")
        .option("includeHeaders", "true")
        .option("checkpointLocation", folder)
    )
    try:
        if trigger == "real-time":
            query = sink.outputMode("update").trigger(realTime=REAL_TIME_BATCH).start()
        else:
            query = sink.trigger(processingTime="0 seconds").start()
    except Exception as error:  # the test tells it as the reason
        print("refused", " ".join(str(error).split())[:2000], flush=True)
        return
    print("started", flush=True)
    sys.stdin.read()
    failure = query.exception()
    if failure is not None:
        print("failed", " ".join(str(failure).split())[:3000], flush=True)
        return
    query.stop()
    print("stopped", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
