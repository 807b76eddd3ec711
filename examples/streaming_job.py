"""The orders pipeline as a stream: it runs for ever, or (`--once`) until it has read what is there.

Topic `orders` → topic `orders-priced`, order by order, and → Parquet `revenue`, by product and minute.
Start it again after a crash, or tomorrow: it goes on where its checkpoint says.
"""

import argparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from odradek.spark import session

ORDER = "order bigint, product string, quantity int, price_cents bigint, time_ms bigint"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument(
        "--output", default="orders-output", help="folder for the checkpoints and the revenue"
    )
    parser.add_argument("--once", action="store_true", help="read what is there, then end")
    args = parser.parse_args()
    trigger = {"availableNow": True} if args.once else {"processingTime": "1 second"}

    spark = session("orders stream", "local[2]")
    raw = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)
        .load()
    )
    priced = (
        raw.select(f.from_json(f.col("value").cast("string"), ORDER).alias("o"))
        .select("o.*")
        .where("order is not null and time_ms is not null")
        .withColumn("total_cents", f.col("quantity") * f.col("price_cents"))
    )
    revenue = (
        priced.withColumn("time", f.timestamp_millis("time_ms"))
        .groupBy(f.date_trunc("minute", "time").alias("minute"), "product")
        .agg(f.count("*").alias("orders"), f.sum("total_cents").alias("revenue_cents"))
    )

    def replace_parquet(table: DataFrame, batch_id: int) -> None:
        table.coalesce(1).write.mode("overwrite").parquet(f"{args.output}/revenue")

    priced_query = (
        priced.select(f.col("product").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .writeStream.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("topic", "orders-priced")
        .option("checkpointLocation", f"{args.output}/checkpoint-priced")
        .trigger(**trigger)
        .start()
    )
    revenue_query = (
        revenue.writeStream.outputMode("complete")
        .option("checkpointLocation", f"{args.output}/checkpoint-revenue")
        .foreachBatch(replace_parquet)
        .trigger(**trigger)
        .start()
    )
    try:
        priced_query.awaitTermination()
        revenue_query.awaitTermination()
    except KeyboardInterrupt:
        priced_query.stop()
        revenue_query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
