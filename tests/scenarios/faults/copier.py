"""Copies a topic in transactions, with the offsets in them, until it is told to end or anything goes wrong.

    python copier.py SERVERS SOURCE TARGET GROUP TRANSACTIONAL_ID [PARTITION]

As a member of the group, or, with a partition, as its only reader. SIGTERM has it end between two
transactions. Each committed transaction is a line on standard output.
"""

import signal
import sys

from odradek import Consumer, Producer
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition


def main(servers: str, source: str, target: str, group: str, transactional_id: str, *partition: str) -> None:
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    consumer = Consumer(
        bootstrap_servers=servers,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=500,
        session_timeout_ms=3_000,
        heartbeat_interval_ms=500,
    )
    with (
        Producer(bootstrap_servers=servers, transactional_id=transactional_id, linger_ms=5) as producer,
        consumer,
    ):
        producer.init_transactions()
        if partition:
            consumer.assign([TopicPartition(source, int(partition[0]))])
        else:
            consumer.subscribe([source])
        while not ended:
            records = consumer.poll(100)
            if not records:
                continue
            producer.begin_transaction()
            for one in records:
                producer.send(target, one.value, partition=one.partition)
            after = {
                TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.offset + 1) for one in records
            }
            metadata = ConsumerGroupMetadata(group) if partition else consumer.group_metadata()
            producer.send_offsets_to_transaction(after, metadata)
            producer.commit_transaction()
            sys.stdout.write(f"{len(records)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
