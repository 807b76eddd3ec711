"""Enrichment: clicks of a new cluster, each with what an old Kafka knows of the customer.

The topic `clicks` comes from the new cluster (odradek, or a Kafka of today); the table `customers` is a
topic of the old one (any Kafka from 0.8.2 on), of which each key's latest record counts. Each batch of
clicks reads the table as it is then, joins it, and writes `clicks-enriched` to the new cluster, exactly
once. A click of a customer whom the table does not have goes through without a city.

It runs for ever, or (`--once`) until it has read what is there.
"""

import argparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.spark import session

CLICK = "customer string, page string, time_ms bigint"
CUSTOMER = "name string, city string"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", required=True, help="servers of the old Kafka: topic customers")
    parser.add_argument("--new", required=True, help="servers of the new cluster: topic clicks")
    parser.add_argument("--checkpoint", default="enrichment-checkpoint", help="folder")
    parser.add_argument("--once", action="store_true", help="read what is there, then end")
    args = parser.parse_args()

    spark = session("enrichment", "local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    raw = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", args.new)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .load()
    )
    clicks = (
        raw.select(f.from_json(f.col("value").cast("string"), CLICK).alias("click"))
        .select("click.*")
        .where("customer is not null")
    )

    def customers() -> DataFrame:
        """The table as it is now."""
        changes = (
            spark.read.format("odradek")
            .option("kafka.bootstrap.servers", args.old)
            .option("subscribe", "customers")
            .option("columns", "key,value,offset")
            .load()
        )
        latest = changes.groupBy(f.col("key").cast("string").alias("customer")).agg(
            f.max_by("value", "offset").alias("value")
        )
        state = f.from_json(f.col("value").cast("string"), CUSTOMER)
        return (
            latest.where("value is not null")
            .select("customer", state.alias("state"))
            .select("customer", "state.*")
        )

    def enrich(batch: DataFrame, number: int) -> None:
        rows = batch.join(f.broadcast(customers()), "customer", "left")
        (
            rows.select(f.col("customer").alias("key"), f.to_json(f.struct("*")).alias("value"))
            .write.format("odradek")
            .option("kafka.bootstrap.servers", args.new)
            .option("topic", "clicks-enriched")
            .option("deliveryGuarantee", "exactly-once")
            .option("writeId", "enrichment")
            .option("writeVersion", number)
            .mode("append")
            .save()
        )

    query = (
        clicks.writeStream.foreachBatch(enrich)
        .option("checkpointLocation", args.checkpoint)
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
