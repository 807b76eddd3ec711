"""A topic copied to another cluster, each record once: keys, values, headers and partitions as they are.

The target topic is made with as many partitions as the source has, if it is not there. Readers of the copy
that ask for `isolation.level=read_committed` see each record once, whatever dies on the way, this program
included; what was aborted in the source is not copied. Offsets and timestamps are the copy's own.

It runs for ever, or (`--once`) until it has copied what is there; started again, it goes on.
"""

import argparse

from odradek import Admin, NewTopic
from odradek.client import RawReader
from odradek.errors import ErrorCode, KafkaError
from odradek.spark import session


def make_topic(source: str, target: str, topic: str) -> None:
    """Make the topic in the target cluster as it is in the source."""
    with RawReader(source) as reader:
        partitions = len(list(reader.partitions_for(topic)))
    with Admin(bootstrap_servers=target) as admin:
        try:
            admin.create_topics([NewTopic(topic, num_partitions=partitions)])
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="servers of the cluster that is read")
    parser.add_argument("--target", required=True, help="servers of the cluster that is written")
    parser.add_argument("--topic", default="clicks")
    parser.add_argument("--checkpoint", default="copy-checkpoint", help="folder")
    parser.add_argument("--once", action="store_true", help="copy what is there, then end")
    args = parser.parse_args()
    make_topic(args.source, args.target, args.topic)

    spark = session(f"copy of {args.topic}", "local[2]")
    rows = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", args.source)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", args.topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", True)
        .option("maxOffsetsPerTrigger", 500_000)
        .load()
    )
    query = (
        rows.select("key", "value", "headers", "partition")
        .writeStream.format("odradek")
        .option("kafka.bootstrap.servers", args.target)
        .option("topic", args.topic)
        .option("deliveryGuarantee", "exactly-once")
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
