"""Servers that are wrong: told soon, with what was tried and what to look at."""

import socket
from collections.abc import Iterator

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import StringType, StructType  # noqa: E402

from odradek.client import Admin, NewTopic  # noqa: E402
from odradek.client.errors import ClientTimeoutError  # noqa: E402
from odradek.spark import connections  # noqa: E402
from odradek.spark.errors import UnreachableError, WriteError  # noqa: E402
from odradek.spark.options import parse_sink, parse_source  # noqa: E402
from odradek.spark.reading.batch_reader import BatchReader  # noqa: E402
from odradek.spark.reading.offset_reader import OffsetReader  # noqa: E402
from odradek.spark.reading.stream_reader import StreamReader  # noqa: E402
from odradek.spark.writing.writer import BatchWriter  # noqa: E402
from odradek.testing import Broker  # noqa: E402


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nothing listens, and nothing will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(params=["port", "host"])
def wrong(request: pytest.FixtureRequest, nobody: str) -> str:
    return nobody if request.param == "port" else "no-such-host.invalid:9092"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second, in place of five."""
    assert connections.FIRST_CONTACT_MS == 5_000
    monkeypatch.setattr(connections, "FIRST_CONTACT_MS", 100.0)


def message(servers: str) -> str:
    return rf"{servers}: .*kafka\.bootstrap\.servers \('{servers}'\)"


def source(servers: str, *, streaming: bool, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "subscribe": "t", **more}


def test_a_batch_read_and_a_stream(wrong: str) -> None:
    # Without a word on it, as the minute and its three tries would time this test out.
    with pytest.raises(UnreachableError, match=message(wrong)):
        BatchReader(parse_source(source(wrong, streaming=False), streaming=False)).partitions()
    reader = StreamReader(parse_source(source(wrong, streaming=True), streaming=True))
    with pytest.raises(UnreachableError, match=message(wrong)):
        reader.initialOffset()


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_write(delivery: str, wrong: str) -> None:
    options = {"kafka.bootstrap.servers": wrong, "topic": "t", "deliveryGuarantee": delivery}
    writer = BatchWriter(parse_sink(options), StructType().add("value", StringType()))
    with pytest.raises(WriteError, match=message(wrong)):
        writer.write(iter([pa.record_batch({"value": ["a"]})]))


def test_who_gives_a_time_is_waited_for_so_long(nobody: str) -> None:
    given = {"kafka.default.api.timeout.ms": "50"}
    options = parse_source(source(nobody, streaming=False, **given), streaming=False)
    with pytest.raises(UnreachableError, match=r"for 0\.05 s"):
        BatchReader(options).partitions()


def test_brokers_that_were_reached_once_are_asked_again_as_often_as_ever() -> None:
    pauses: list[float] = []
    with Broker() as broker:
        given = {"kafka.default.api.timeout.ms": "300", "fetchOffset.numRetries": "4"}
        options = parse_source(source(broker.bootstrap_servers, streaming=True, **given), streaming=True)
        reader = OffsetReader(options, sleep=pauses.append)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        assert list(reader.latest().offsets.values()) == [0]
    with pytest.raises(ClientTimeoutError):
        reader.latest()
    assert len(pauses) == 3
