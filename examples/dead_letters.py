"""Dead letters: topic `clicks` → topic `clicks-good`, and what cannot be read → topic `clicks-rejected`.

A dead letter is the record as it was, key and bytes, with headers that say where it came from and what is
wrong with it, so that it can be mended and sent again. Both topics get a batch exactly once, whatever dies:
the two writes of a batch have names of their own, and a batch that Spark runs again writes nothing twice.

Where at least once is enough, and what is malformed is all that is wrong, the option `deadLetterTopic` of a
read with `value.format` does this by itself, as `declarative/` has it.

It runs for ever, or (`--once`) until it has read what is there.
"""

import argparse

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from odradek.spark import session

CLICK = "customer string, page string, time_ms bigint, _corrupt_record string"


def header(name: str, value: Column) -> Column:
    """One header of a record."""
    return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--checkpoint", default="dead-letters-checkpoint", help="folder")
    parser.add_argument("--once", action="store_true", help="read what is there, then end")
    args = parser.parse_args()

    spark = session("dead letters", "local[2]")
    raw = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .load()
    )
    text = f.col("value").cast("string")
    read = raw.withColumn("click", f.from_json(text, CLICK)).withColumn(
        "reason",
        f.when(f.col("value").isNull(), "no value")
        .when(f.col("click._corrupt_record").isNotNull(), "not JSON")
        .when(f.col("click.customer").isNull(), "no customer")
        .when(f.col("click.time_ms").isNull(), "no time"),
    )
    source = f.concat_ws("-", "topic", "partition", "offset")
    rejected = f.array(header("reason", f.col("reason")), header("source", source))

    def write_both(batch: DataFrame, number: int) -> None:
        batch.persist()
        good = batch.where("reason is null").select("key", "value")
        bad = batch.where("reason is not null").select("key", "value", rejected.alias("headers"))
        for topic, rows in (("clicks-good", good), ("clicks-rejected", bad)):
            (
                rows.write.format("odradek")
                .option("kafka.bootstrap.servers", args.servers)
                .option("topic", topic)
                .option("deliveryGuarantee", "exactly-once")
                .option("writeId", f"dead-letters-{topic}")
                .option("writeVersion", number)
                .mode("append")
                .save()
            )
        batch.unpersist()

    query = (
        read.writeStream.foreachBatch(write_both)
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
