"""Change data: the topic `customers` (key → the new state, null: gone) as a table of the latest state by
key.

Each batch is merged into Parquet, as a new version of the table named after the batch: a batch that Spark
runs again makes the same version again. Readers take the newest version that is complete (`newest`). The
topic may be compacted at any time: what it has lost by then was no key's latest state.

It runs for ever, or (`--once`) until it has read what is there.
"""

import argparse
import shutil
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.spark import session

CUSTOMER = "name string, city string, change bigint"


def newest(table: Path) -> Path | None:
    """The newest complete version of the table."""
    versions = [path.parent for path in table.glob("version=*/_SUCCESS")]
    return max(versions, key=number_of, default=None)


def number_of(version: Path) -> int:
    """The number of a version's folder."""
    return int(version.name.removeprefix("version="))


def merge(table: Path, batch: DataFrame, number: int) -> None:
    """Make version `number` of the table: the one before it, with the changes of a batch."""
    # All changes of a key are in one partition: the highest offset is the latest.
    latest = batch.groupBy(f.col("key").cast("string").alias("customer")).agg(
        f.max_by("value", "offset").alias("value")
    )
    # Used twice below, read once: compaction may take a record between one read and the next.
    latest.persist()
    rows = latest.where("value is not null").select(
        "customer", f.from_json(f.col("value").cast("string"), CUSTOMER).alias("state")
    )
    merged = rows.select("customer", "state.*")
    before = max((v for v in table.glob("version=*") if number_of(v) < number), key=number_of, default=None)
    if before is not None:
        stays = batch.sparkSession.read.parquet(str(before)).join(latest, "customer", "left_anti")
        merged = stays.unionByName(merged)
    merged.coalesce(1).write.mode("overwrite").parquet(str(table / f"version={number}"))
    latest.unpersist()
    # Whoever reads the version before this one may finish; older ones go.
    for version in table.glob("version=*"):
        if before is not None and number_of(version) < number_of(before):
            shutil.rmtree(version)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--output", default="customers", help="folder for the table and the checkpoint")
    parser.add_argument("--once", action="store_true", help="read what is there, then end")
    args = parser.parse_args()
    table = Path(args.output).absolute() / "table"

    spark = session("change data", "local[2]")
    changes = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "customers")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)
        .load()
    )

    query = (
        changes.select("key", "value", "offset")
        .writeStream.foreachBatch(lambda batch, number: merge(table, batch, number))
        .option("checkpointLocation", f"{args.output}/checkpoint")
        .trigger(**({"availableNow": True} if args.once else {"processingTime": "1 second"}))
        .start()
    )
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    if (version := newest(table)) is not None:
        spark.read.parquet(str(version)).orderBy("customer").show(5, truncate=False)
    spark.stop()


if __name__ == "__main__":
    main()
