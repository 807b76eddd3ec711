"""A Spark job that hands one checkpoint from our source to Spark's own Kafka connector and back.

Run by `test_spark_checkpoints` in a process of its own: BOOTSTRAP FOLDER JAR[,JAR…]
Prints one JSON object: per run the format, and the values that it read; and the offsets in the checkpoint.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

from odradek import Producer
from odradek.spark import session

RUNS = ("odradek", "kafka", "odradek")


def main(bootstrap: str, folder: str, jars: str) -> None:
    """The whole job."""
    spark = session("checkpoints", "local[1]", log_level="OFF", conf={"spark.jars": jars})
    checkpoint = Path(folder) / "checkpoint"
    saw = []
    for number, source in enumerate(RUNS):
        with Producer(bootstrap_servers=bootstrap) as producer:
            for part in range(3):
                producer.send("shared", f"{number}-{part}".encode(), partition=part % 2)
        stream = (
            spark.readStream.format(source)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", "shared")
            .option("startingOffsets", "earliest")
            .load()
        )
        values = _run(stream, checkpoint)
        last = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        saw.append([source, sorted(values), json.loads(last.read_text(encoding="utf-8").splitlines()[-1])])
    print(json.dumps(saw))
    spark.stop()


def _run(stream: Any, checkpoint: Path) -> list[str]:
    """The values of all that is there.

    Spark gives a Python process ten seconds to start, which a busy machine may not: then it begins again.
    """
    while True:
        values: list[str] = []
        query = (
            stream.writeStream.foreachBatch(
                lambda batch, _, into=values: into.extend(bytes(r.value).decode() for r in batch.collect())
            )
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return values


if __name__ == "__main__":
    main(*sys.argv[1:])
