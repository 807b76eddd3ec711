"""A Spark job that hands one checkpoint from our source to Spark's own Kafka connector and back.

Run by `test_spark_checkpoints` in a process of its own: BOOTSTRAP FOLDER JAR[,JAR…]
Prints one JSON object: per run the format, and the values that it read; and the offsets in the checkpoint.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from odradek import Producer
from odradek.spark import session

RUNS = ("odradek", "kafka", "odradek", "kafka")


def main(bootstrap: str, folder: str, jars: str) -> None:
    """The whole job."""
    spark = session("checkpoints", "local[1]", log_level="OFF", **{"spark.jars": jars})
    checkpoint = Path(folder) / "checkpoint"
    saw = []
    for number, source in enumerate(RUNS):
        with Producer(bootstrap_servers=bootstrap) as producer:
            for part in range(3):
                producer.send("shared", f"{number}-{part}".encode(), partition=part % 2)
        values: list[str] = []
        query = (
            spark.readStream.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", "shared")
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.foreachBatch(
                lambda batch, _, into=values: into.extend(bytes(r.value).decode() for r in batch.collect())
            )
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        last = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        saw.append([source, sorted(values), json.loads(last.read_text().splitlines()[-1])])
    print(json.dumps(saw))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
