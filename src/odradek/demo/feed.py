"""Two producers of real events: this machine's counters, and the broker's own request log.

The second one feeds on what the first one causes, and on itself; since it sends what has come since its last
look in one request, each look adds about one line to the next.
"""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from odradek.client import Producer
from odradek.demo.counters import sample

COUNTERS = "machine-counters"
REQUESTS = "broker-requests"


class Feed:
    """A thread that produces what `events` yields, again and again, until it is stopped.

    Args:
        bootstrap_servers: the broker.
        topic: where the events go.
        events: yields (key, value) of what is new.
        interval_s: seconds between two looks.

    Attributes:
        acknowledged: events that the broker has confirmed to be in the log.
        failure: what ended the thread, if anything did.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        events: Callable[[], Iterator[tuple[str, str]]],
        interval_s: float,
    ) -> None:
        self.topic = topic
        self.acknowledged = 0
        self.failure: Exception | None = None
        self._events = events
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._producer = Producer(
            bootstrap_servers=bootstrap_servers,
            client_id=f"demo-{topic}",
            compression_type="lz4",
            linger_ms=5,
        )
        self._thread = threading.Thread(target=self._run, name=f"feed {topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send what is new for a last time, and wait until it is acknowledged."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._producer as producer:
                while not self._stopping.wait(self._interval_s):
                    self._send(producer)
                self._send(producer)
        except Exception as failure:  # shown by the demo, whatever it is
            self.failure = failure

    def _send(self, producer: Producer) -> None:
        futures = [
            producer.send(self.topic, key=key.encode(), value=value.encode()) for key, value in self._events()
        ]
        producer.flush()
        for future in futures:
            future.result()
            self.acknowledged += 1


def machine_counters() -> Iterator[tuple[str, str]]:
    """The counters now, each keyed by its kind."""
    for event in sample():
        yield event["kind"], json.dumps(event)


class FollowedFile:
    """The lines that are added to a file after this is made, whole ones only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._partial = b""

    def new_lines(self) -> Iterator[str]:
        """Yield what has come since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._position)
            added = file.read()
        self._position += len(added)
        *lines, self._partial = (self._partial + added).split(b"\n")
        for line in lines:
            yield line.decode()


def broker_requests(log: FollowedFile) -> Callable[[], Iterator[tuple[str, str]]]:
    """The new lines of the broker's request log, each keyed by the name of its API."""

    def events() -> Iterator[tuple[str, str]]:
        for line in log.new_lines():
            yield json.loads(line)["api"], line

    return events
