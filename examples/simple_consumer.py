"""Read a partition by hand, as programs did before there were consumer groups; works from Kafka 0.8.2 on.

What `odradek.client.simple.read_partition` does, step by step: find the leader among the seed brokers, ask
it for the offset to begin at, fetch, skip, reset where the offset is out of range, find the new leader after
a death.
"""

import argparse

from odradek.client import SimpleConsumer
from odradek.client.simple import EARLIEST, LATEST, find_leader, find_new_leader
from odradek.errors import KafkaError, OffsetOutOfRangeError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092", help="seed brokers")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partition", type=int, default=0)
    parser.add_argument("--max-reads", type=int, default=100)
    args = parser.parse_args()
    topic, partition, left = args.topic, args.partition, args.max_reads

    leadership = find_leader(args.servers, topic, partition)
    if leadership.leader is None:
        raise SystemExit(f"{topic}-{partition} has no leader")
    consumer = SimpleConsumer(leadership.leader.host, leadership.leader.port)
    offset = consumer.last_offset(topic, partition, EARLIEST)
    errors = 0
    while left > 0 and errors < 5:
        try:
            fetched = consumer.fetch(topic, partition, offset)
        except OffsetOutOfRangeError:
            errors += 1
            offset = consumer.last_offset(topic, partition, LATEST)
            continue
        except KafkaError as problem:
            errors += 1
            print(f"{leadership.leader}: {problem}; looking for the new leader")
            consumer.close()
            leadership = find_new_leader(leadership.leader, leadership.replicas, topic, partition)
            assert leadership.leader is not None
            consumer = SimpleConsumer(leadership.leader.host, leadership.leader.port)
            continue
        errors = 0
        if fetched.skipped:
            print(f"({fetched.skipped} older messages of the same compressed set skipped)")
        for record in fetched.records[:left]:
            print(f"{record.offset}: {(record.value or b'').decode(errors='replace')}")
        left -= len(fetched.records)
        offset = fetched.next_offset
        if offset >= fetched.high_watermark:
            break
    consumer.close()


if __name__ == "__main__":
    main()
