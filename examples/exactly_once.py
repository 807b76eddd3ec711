"""Read, process, write, exactly once: orders in, invoices out, both or neither.

Kill it at any moment and start it again: a consumer with `isolation_level='read_committed'` sees one invoice
per order. Each run puts in some orders first, and counts the invoices in the end.

`by_hand` is what `odradek.client.processing.process` does, spelled out: the shape of every Java program with
`beginTransaction`, `sendOffsetsToTransaction` and `commitTransaction`.
"""

import argparse
import json
from collections import Counter

import orders
from odradek import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from odradek.client.processing import process
from odradek.errors import OdradekError, ProducerFencedError, TopicExistsError

INVOICES = "invoices"
LATEST = -1


def bill(records: list[ConsumerRecord], producer: Producer) -> None:
    """One invoice for every order that can be read."""
    for record in records:
        try:
            order = json.loads(record.value)
        except ValueError:
            continue
        cents = order["quantity"] * order["price_cents"]
        invoice = {"order": order["order"], "cents": cents}
        producer.send(INVOICES, json.dumps(invoice), key=record.key)


def by_hand(consumer: Consumer, producer: Producer, idle_polls: int) -> None:
    """The same loop, step by step."""
    producer.init_transactions()
    idle = 0
    while idle < idle_polls:
        generation, _ = consumer.group_generation()
        records = consumer.poll(timeout_ms=1000)
        if not records:
            # While the group has not given out its partitions yet, nothing can come.
            idle += generation >= 0
            continue
        idle = 0
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


def prepare(servers: str, topic: str, new_orders: int) -> None:
    """Make the topics where they are missing, and put in orders."""
    with Admin(bootstrap_servers=servers) as admin:
        for name in (topic, INVOICES):
            try:
                admin.create_topics([NewTopic(name)])
            except TopicExistsError:
                continue
        partitions = admin.describe_topics([topic])[topic].partitions
        ends = admin.list_offsets({(topic, p.partition): LATEST for p in partitions})
    first = sum(end.offset for end in ends.values())
    with Producer(bootstrap_servers=servers) as producer:
        for key, value in orders.orders(first, new_orders):
            producer.send(topic, key=key, value=value)


def count_invoices(servers: str) -> Counter[int]:
    """How often each order was billed, as everybody sees it who reads what is committed."""
    found: Counter[int] = Counter()
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = [TopicPartition(INVOICES, p.partition) for p in consumer.partitions_for(INVOICES)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found.update(json.loads(record.value)["order"] for record in consumer.poll())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--instance", default="1", help="each process that runs at the same time has its own")
    parser.add_argument("--max-records", type=int, default=500, help="of one transaction")
    parser.add_argument("--by-hand", action="store_true")
    parser.add_argument("--new-orders", type=int, default=100, help="are put in before")
    parser.add_argument("--idle-polls", type=int, default=3, help="end after so many polls without an order")
    args = parser.parse_args()
    prepare(args.servers, args.topic, args.new_orders)
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
        else:
            process(consumer, producer, bill, idle_polls=args.idle_polls)
    invoices = count_invoices(args.servers)
    twice = sum(times > 1 for times in invoices.values())
    print(f"{len(invoices)} orders have been billed in all, {twice} of them more than once")


if __name__ == "__main__":
    main()
