"""The orders pipeline as a batch job: reads the whole topic as it is now, writes both results, ends.

Topic `orders` → topic `orders-priced`, order by order, and → Parquet `revenue`, by product and minute.
"""

import argparse

from pyspark.sql import functions as f

from odradek.spark import session

ORDER = "order bigint, product string, quantity int, price_cents bigint, time_ms bigint"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--output", default="orders-output", help="folder for the revenue")
    args = parser.parse_args()

    spark = session("orders batch", "local[2]")
    raw = (
        spark.read.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("minPartitions", 2)
        .load()
    )
    priced = (
        raw.select(f.from_json(f.col("value").cast("string"), ORDER).alias("o"))
        .select("o.*")
        .where("order is not null and time_ms is not null")
        .withColumn("total_cents", f.col("quantity") * f.col("price_cents"))
        .cache()
    )
    revenue = (
        priced.withColumn("time", f.timestamp_millis("time_ms"))
        .groupBy(f.date_trunc("minute", "time").alias("minute"), "product")
        .agg(f.count("*").alias("orders"), f.sum("total_cents").alias("revenue_cents"))
    )
    (
        priced.select(f.col("product").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .write.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("topic", "orders-priced")
        .mode("append")
        .save()
    )
    revenue.coalesce(1).write.mode("overwrite").parquet(f"{args.output}/revenue")
    revenue.orderBy("minute", "product").show(12, truncate=False)
    spark.stop()


if __name__ == "__main__":
    main()
