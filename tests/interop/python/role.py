"""The roles that `go/role/transactions.go` describes, for libraries of Python."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

PARTITIONS = 4
AT_ONCE = 5

TRANSACTION_MS = 300_000
"""How long a transaction may be open: no machine is so busy that the broker ends one that a test has open."""


class Record(NamedTuple):
    """A record that was read."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes


class Producer(Protocol):
    """Writes in transactions; every method returns when the broker has answered."""

    def begin(self) -> None: ...

    def send(self, topic: str, records: list[tuple[int, bytes | None, bytes]]) -> None:
        """Write records: partition, key and value."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Consumer(Protocol):
    """Reads what is committed, and commits nothing of itself."""

    def poll(self) -> Mapping[int, list[Record]]:
        """Records by partition; soon, whether there are any or not."""

    def send_offsets(self, producer: Producer, partition: int, offset: int) -> None:
        """Let the producer's transaction commit an offset."""

    def rewind(self) -> None:
        """Go on from what the group has committed."""

    def close(self) -> None: ...


class Library(NamedTuple):
    """A client library at a broker.

    Attributes:
        bootstrap: the broker's address.
        producers: makes a producer that has taken its id, of the address and the id.
        consumers: makes a consumer, of the address, a topic and a group.
    """

    bootstrap: str
    producers: Callable[[str, str], Producer]
    consumers: Callable[[str, str, str], Consumer]

    def open(self, transactional_id: str) -> Producer:
        """A producer that has taken its id."""
        return self.producers(self.bootstrap, transactional_id)

    def consumer(self, topic: str, group: str) -> Consumer:
        """A consumer of one topic."""
        return self.consumers(self.bootstrap, topic, group)


def tell(**line: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(line), flush=True)


def attempt(step: str, work: Callable[[], object]) -> bool:
    """Do something and tell what came of it."""
    try:
        work()
    except Exception as error:
        tell(step=step, error=f"{type(error).__name__} {error}")
        return False
    tell(step=step, error="")
    return True


def transact(library: Library, topic: str, transactional_id: str) -> None:
    """Do the steps of standard input, one per line."""
    opened: list[Producer] = []
    if not attempt("open", lambda: opened.append(library.open(transactional_id))):
        return
    (producer,) = opened
    for line in sys.stdin:
        step, *values = line.split()
        records = [(i % PARTITIONS, b"%d" % i, value.encode()) for i, value in enumerate(values)]
        work = {
            "begin": producer.begin,
            "send": lambda records=records: producer.send(topic, records),
            "commit": producer.commit,
            "abort": producer.abort,
        }[step]
        attempt(step, work)
    producer.close()


def until_the_end() -> threading.Event:
    """Set when standard input ends."""
    left = threading.Event()

    def read() -> None:
        sys.stdin.read()
        left.set()

    threading.Thread(target=read, daemon=True).start()
    return left


def transform(library: Library, source: str, target: str, group: str, transactional_id: str) -> None:
    """Copy each record to the same partition of another topic; every second transaction is aborted first."""
    left = until_the_end()
    consumer = library.consumer(source, group)
    producer = library.open(transactional_id)
    number = 0

    def copy(records: list[Record]) -> bool:
        nonlocal number
        number += 1
        producer.begin()
        producer.send(target, [(one.partition, one.key, one.value) for one in records])
        if number % 2 == 0:
            producer.abort()
            return False
        consumer.send_offsets(producer, records[-1].partition, records[-1].offset + 1)
        producer.commit()
        return True

    while not left.is_set():
        polled = consumer.poll()
        shares = [
            records[at : at + AT_ONCE]
            for records in polled.values()
            for at in range(0, len(records), AT_ONCE)
        ]
        try:
            for share in shares:
                while not copy(share):
                    tell(how="aborted", why="")
                tell(how="committed", why="")
        except Exception as error:
            # A new producer ends what the old one has left; then the group's offsets say how that came out.
            tell(how="failed", why=f"{type(error).__name__} {error}")
            producer.close()
            producer = library.open(transactional_id)
            consumer.rewind()
    producer.close()
    consumer.close()


def committed(library: Library, topic: str, group: str) -> None:
    """Print what is committed as it comes."""
    left = until_the_end()
    consumer = library.consumer(topic, group)
    while not left.is_set():
        for records in consumer.poll().values():
            for one in records:
                key, value = (one.key or b"").decode(), one.value.decode()
                tell(partition=one.partition, offset=one.offset, key=key, value=value, header="")
    consumer.close()


def main(producers: Callable[[str, str], Producer], consumers: Callable[[str, str, str], Consumer]) -> None:
    """Take the role of the command line: its name, the bootstrap server, and the role's own words."""
    role, bootstrap, *words = sys.argv[1:]
    library = Library(bootstrap, producers, consumers)
    {"transact": transact, "transform": transform, "committed": committed}[role](library, *words)
