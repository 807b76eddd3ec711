"""Read, process, write, exactly once: orders in, invoices out, both or neither.

Kill it at any moment and start it again: a consumer with `isolation_level='read_committed'` sees one invoice
per order. `by_hand` is what `odradek.client.processing.process` does, spelled out: the shape of every Java
program with `beginTransaction`, `sendOffsetsToTransaction` and `commitTransaction`.
"""

import argparse
import json

from odradek import Consumer, ConsumerRecord, Producer, TopicPartition
from odradek.client.processing import process
from odradek.errors import OdradekError, ProducerFencedError


def bill(records: list[ConsumerRecord], producer: Producer) -> None:
    """One invoice for every order that can be read."""
    for record in records:
        try:
            order = json.loads(record.value)
        except ValueError:
            continue
        cents = order["quantity"] * order["price_cents"]
        invoice = {"order": order["order"], "cents": cents}
        producer.send("invoices", json.dumps(invoice), key=record.key)


def by_hand(consumer: Consumer, producer: Producer, idle_polls: int) -> None:
    """The same loop, step by step."""
    producer.init_transactions()
    idle = 0
    while idle < idle_polls:
        records = consumer.poll(timeout_ms=1000)
        idle = 0 if records else idle + 1
        if not records:
            continue
        producer.begin_transaction()
        try:
            bill(records, producer)
            offsets = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            producer.commit_transaction()
        except ProducerFencedError:
            raise  # another instance has our transactional id: close, there is nothing to abort
        except OdradekError as problem:
            if problem.fatal:
                raise
            producer.abort_transaction()
            # Stand before the records again, or they would be left out.
            for tp, committed in consumer.committed(consumer.assignment()).items():
                if committed is None:
                    consumer.seek_to_beginning(tp)
                else:
                    consumer.seek(tp, committed.offset)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--instance", default="1", help="each process that runs at the same time has its own")
    parser.add_argument("--max-records", type=int, default=500, help="of one transaction")
    parser.add_argument("--by-hand", action="store_true")
    parser.add_argument("--idle-polls", type=int, default=3, help="end after so many polls without an order")
    args = parser.parse_args()
    consumer = Consumer(
        args.topic,
        bootstrap_servers=args.servers,
        group_id="billing",
        group_instance_id=f"billing-{args.instance}",  # who is started again gets its partitions at once
        max_poll_records=args.max_records,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = Producer(bootstrap_servers=args.servers, transactional_id=f"billing-{args.instance}")
    with consumer, producer:
        if args.by_hand:
            by_hand(consumer, producer, idle_polls=args.idle_polls)
            return
        count = process(consumer, producer, bill, idle_polls=args.idle_polls)
    print(f"{count} orders have been billed")


if __name__ == "__main__":
    main()
