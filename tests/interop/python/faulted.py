"""What a client does while faults are set: the words of the programs that `interop.faulted` drives.

One line of standard input is one piece of work, answered by one line of JSON, until standard input ends:

    produce  BOOTSTRAP TOPIC idempotent|plain    writes half of the records, and the other half
    consume  BOOTSTRAP TOPIC GROUP               reads and commits them
    transact BOOTSTRAP TOPIC ID                  writes each half in a transaction
    create   BOOTSTRAP TOPIC

Between the halves it tells `{"half": true}`, and takes a line: `each` (a record is sent when the one before
is acknowledged) or `together`. `go/faulted` and `java/Faulted.java` have the same words.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

#: Numbers, in digits, each padded to nearly a batch: so each record is a batch of its own.
FIRST, REST = range(5), range(5, 10)
PADDING = 700
BATCH_BYTES = 1024

REQUEST_MS = 1_500
DELIVERY_MS = 6_000
SESSION_MS = 6_000
HEARTBEAT_MS = 300
#: How long a consumer tries to read a half, in seconds.
READ_S = 10.0
CLIENT_ID = "faulted"

Wait = Callable[[], object]


class Producer(Protocol):
    """A producer; every method but `send` returns when the broker has answered."""

    def send(self, topic: str, value: bytes) -> Wait:
        """Send to partition 0; return what waits for the acknowledgement, and raises."""

    def init(self) -> None:
        """Take the transactional id."""

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Consumer(Protocol):
    """A member of a group."""

    def poll(self) -> tuple[list[bytes], list[str]]:
        """Values, and the names of errors that came beside them; within a moment."""

    def commit(self) -> None:
        """Commit what has been returned, if anything."""

    def committed(self) -> int:
        """The offset of partition 0 that the group has committed; 0 where there is none."""

    def close(self) -> None: ...


class Library(Protocol):
    """A client library.

    `producer` makes a producer, with a transactional id where one is given; `create` makes a topic of one
    partition; `name` says what users of the library call an error.
    """

    def producer(self, bootstrap: str, *, idempotent: bool, transactional_id: str | None) -> Producer: ...

    def consumer(self, bootstrap: str, topic: str, group: str) -> Consumer: ...

    def create(self, bootstrap: str, topic: str) -> None: ...

    def name(self, error: Exception) -> str: ...


def padded(number: int) -> bytes:
    """The value of a record."""
    return f"{number}".ljust(PADDING).encode()


def half() -> str:
    """Tell that the first half is done; return the line that comes then."""
    print(json.dumps({"half": True}), flush=True)
    return sys.stdin.readline().strip()


class HungError(Exception):
    """The library waits without a limit, and the program would not."""


class Answer:
    """What is told at the end of a piece of work.

    Attributes:
        failed: the error that ended it, or nothing.
        acknowledged: the numbers that were acknowledged, by a commit where there are transactions.
        read: the numbers that were read, in order.
        told: errors after which it went on.
    """

    def __init__(self) -> None:
        self.failed = ""
        self.acknowledged: list[int] = []
        self.read: list[int] = []
        self.told: list[str] = []

    def note(self, name: str) -> None:
        """Keep the name of an error once."""
        if name not in self.told:
            self.told.append(name)

    def tell(self) -> None:
        """Print it."""
        print(json.dumps(vars(self)), flush=True)


def produce(library: Library, answer: Answer, bootstrap: str, topic: str, how: str) -> None:
    """See the module."""
    producer = library.producer(bootstrap, idempotent=how == "idempotent", transactional_id=None)

    def send(numbers: range, at_once: int) -> None:
        for begin in range(0, len(numbers), at_once):
            share = numbers[begin : begin + at_once]
            waits = [producer.send(topic, padded(number)) for number in share]
            for number, wait in zip(share, waits, strict=True):
                wait()
                answer.acknowledged.append(number)

    try:
        send(FIRST, 1)
        send(REST, len(REST) if half() == "together" else 1)
    finally:
        producer.close()


def transact(library: Library, answer: Answer, bootstrap: str, topic: str, transactional_id: str) -> None:
    """See the module."""
    producer = library.producer(bootstrap, idempotent=True, transactional_id=transactional_id)
    try:
        producer.init()
        for numbers in (FIRST, REST):
            if numbers is REST:
                half()
            producer.begin()
            for number in numbers:
                producer.send(topic, padded(number))()
            producer.commit()
            answer.acknowledged += numbers
    finally:
        producer.close()


def consume(library: Library, answer: Answer, bootstrap: str, topic: str, group: str) -> None:
    """See the module. An error of a poll or of a commit is noted, and the next poll follows."""
    consumer = library.consumer(bootstrap, topic, group)

    def read(until: int) -> bool:
        deadline = time.monotonic() + READ_S
        is_committed = True
        while time.monotonic() < deadline:
            try:
                values, told = consumer.poll()
                answer.read += [int(value) for value in values]
                for name in told:
                    answer.note(name)
                is_committed = is_committed and not values
                if not is_committed:
                    consumer.commit()
                    # A commit amid a rebalance may be one of nothing.
                    is_committed = consumer.committed() > max(answer.read)
            except Exception as error:
                answer.note(library.name(error))
            if is_committed and len(set(answer.read)) >= until:
                answer.acknowledged = sorted(set(answer.read))
                return True
        return False

    try:
        if read(FIRST.stop):
            half()
            read(REST.stop)
    finally:
        consumer.close()


def create(library: Library, answer: Answer, bootstrap: str, topic: str) -> None:
    """See the module."""
    library.create(bootstrap, topic)


def main(library: Library) -> None:
    """Work as standard input says."""
    works: dict[str, Callable[..., None]] = {
        "produce": produce, "consume": consume, "transact": transact, "create": create,
    }  # fmt: skip
    for line in sys.stdin:
        work, *words = line.split()
        answer = Answer()
        try:
            works[work](library, answer, *words)
        except HungError:
            pass  # Told by what is not there.
        except Exception as error:
            answer.failed = library.name(error)
            print(f"{line.strip()}: {error!r}", file=sys.stderr, flush=True)
        answer.tell()


def class_name(error: Any) -> str:
    """The name of an error's class, by which the users of most libraries of Python know it."""
    return type(error).__name__
