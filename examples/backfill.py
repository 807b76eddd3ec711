"""Backfill, then live: the clicks since a time → topic `clicks-by-page`, first as one batch, then as a
stream.

The batch reads from the first record that is not before `--since` to where the topic ends now; it takes the
whole machine, and does not go through a stream's small batches. The stream begins where it ended: the
boundary is asked of the brokers once and kept in a file, so that no record is left out or written twice
between the two, however often this is started again. Both write exactly once.

It runs for ever, or (`--once`) until it has read what is there.
"""

import argparse
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.client import RawReader
from odradek.spark import session

CLICK = "customer string, page string, time_ms bigint"
TOPIC = "clicks"


def ends(servers: str, file: Path) -> str:
    """Where the backfill ends and the stream begins: asked of the brokers once."""
    if not file.exists():
        with RawReader(servers) as reader:
            partitions = [(TOPIC, number) for number in reader.partitions_for(TOPIC)]
            offsets = {str(number): end for (_, number), end in reader.end_offsets(partitions).items()}
        aside = file.with_suffix(".new")
        aside.write_text(json.dumps({TOPIC: offsets}), encoding="utf-8")
        aside.rename(file)
    return file.read_text(encoding="utf-8")


def by_page(clicks: DataFrame) -> DataFrame:
    """What is made of the clicks: the same for the batch and the stream."""
    click = f.from_json(f.col("value").cast("string"), CLICK)
    rows = clicks.select(click.alias("click")).where("click.page is not null").select("click.*")
    return rows.select(f.col("page").alias("key"), f.to_json(f.struct("customer", "time_ms")).alias("value"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--since", default="2026-01-01T01:00:00+00:00", help="a time, in ISO 8601")
    parser.add_argument("--output", default="backfill", help="folder for the boundary and the checkpoint")
    parser.add_argument("--once", action="store_true", help="read what is there, then end")
    args = parser.parse_args()
    since_ms = int(datetime.fromisoformat(args.since).timestamp() * 1000)
    folder = Path(args.output).absolute()
    folder.mkdir(parents=True, exist_ok=True)

    spark = session("backfill", "local[2]")
    at = {"kafka.bootstrap.servers": args.servers}
    sink: dict[str, Any] = {**at, "topic": "clicks-by-page", "deliveryGuarantee": "exactly-once"}
    boundary = ends(args.servers, folder / "boundary.json")
    past = (
        spark.read.format("odradek")
        .options(**at, subscribe=TOPIC)
        .option("startingTimestamp", since_ms)
        .option("startingOffsetsByTimestampStrategy", "latest")
        .option("endingOffsets", boundary)
        .load()
    )
    # Written under a name: started again, it writes nothing that is there.
    by_page(past).write.format("odradek").options(**sink, writeId=f"backfill-{since_ms}").mode(
        "append"
    ).save()
    live = (
        spark.readStream.format("odradek")
        .options(**at, subscribe=TOPIC)
        .option("startingOffsets", boundary)
        .load()
    )
    query = (
        by_page(live)
        .writeStream.format("odradek")
        .options(**sink, checkpointLocation=str(folder / "checkpoint"))
        .trigger(**({"availableNow": True} if args.once else {"processingTime": "1 second"}))
        .start()
    )
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
