"""One Spark session and one broker for all tests of a run; topics of their own for each test."""

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from waiting import WITHIN_S

_numbers = itertools.count()


@pytest.fixture(scope="session")
def servers() -> Iterator[str]:
    """A broker of ours; or, if ODRADEK_TEST_SERVERS names some, any Kafka."""
    given = os.environ.get("ODRADEK_TEST_SERVERS")
    if given:
        yield given
        return
    from odradek.testing import Broker

    # Some tests write records of years ago, which retention would delete while a test reads them.
    with Broker(log_retention_check_interval_ms=24 * 3_600_000) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from odradek.spark import session

    warehouse = tmp_path_factory.mktemp("warehouse")
    spark = session("tests", "local[2]", conf={"spark.sql.warehouse.dir": str(warehouse)}, log_level="OFF")
    yield spark
    spark.stop()


class Topic:
    """A topic to fill and to look at."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers = servers
        self.name = name

    def produce(
        self,
        values: Iterable[str | bytes | None],
        partition: int = 0,
        key: bytes | None = None,
        timestamps_ms: Iterable[int | None] = itertools.repeat(None),
        headers: Any = (),
    ) -> None:
        """Write values to one partition and wait until they are there."""
        from odradek.client import Producer

        with Producer(bootstrap_servers=self.servers, linger_ms=5) as producer:
            futures = [
                producer.send(
                    self.name,
                    value.encode() if isinstance(value, str) else value,
                    key=key,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                )
                for value, timestamp_ms in zip(values, timestamps_ms, strict=False)
            ]
            producer.flush()
            for future in futures:
                future.result(WITHIN_S)

    def offsets(self, *offsets: int) -> str:
        """The JSON that names one offset for each partition, in order."""
        return json.dumps({self.name: {str(number): offset for number, offset in enumerate(offsets)}})

    def ends(self) -> dict[int, int]:
        from odradek.client import RawReader

        with RawReader(self.servers) as reader:
            partitions = [(self.name, number) for number in reader.partitions_for(self.name)]
            return {tp[1]: end for tp, end in reader.end_offsets(partitions).items()}

    def values(self) -> list[str]:
        """All values, partition by partition."""
        from odradek.client import RawReader

        found: list[str] = []
        with RawReader(self.servers) as reader:
            for number, end in sorted(self.ends().items()):
                for rows in reader.fetch_columns(self.name, number, 0, end):
                    found += [value.decode() for value in rows.column("value").to_pylist()]
        return found


@pytest.fixture
def new_topic(servers: str) -> Callable[..., Topic]:
    """Makes a topic: `new_topic(partitions=2, max_message_bytes=1000)`."""

    def make(partitions: int = 1, name: str = "", **configs: Any) -> Topic:
        from odradek.client import Admin, NewTopic

        name = name or f"spark-test-{os.getpid()}-{next(_numbers)}"
        with Admin(bootstrap_servers=servers) as admin:
            settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
            admin.create_topics([NewTopic(name, partitions, replication_factor=1, configs=settings)])
        return Topic(servers, name)

    return make


@pytest.fixture
def read(spark: Any, servers: str) -> Callable[..., Any]:
    """A batch DataFrame: `read(subscribe="t", minPartitions=2)`."""

    def load(**options: Any) -> Any:
        return (
            spark.read.format("odradek").option("kafka.bootstrap.servers", servers).options(**options).load()
        )

    return load


@pytest.fixture
def read_stream(spark: Any, servers: str) -> Callable[..., Any]:
    """A streaming DataFrame, as `read`."""

    def load(**options: Any) -> Any:
        reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", servers)
        return reader.options(**options).load()

    return load


def batches_of(offsets: int) -> dict[str, Any]:
    """The options for micro-batches of so many offsets; none on PySpark 4.1, where a source has no limits."""
    from odradek.spark.reading.stream_reader import HAS_LIMITS

    return {"maxOffsetsPerTrigger": offsets} if HAS_LIMITS else {}


_STARTS = 20


def started_in_time(action: Callable[[], Any]) -> Any:
    """The result of `action`, which is run again while Spark gave a new Python process too little time.

    Spark waits 10 s for it to connect, whatever its settings say; on a busy machine that is short.
    """
    for start in range(_STARTS):
        try:
            return action()
        except Exception as problem:
            if "failed to connect back" not in str(problem) or start == _STARTS - 1:
                raise
    raise AssertionError("unreachable")


@contextmanager
def collecting(frame: Any, checkpoint: Path) -> Iterator[tuple[Any, list[str]]]:
    """A query that runs all the time, and the list to which it adds the values that it reads."""
    seen: list[str] = []
    query = (
        frame.writeStream.foreachBatch(
            lambda batch, _: seen.extend(bytes(row.value).decode() for row in batch.collect())
        )
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        yield query, seen
    finally:
        query.stop()


class Query:
    """A streaming query that collects the values of each batch, with its checkpoint in a folder."""

    def __init__(self, frame: Any, checkpoint: Path) -> None:
        self._frame = frame
        self._checkpoint = checkpoint
        self.batches: list[list[str]] = []

    def run(self) -> "Query":
        """Read all that is there (`Trigger.AvailableNow`); `batches` holds the values of each batch."""
        started_in_time(self._run)
        return self

    def _run(self) -> None:
        self.batches = []

        def collect(batch: Any, batch_id: int) -> None:
            rows = batch.orderBy("topic", "partition", "offset").collect()
            self.batches.append([bytes(row.value).decode() for row in rows])

        query = (
            self._frame.writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    @property
    def values(self) -> list[str]:
        return [value for batch in self.batches for value in batch]
