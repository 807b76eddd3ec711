"""A streaming job to be killed: notes the offsets of every row it reads, in one file for each batch.

    python stream_driver.py SERVERS TOPIC FOLDER (run | drain)

A batch that is run again replaces its file, so the files together say what a downstream that knows batch
numbers would have.
"""

import json
import sys
from pathlib import Path
from typing import Any

from odradek.spark import session


def main(servers: str, topic: str, folder: Path, mode: str) -> None:
    spark = session("killed", "local[2]", log_level="OFF")

    def note(batch: Any, batch_id: int) -> None:
        rows = [[row.partition, row.offset] for row in batch.select("partition", "offset").collect()]
        target = folder / "batches" / f"{batch_id}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_suffix(".tmp")
        aside.write_text(json.dumps(rows), encoding="utf-8")
        aside.rename(target)

    query = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "latest")
        .option("maxOffsetsPerTrigger", 500)
        .load()
        .writeStream.foreachBatch(note)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**({"availableNow": True} if mode == "drain" else {"processingTime": "0 seconds"}))
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
