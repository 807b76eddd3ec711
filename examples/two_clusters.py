"""One pipeline, two clusters: orders from an old Kafka, payments from a new cluster, their join to both.

The old cluster (any Kafka from 0.8.2 on) still gets the orders; payments already go to the new one (odradek,
or a Kafka of today). A stream reads both at once, joins them by order number, and writes topic `orders-paid`
to the new cluster and back to the old one, for the programs that have not moved yet. No JAR, no second
client library: each source and sink is told its own servers, and finds out what its brokers speak.

It runs for ever, or (`--once`) until it has read what is there; started again, it goes on where its
checkpoint says, orders that still wait for their payment included.
"""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from odradek.spark import session

ORDER = "order bigint, product string, quantity int, price_cents bigint"
PAYMENT = "order bigint, paid_cents bigint"


def stream(spark: SparkSession, servers: str, topic: str, schema: str) -> DataFrame:
    """The JSON documents of a topic as columns; what is no such document is left out."""
    raw = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    return (
        raw.select(f.from_json(f.col("value").cast("string"), schema).alias("row"))
        .select("row.*")
        .where("order is not null")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", required=True, help="servers of the old Kafka: topic orders")
    parser.add_argument("--new", required=True, help="servers of the new cluster: topic payments")
    parser.add_argument("--checkpoint", default="two-clusters-checkpoint", help="folder")
    parser.add_argument("--once", action="store_true", help="read what is there, then end")
    args = parser.parse_args()

    spark = session("two clusters", "local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    orders = stream(spark, args.old, "orders", ORDER)
    payments = stream(spark, args.new, "payments", PAYMENT)
    paid = orders.join(payments, "order").withColumn(
        "open_cents", f.col("quantity") * f.col("price_cents") - f.col("paid_cents")
    )
    rows = paid.select(f.col("order").cast("string").alias("key"), f.to_json(f.struct("*")).alias("value"))

    def write_to_both(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        for servers in (args.new, args.old):
            (
                batch.write.format("odradek")
                .option("kafka.bootstrap.servers", servers)
                .option("topic", "orders-paid")
                .mode("append")
                .save()
            )
        batch.unpersist()

    query = (
        rows.writeStream.foreachBatch(write_to_both)
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
