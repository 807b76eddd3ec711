"""Fill the topic `orders` that the other examples read: `python examples/orders.py --count 10000`.

One JSON document for each order, keyed by product: {"order": 0, "product": "tea", "quantity": 1,
"price_cents": 350, "time_ms": 1767225600000}. Every fiftieth is broken, as in real life.
"""

import argparse
import json
from collections.abc import Iterator

from odradek import Producer

PRICES_CENTS = {"tea": 350, "coffee": 420, "mate": 510}
FIRST_ORDER_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
MS_BETWEEN_ORDERS = 250


def orders(first: int, count: int) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of the orders from number `first` on."""
    products = list(PRICES_CENTS)
    for number in range(first, first + count):
        product = products[number % len(products)]
        order = {
            "order": number,
            "product": product,
            "quantity": 1 + number % 4,
            "price_cents": PRICES_CENTS[product],
            "time_ms": FIRST_ORDER_MS + number * MS_BETWEEN_ORDERS,
        }
        text = json.dumps(order)
        yield product.encode(), (text[:-9] if number % 50 == 49 else text).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    args = parser.parse_args()
    with Producer(bootstrap_servers=args.servers, linger_ms=5, compression_type="lz4") as producer:
        for key, value in orders(args.first, args.count):
            producer.send(args.topic, key=key, value=value)
    print(f"{args.count} orders are in topic {args.topic}")


if __name__ == "__main__":
    main()
