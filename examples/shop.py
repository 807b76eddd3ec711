"""Fill the topics of the pipelines: `python examples/shop.py`.

- `customers`: the changes of a table, keyed by customer: a JSON document with the new state, or null where
  the customer has gone; the topic is compacted, so that the last one of each key stays.
- `clicks`: what customers look at: {"customer": "c7", "page": "/tea", "time_ms": 1767225600000}, not quite in
  order, now and then broken, and stamped with their time.
"""

import argparse
import json
from collections.abc import Iterator

from odradek import Admin, NewTopic, Producer
from odradek.errors import ErrorCode, KafkaError

FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
PAGES = ("/", "/tea", "/coffee", "/mate", "/basket")
CUSTOMERS = 20


def changes(first: int, count: int) -> Iterator[tuple[str, str | None]]:
    """(key, value) of the changes from number `first` on."""
    for number in range(first, first + count):
        key = f"c{number * 7 % CUSTOMERS}"
        document = {
            "name": f"Customer {key[1:]}",
            "city": ("Prague", "Graz", "Lviv")[number % 3],
            "change": number,
        }
        yield key, None if number % 13 == 12 else json.dumps(document)


def clicks(first: int, count: int) -> Iterator[tuple[str, str, int]]:
    """(key, value, timestamp in ms) of the clicks from number `first` on."""
    for number in range(first, first + count):
        # Some seconds between clicks, an hour after every hundredth; every fifth is a bit late.
        time_ms = FIRST_MS + 4_000 * number + 3_600_000 * (number // 100) - (9_000 if number % 5 == 4 else 0)
        key = f"c{number * number % CUSTOMERS}"
        text = json.dumps({"customer": key, "page": PAGES[number % 5], "time_ms": time_ms})
        yield key, text[:-9] if number % 50 == 49 else text, time_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    topics = [
        NewTopic("customers", 2, 1, configs={"cleanup.policy": "compact"}),
        NewTopic("clicks", 2, 1),
    ]
    with Admin(bootstrap_servers=args.servers) as admin:
        for topic in topics:
            try:
                admin.create_topics([topic])
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
    with Producer(bootstrap_servers=args.servers, linger_ms=5) as producer:
        for key, value in changes(args.first, args.count):
            producer.send("customers", key=key, value=value)
        for key, click, time_ms in clicks(args.first, args.count):
            producer.send("clicks", key=key, value=click, timestamp_ms=time_ms)
    print(f"{args.count} changes are in topic customers, {args.count} clicks in topic clicks")


if __name__ == "__main__":
    main()
