"""ARCHITECTURE.md's walks are those that requests take: each is sent to a broker, and the files are noted."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from compiled_walk import only_interpreted
from odradek.client import Consumer, Producer
from odradek.testing import Broker

from .blocks import ROOT

pytestmark = only_interpreted

SOURCE = ROOT / "src" / "odradek"
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
_PATH = re.compile(r"`((?:\w+/)+\w+\.py)`")


def _between(start: str, end: str) -> str:
    return PAGE.partition(start)[2].partition(end)[0]


def _file(path: str) -> str:
    """A path as the page has it, from the package on; handlers are named without their room."""
    return path if (SOURCE / path).exists() else f"broker/{path}"


STEPS = re.split(r"^(?=\d\. )", _between("Read these files in this order", "A fetch is"), flags=re.M)[1:]
PRODUCE = [_file(_PATH.findall(step)[0]) for step in STEPS]
FETCH = [_file(path) for path in _PATH.findall(_between("A fetch is the same walk back", "With too little"))]
COMMIT = [_file(path) for path in _PATH.findall(_between("A commit of a consumer group", "\n\n"))]
END = [_file(path) for path in _PATH.findall(_between("The end of a transaction", "\n\n"))]


class Visits:
    """Files of the package in the order in which the broker's thread first comes to them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.files: list[str] = []
        self._seen: set[str] = set()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name not in self._seen:
            self._seen.add(name)
            if Path(name).is_relative_to(SOURCE):
                self.files.append(Path(name).relative_to(SOURCE).as_posix())

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is visited in the block."""
        self.files.clear()
        self._seen.clear()
        self._broker.call(lambda _: sys.setprofile(self._profile))
        try:
            yield
        finally:
            self._broker.call(lambda _: sys.setprofile(None))

    def places(self, walk: list[str]) -> list[int]:
        """Where the files of a walk come in the visits."""
        missing = [file for file in walk if file not in self.files]
        assert not missing, f"named, but not visited: {missing}"
        return [self.files.index(file) for file in walk]


@pytest.fixture(scope="module")
def visits() -> Iterator[Visits]:
    with Broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1) as broker:
        yield Visits(broker)


def test_the_walk_of_a_produce_request(visits: Visits) -> None:
    assert len(PRODUCE) == 8
    assert PRODUCE[-1] == PRODUCE[0], "the last step is where the first was"
    with Producer(bootstrap_servers=visits._broker.bootstrap_servers, acks="all") as producer:
        producer.send("walked", b"first: what is imported on first use is").result()
        with visits.noted():
            producer.send("walked", b"second").result()
    places = visits.places(PRODUCE[:-1])
    assert places == sorted(places), visits.files


def test_the_walk_of_a_fetch(visits: Visits) -> None:
    assert len(FETCH) >= 6
    servers = visits._broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("fetched", b"value").result()
    options: dict[str, Any] = {"group_id": "f", "auto_offset_reset": "earliest"}
    with Consumer("fetched", bootstrap_servers=servers, **options) as consumer, visits.noted():
        assert next(iter(consumer)).value == b"value"
    visits.places(FETCH)


def test_the_walk_of_a_commit(visits: Visits) -> None:
    servers = visits._broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("committed", b"value").result()
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer("committed", bootstrap_servers=servers, **options) as consumer:
        assert next(iter(consumer)).value == b"value"
        with visits.noted():
            consumer.commit()
    places = visits.places(COMMIT)
    assert places == sorted(places)


def test_the_walk_of_a_transaction_s_end(visits: Visits) -> None:
    with Producer(bootstrap_servers=visits._broker.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("in-transaction", b"value")
        producer.flush()
        with visits.noted():
            producer.commit_transaction()
    places = visits.places(END)
    assert (places[0], places[-1]) == (min(places), max(places)), visits.files
