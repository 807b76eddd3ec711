"""Change data: the topic `customers` (key → the new state, null: gone) as a Delta table of the latest state
by key.

Each batch is merged by one MERGE, which is one commit of the table. A batch that Spark runs again sets the
same states again, so the table is the same. `change_data.py` does it with plain Parquet.

Delta Lake's jars come from Maven Central, in the release for the Spark that runs: 4.4.0 is for 4.2.
It runs for ever, or (`--once`) until it has read what is there.
"""

import argparse
import sys
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.spark import session

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
CUSTOMER = "name string, city string, change bigint"

NEWEST, ITS_SPARK = "4.4.0", "4.2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--output", default="customers", help="folder for the table and the checkpoint")
    parser.add_argument("--once", action="store_true", help="read what is there, then end")
    parser.add_argument("--delta", default=NEWEST, help="release of Delta Lake, from Maven Central")
    parser.add_argument("--jars", help="its jars, with commas between them, where they are there already")
    args = parser.parse_args()
    if args.delta == NEWEST and not args.jars and not pyspark.__version__.startswith(f"{ITS_SPARK}."):
        sys.exit(
            f"Delta Lake {NEWEST} is for Spark {ITS_SPARK}, and this is {pyspark.__version__}: "
            f"pip install 'pyspark=={ITS_SPARK}.*', or name a release of Delta for yours (--delta)"
        )
    table = f"delta.`{Path(args.output).absolute() / 'table'}`"

    package = {"spark.jars.packages": f"io.delta:delta-spark_2.13:{args.delta}"}
    jars = {"spark.jars": args.jars} if args.jars else package
    spark = session("change data", "local[2]", conf={**DELTA, **jars})
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (customer string, {CUSTOMER}) USING delta")
    changes = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "customers")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)
        .load()
    )

    def merge(batch: DataFrame, number: int) -> None:
        """Set the states that the batch has."""
        # All changes of a key are in one partition: the highest offset is the latest.
        latest = batch.groupBy(f.col("key").cast("string").alias("customer")).agg(
            f.max_by("value", "offset").alias("value")
        )
        # The merge reads it more than once; compaction may take a record between one read and the next.
        latest.persist()
        state = f.from_json(f.col("value").cast("string"), CUSTOMER).alias("state")
        latest.select("customer", f.col("value").isNull().alias("gone"), state).select(
            "customer", "gone", "state.*"
        ).createOrReplaceTempView("latest")
        batch.sparkSession.sql(f"""
            MERGE INTO {table} AS t USING latest AS l ON t.customer = l.customer
            WHEN MATCHED AND l.gone THEN DELETE
            WHEN MATCHED THEN UPDATE SET name = l.name, city = l.city, change = l.change
            WHEN NOT MATCHED AND NOT l.gone THEN
                INSERT (customer, name, city, change) VALUES (l.customer, l.name, l.city, l.change)
        """)
        latest.unpersist()

    query = (
        changes.select("key", "value", "offset")
        .writeStream.foreachBatch(merge)
        .option("checkpointLocation", f"{args.output}/checkpoint")
        .trigger(**({"availableNow": True} if args.once else {"processingTime": "1 second"}))
        .start()
    )
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    rows = spark.sql(f"SELECT * FROM {table} ORDER BY customer")
    print("\n".join(rows.toJSON().collect()))
    spark.stop()


if __name__ == "__main__":
    main()
