"""The orders pipeline with typed columns: no `from_json`, and what cannot be read goes to a topic of its own.

Topic `orders` (examples/orders.py), JSON → topic `revenue`, JSON, one record for each product, keyed by it;
malformed orders → topic `orders-malformed`, with headers that say where they come from and why.
"""

import argparse

from pyspark.sql import functions as f

from odradek.spark import session

ORDER = "order BIGINT, product STRING, quantity INT, price_cents BIGINT, time_ms TIMESTAMP"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    args = parser.parse_args()

    spark = session("typed orders", "local[2]")
    orders = (
        spark.read.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "orders")
        .option("value.format", "json")
        .option("value.schema", ORDER)
        .option("value.timestamp.unit", "ms")
        .option("columns", "value.product, value.quantity, value.price_cents, value.time_ms AS time")
        .option("mode", "DROPMALFORMED")
        .option("deadLetterTopic", "orders-malformed")
        .load()
    )
    revenue = orders.groupBy("product").agg(
        f.count("*").alias("orders"),
        f.sum(f.col("quantity") * f.col("price_cents")).alias("revenue_cents"),
        f.max("time").alias("last"),
    )
    (
        revenue.withColumn("key", f.col("product"))
        .write.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("topic", "revenue")
        .option("key.format", "string")
        .option("value.format", "json")
        .mode("append")
        .save()
    )
    spark.stop()


if __name__ == "__main__":
    main()
