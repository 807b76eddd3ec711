"""librdkafka's transactional producer through the death of its only broker.

    PROGRAM BOOTSTRAP STRATEGY      STRATEGY is its `metadata.recovery.strategy`

It commits a transaction with offsets, prints `committed`, and waits until it knows that the broker is gone:
`down`. A line on standard input says that there is a broker again; then it does the same with a second
transaction. What that came to is the last line: `committed`, an error, or `waits` where it sends nothing any
more though it is connected and nothing is on its way.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

#: So many reports in a row say that nothing is on its way; the client itself tries again after 500 ms.
QUIET_REPORTS = 20
REPORT_MS = 250
WAIT_S = 60.0


def tell(word: str) -> None:
    """Print a line."""
    print(word, flush=True)


def every(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the report, in which a broker that was dropped has the name of its successor."""
    named: dict[str, Any] = {}
    for name, value in pairs:
        while name in named:
            name += " again"
        named[name] = value
    return named


class Told:
    """What the client reports of itself."""

    def __init__(self) -> None:
        self.down = threading.Event()
        self.quiet = 0

    def error(self, error: KafkaError) -> None:
        """Note that no broker is left."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.down.set()

    def statistics(self, text: str) -> None:
        """Count the reports in a row in which it is connected, has named its offsets, and sends nothing."""
        brokers = json.loads(text, object_pairs_hook=every)["brokers"].values()
        up = [one for one in brokers if one["state"] == "UP"]
        connected = len({one["name"] == "TxnCoordinator" for one in up}) == 2
        named = sum(one["req"].get("AddOffsetsToTxn", 0) for one in brokers) > 1
        busy = any(one["waitresp_cnt"] or one["outbuf_cnt"] for one in brokers)
        self.quiet = self.quiet + 1 if connected and named and not busy else 0


def main() -> None:
    """Do both transactions."""
    bootstrap, strategy = sys.argv[1:]
    at = {"bootstrap.servers": bootstrap}
    admin = AdminClient(at)
    for made in admin.create_topics([NewTopic("in", 1, 1), NewTopic("out", 1, 1)]).values():
        try:
            made.result(WAIT_S)
        except Exception as error:
            if "TOPIC_ALREADY_EXISTS" not in str(error):
                raise
    told = Told()
    settings: dict[str, Any] = {
        "transactional.id": f"restart-{strategy}",
        "metadata.recovery.strategy": strategy,
        "statistics.interval.ms": REPORT_MS,
        "stats_cb": told.statistics,
        "error_cb": told.error,
    }
    producer = Producer({**at, **settings})
    group = Consumer({**at, "group.id": f"restart-{strategy}"}).consumer_group_metadata()
    producer.init_transactions(WAIT_S)

    def transaction(number: int) -> None:
        producer.begin_transaction()
        producer.produce("out", b"%d" % number, partition=0)
        producer.flush(WAIT_S)
        producer.send_offsets_to_transaction([TopicPartition("in", 0, number)], group)
        producer.commit_transaction(WAIT_S)

    transaction(1)
    tell("committed")
    while not told.down.is_set():
        producer.poll(0.1)
    tell("down")
    sys.stdin.readline()
    outcome: list[str] = []

    def second() -> None:
        try:
            transaction(2)
            outcome.append("committed")
        except Exception as error:
            outcome.append(str(error))

    thread = threading.Thread(target=second, daemon=True)
    thread.start()
    while thread.is_alive() and told.quiet < QUIET_REPORTS:
        producer.poll(0.1)
    tell(outcome[0] if outcome else "waits")
    os._exit(0)  # A call that waits for ever would keep the process.


main()
