"""`deliveryGuarantee` "exactly-once", through Spark, on a real broker."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.spark.writing.decisions import Decision, Participant

from ..conftest import batches_of, started_in_time

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def transactions(servers: str) -> None:
    """Skips where the broker has none."""
    from odradek.client.blocking import BlockingCluster
    from odradek.client.config import ProducerConfig, build
    from odradek.wire.api import ApiKey

    cluster = BlockingCluster(build(ProducerConfig, {"bootstrap_servers": servers}), allow_auto_create=False)
    versions = cluster.any_connection().state.versions
    cluster.close()
    if versions is None or not versions.has(ApiKey.END_TXN):
        pytest.skip("the broker has no transactions")


def committed(topic: Any) -> Counter[str]:
    """The values that a read_committed reader sees, up to the end that it sees."""
    from odradek.client import RawReader

    found: Counter[str] = Counter()
    with RawReader(topic.servers, {"isolation.level": "read_committed"}) as reader:
        partitions = [(topic.name, number) for number in reader.partitions_for(topic.name)]
        for (name, number), end in reader.end_offsets(partitions).items():
            for rows in reader.fetch_columns(name, number, 0, end):
                found.update(value.decode() for value in rows.column("value").to_pylist())
    return found


def numbers(count: int) -> Counter[str]:
    return Counter(str(number) for number in range(count))


@pytest.fixture
def write(servers: str) -> Callable[..., None]:
    def save(frame: Any, **options: Any) -> None:
        writer = frame.write.format("odradek").option("kafka.bootstrap.servers", servers)
        writer.option("deliveryGuarantee", "exactly-once").options(**options).mode("append").save()

    return save


def refusal(action: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def test_a_batch_is_written(spark: Any, new_topic: Any, write: Any) -> None:
    topic = new_topic(2)
    write(spark.range(1000).selectExpr("cast(id AS string) AS value").repartition(5), topic=topic.name)
    assert committed(topic) == numbers(1000)


def test_without_rows(spark: Any, new_topic: Any, write: Any) -> None:
    topic = new_topic()
    write(spark.range(0).selectExpr("cast(id AS string) AS value"), topic=topic.name, writeId=topic.name)
    assert not committed(topic)


def test_a_named_write_happens_once(spark: Any, new_topic: Any, write: Any) -> None:
    topic = new_topic()
    frame = spark.range(100).selectExpr("cast(id AS string) AS value")
    for tasks in (3, 3, 2):
        write(frame.repartition(tasks), topic=topic.name, writeId=topic.name)
    assert committed(topic) == numbers(100)
    write(frame, topic=topic.name, writeId=topic.name, writeVersion=1)
    assert set(committed(topic).values()) == {2}
    message = refusal(lambda: write(frame, topic=topic.name, writeId=topic.name))
    assert "batch 0 comes after batch 1" in message


def test_what_a_failed_job_wrote_is_never_seen(spark: Any, new_topic: Any, write: Any) -> None:
    topic = new_topic()
    frame = spark.range(1000).selectExpr("cast(if(id = 900, raise_error('no more'), id) AS string) AS value")
    message = refusal(lambda: write(frame.repartition(2), topic=topic.name, writeId=topic.name))
    assert "no more" in message
    write(spark.range(10).selectExpr("cast(id AS string) AS value"), topic=topic.name, writeId=topic.name)
    assert committed(topic) == numbers(10)


class Stream:
    """A streaming copy of one topic to another."""

    def __init__(self, frame: Any, target: Any, checkpoint: Path, **options: Any) -> None:
        self.frame, self.target, self.checkpoint, self.options = frame, target, checkpoint, options

    def run(self) -> Any:
        return started_in_time(self._run)

    def _run(self) -> Any:
        query = (
            self.frame.selectExpr("value")
            .writeStream.format("odradek")
            .option("kafka.bootstrap.servers", self.target.servers)
            .option("topic", self.target.name)
            .option("deliveryGuarantee", "exactly-once")
            .options(**self.options)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    def forget(self, batch: int) -> None:
        """As if the driver had died before Spark noted that the batch is done."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


@pytest.fixture
def stream(new_topic: Any, read_stream: Any, tmp_path: Path) -> tuple[Any, Stream]:
    source, target = new_topic(2), new_topic(2)
    frame = read_stream(
        subscribe=source.name,
        startingOffsets="earliest",
        commitOffsetsToGroup=source.name,
        **batches_of(100),
    )
    return source, Stream(frame, target, tmp_path / "checkpoint")


def produce(source: Any, start: int, stop: int) -> None:
    for partition in (0, 1):
        source.produce([str(number) for number in range(start + partition, stop, 2)], partition)


def test_a_stream_and_its_group(stream: tuple[Any, Stream], servers: str) -> None:
    from odradek.client import Admin

    source, job = stream
    produce(source, 0, 250)
    job.run()
    assert committed(job.target) == numbers(250)
    with Admin(bootstrap_servers=servers) as admin:
        found = admin.list_group_offsets(source.name)
    # The batch is known to be over when Spark asks whether there is another one.
    assert sum(offset.offset for offset in found.values()) == 250


def test_a_batch_that_was_committed_is_recognised(stream: tuple[Any, Stream]) -> None:
    source, job = stream
    for start, stop in ((0, 100), (100, 150)):
        produce(source, start, stop)
        job.run()
    job.forget(1)
    produce(source, 150, 300)
    job.run()
    assert committed(job.target) == numbers(300)


def test_a_checkpoint_put_back_is_noticed(stream: tuple[Any, Stream]) -> None:
    source, job = stream
    produce(source, 0, 50)
    job.run()
    before = job.checkpoint.with_name("before")
    shutil.copytree(job.checkpoint, before)
    for start in (50, 100):
        produce(source, start, start + 50)
        job.run()
    shutil.rmtree(job.checkpoint)
    shutil.copytree(before, job.checkpoint)
    assert "batch 1 comes after batch 2" in refusal(job.run)
    assert committed(job.target) == numbers(150)


def test_a_driver_that_died_between_decision_and_commit(stream: tuple[Any, Stream], servers: str) -> None:
    """Its transactions are prepared and decided on by hand, as the driver leaves them."""
    import pyarrow as pa

    from odradek.spark.options import parse_sink
    from odradek.spark.writing.coordinators import Coordinators
    from odradek.spark.writing.exactly_once import Batch
    from odradek.spark.writing.task_transaction import begin

    source, job = stream
    produce(source, 0, 50)
    query = job.run()
    name = f"odradek-spark-{query.id}"
    produce(source, 50, 100)
    job.run()
    assert committed(job.target) == numbers(100)
    # Batch 2 as it will be planned: the rows of each partition are a task.
    produce(source, 100, 150)
    options = parse_sink(
        {"kafka.bootstrap.servers": servers, "topic": job.target.name, "deliveryGuarantee": "exactly-once"}
    )
    parts = []
    for task in (0, 1):
        values = [str(number) for number in range(100 + task, 150, 2)]
        transaction = begin(options, Batch(name, 2, "dead"))
        transaction.write(pa.RecordBatch.from_pydict({"value": values}))
        parts.append(Participant(task, transaction.prepare(), len(values)))
    left = begin(options, Batch(name, 2, "dead"))
    left.write(pa.RecordBatch.from_pydict({"value": ["of a dead task"]}))
    left.prepare()  # and dies before it has told
    ledger = Coordinators(options.client)
    assert len(ledger.open_transactions(name)) == 3
    ledger.take_over(name, anew=True)
    ledger.decide(name, Decision(2, "dead", 2, tuple(parts)))
    ledger.end(parts[0].transaction, commit=True)
    job.run()
    assert ledger.read_decision(name) == Decision(2, "dead", 2, tuple(parts))
    produce(source, 150, 160)
    job.run()
    # The batch after it has aborted what the dead task left, so that readers get past it.
    assert ledger.open_transactions(name) == []
    assert committed(job.target) == numbers(160)
    ledger.close()


def test_a_stream_has_no_write_id(stream: tuple[Any, Stream]) -> None:
    _, job = stream
    job.options = {"writeId": "x"}
    assert "writeId names a batch write" in refusal(job.run)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deliveryGuarantee": "exactly"}, "at-least-once, exactly-once"),
        ({"writeId": "a:b"}, "without ':'"),
        ({"writeVersion": "1"}, "which is missing"),
        ({"kafka.transactional.id": "x"}, "transactionalIdPrefix"),
        ({"kafka.acks": "1"}, "needs idempotence"),
    ],
)
def test_what_cannot_be_written_says_why(
    spark: Any, write: Any, options: dict[str, str], message: str
) -> None:
    frame = spark.sql("SELECT 'a' AS value")
    assert message in refusal(lambda: write(frame, topic="t", **options))
