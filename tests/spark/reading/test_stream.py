"""`spark.readStream` and `df.writeStream` with `format("odradek")`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from odradek.spark.watching.progress import offsets_behind_latest

from ..conftest import Query, batches_of, started_in_time

pytestmark = pytest.mark.spark


def test_a_stream_goes_on_where_its_checkpoint_says(new_topic: Any, read_stream: Any, tmp_path: Path) -> None:
    topic = new_topic(2)
    topic.produce("ab", 0)
    query = Query(read_stream(subscribe=topic.name, startingOffsets="earliest"), tmp_path)
    assert query.run().values == ["a", "b"]
    topic.produce("c", 1)
    topic.produce("d", 0)
    assert query.run().values == ["d", "c"]
    assert query.run().values == []
    # The checkpoint holds what the connector would have written.
    last = max((tmp_path / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    offsets = json.loads(last.read_text(encoding="utf-8").splitlines()[-1])
    assert offsets.pop(topic.name) == {"0": 3, "1": 1}
    # And the topic's id. PySpark 4.1 begins anew with each run, and that is noted, too.
    assert all(name.startswith(f"{topic.name}#") and notes == {} for name, notes in offsets.items())
    assert len([name for name in offsets if "#began:" not in name]) == 1


def test_latest_means_when_the_query_was_first_started(
    new_topic: Any, read_stream: Any, tmp_path: Path
) -> None:
    topic = new_topic()
    topic.produce("ab")
    query = Query(read_stream(subscribe=topic.name), tmp_path)
    assert query.run().values == []
    topic.produce("cd")
    assert query.run().values == ["c", "d"]


def test_a_batch_takes_about_as_much_as_allowed(new_topic: Any, read_stream: Any, tmp_path: Path) -> None:
    topic = new_topic(2)
    topic.produce([f"a{number}" for number in range(30)], 0)
    topic.produce([f"b{number}" for number in range(10)], 1)
    frame = read_stream(subscribe=topic.name, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    query = Query(frame, tmp_path)
    if not batches_of(20):
        with pytest.raises(Exception, match=r"maxOffsetsPerTrigger .* pyspark 4\.2 or newer"):
            query.run()
        return
    query.run()
    assert [len(batch) for batch in query.batches] == [20, 20]
    assert query.batches[0] == [f"a{number}" for number in range(15)] + [f"b{number}" for number in range(5)]


def test_new_partitions_are_read_from_their_beginning(
    new_topic: Any, read_stream: Any, tmp_path: Path
) -> None:
    first = new_topic(name="")
    first.produce("a")
    query = Query(read_stream(subscribePattern=f"^{first.name}(-more)?$", startingOffsets="latest"), tmp_path)
    query.run()
    second = new_topic(name=f"{first.name}-more")
    second.produce("b")
    first.produce("c")
    assert query.run().values == ["c", "b"]


def test_start_by_timestamp(new_topic: Any, read_stream: Any, tmp_path: Path) -> None:
    topic = new_topic()
    topic.produce("abc", timestamps_ms=[1000, 2000, 3000])
    query = Query(read_stream(subscribe=topic.name, startingTimestamp=2000), tmp_path)
    assert query.run().values == ["b", "c"]


def test_deleted_records_fail_the_query_or_are_skipped(
    new_topic: Any, read_stream: Any, tmp_path: Path
) -> None:
    from odradek.client import Admin

    topic = new_topic()
    topic.produce("ab")
    options = {"subscribe": topic.name, "startingOffsets": "earliest"}
    assert Query(read_stream(**options), tmp_path).run().values == ["a", "b"]
    topic.produce("cdef")
    with Admin(bootstrap_servers=topic.servers) as admin:
        admin.delete_records({(topic.name, 0): 4})
    with pytest.raises(Exception, match="DataLossError"):
        Query(read_stream(**options), tmp_path).run()
    assert Query(read_stream(**options, failOnDataLoss="false"), tmp_path).run().values == ["e", "f"]


def test_what_is_deleted_before_the_first_batch_runs_again(
    new_topic: Any, read_stream: Any, tmp_path: Path
) -> None:
    """Spark asks once more where the query starts, which the beginning of the topic has left by then."""
    from odradek.client import Admin

    topic = new_topic()
    topic.produce("abcdef")
    options = {"subscribe": topic.name, "startingOffsets": "earliest"}

    def fail(batch: Any, batch_id: int) -> None:
        raise RuntimeError("the first try")

    def run() -> None:
        writer = read_stream(**options).writeStream.foreachBatch(fail).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()

    with pytest.raises(Exception, match="the first try"):
        started_in_time(run)
    with Admin(bootstrap_servers=topic.servers) as admin:
        admin.delete_records({(topic.name, 0): 4})
    with pytest.raises(Exception, match="DataLossError"):
        Query(read_stream(**options), tmp_path).run()
    assert Query(read_stream(**options, failOnDataLoss="false"), tmp_path).run().values == ["e", "f"]
    # Where the first batch began is in its end alone, and is no reason for another batch.
    assert Query(read_stream(**options), tmp_path).run().batches == []
    topic.produce("g")
    assert Query(read_stream(**options), tmp_path).run().values == ["g"]


def test_an_option_that_is_wrong_is_told_at_load_or_fails_the_query(read_stream: Any, tmp_path: Path) -> None:
    for wrong, message in (
        ({"subscribe": "t", "startingOffsetz": "latest"}, "did you mean 'startingOffsets'?"),
        ({"subscribe": "t", "startingTimestamp": "noon"}, "Expected a single long value"),
        ({"subscribePattern": "a("}, "subscribePattern is not a regular expression"),
        ({}, "One of the following options must be specified"),
    ):
        with pytest.raises(Exception, match=re.escape(message)):
            read_stream(**wrong)
    # Spark does not say at load() whether this will be a batch, where it has a meaning.
    with pytest.raises(Exception, match="ending offset not valid in streaming queries") as caught:
        Query(read_stream(subscribe="t", endingOffsets="latest"), tmp_path).run()
    assert "UnboundLocalError" not in str(caught.value)


def test_topic_to_topic(new_topic: Any, read_stream: Any, servers: str, tmp_path: Path) -> None:
    source, target = new_topic(2), new_topic()
    source.produce([str(number) for number in range(500)], 0)
    writer = (
        read_stream(subscribe=source.name, startingOffsets="earliest", includeHeaders="true")
        .selectExpr("key", "concat('got ', cast(value AS string)) AS value", "headers")
        .writeStream.format("odradek")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target.name)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
    )

    def run() -> Any:
        query = writer.start()
        query.awaitTermination()
        return query

    query = started_in_time(run)
    assert target.values() == [f"got {number}" for number in range(500)]
    # Spark knows how far the source is, and how far it could be.
    source_progress = query.lastProgress.sources[0]
    told = json.loads(source_progress.json)
    assert told["endOffset"][source.name] == told["latestOffset"][source.name] == {"0": 500, "1": 0}
    assert offsets_behind_latest(source_progress)["maxOffsetsBehindLatest"] == "0"


def test_a_running_stream_sees_what_comes(new_topic: Any, read_stream: Any, tmp_path: Path) -> None:
    topic = new_topic()
    seen: list[str] = []
    query = (
        read_stream(subscribe=topic.name, startingOffsets="earliest", columns="value")
        .writeStream.foreachBatch(
            lambda batch, _: seen.extend(bytes(r.value).decode() for r in batch.collect())
        )
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        for value in "abc":
            topic.produce(value)
            query.processAllAvailable()
        assert seen == ["a", "b", "c"]
    finally:
        query.stop()


def test_a_finished_batch_shows_in_the_group(new_topic: Any, read_stream: Any, tmp_path: Path) -> None:
    from odradek.client import Admin

    topic = new_topic()
    topic.produce("abc")
    group = f"{topic.name}-group"
    frame = read_stream(subscribe=topic.name, startingOffsets="earliest", **{"kafka.group.id": group})
    query = Query(frame, tmp_path)
    query.run()
    for end in (3, 4):
        with Admin(bootstrap_servers=topic.servers) as admin:
            assert admin.list_group_offsets(group)[(topic.name, 0)].offset == end
        topic.produce("d")
        query.run()
