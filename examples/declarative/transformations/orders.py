"""Topic `orders` → table `priced` and topic `orders-priced`; table `revenue` by product and minute.

The documents come as typed columns. Those that are none go to the topic `orders-rejected`, with headers that
say where they come from and what is wrong with them.
"""

import os
from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SERVERS = os.environ.get("ORDERS_SERVERS", "127.0.0.1:9092")
ORDER = "order bigint, product string, quantity int, price_cents bigint, time_ms bigint"

spark = SparkSession.active()


def orders(reader: Any) -> DataFrame:
    """The orders that can be read, with their totals; `reader`: `spark.read` or `spark.readStream`."""
    rows = (
        reader.format("odradek")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .option("value.schema", ORDER)
        .option("columns", "value.*")
        .option("mode", "DROPMALFORMED")
        .load()
    )
    return rows.where("order is not null and time_ms is not null").withColumn(
        "total_cents", f.col("quantity") * f.col("price_cents")
    )


@dp.table
def priced() -> DataFrame:
    """Order by order; each run adds what is new in the topic."""
    return orders(spark.readStream.option("deadLetterTopic", "orders-rejected"))


@dp.materialized_view
def revenue() -> DataFrame:
    """By product and minute; each run works it out anew from the whole topic."""
    return (
        orders(spark.read)
        .withColumn("time", f.timestamp_millis("time_ms"))
        .groupBy(f.date_trunc("minute", "time").alias("minute"), "product")
        .agg(f.count("*").alias("orders"), f.sum("total_cents").alias("revenue_cents"))
    )


dp.create_sink(
    "priced_topic",
    format="odradek",
    options={"kafka.bootstrap.servers": SERVERS, "topic": "orders-priced"},
)


@dp.append_flow(target="priced_topic")
def publish() -> DataFrame:
    """The orders of `priced` for those who read topics."""
    return spark.readStream.table("priced").select(
        f.col("product").alias("key"), f.to_json(f.struct("*")).alias("value")
    )
