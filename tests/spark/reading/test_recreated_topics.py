"""A topic that is deleted and made again, under a running stream and between two runs of one checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.client import Admin, NewTopic

from ..conftest import Query, collecting, started_in_time

pytestmark = pytest.mark.spark


def make_again(topic: Any, values: list[str]) -> None:
    with Admin(bootstrap_servers=topic.servers) as admin:
        admin.delete_topics([topic.name])
        admin.create_topics([NewTopic(topic.name, 1, 1)])
    topic.produce(values)


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def newest_offset(checkpoint: Path) -> Any:
    last = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return json.loads(last.read_text(encoding="utf-8").splitlines()[-1])


def topic_id(topic: Any) -> str:
    from odradek.client import RawReader
    from odradek.wire.primitives import uuid_to_text

    with RawReader(topic.servers) as reader:
        return uuid_to_text(reader.look_up_topics([topic.name])[topic.name].topic_id)


@pytest.mark.parametrize("more", [80, 150])
def test_between_two_runs_of_one_checkpoint(
    more: int, new_topic: Any, read_stream: Any, tmp_path: Path
) -> None:
    topic = new_topic()
    topic.produce(numbered("old", 100))
    options = {"subscribe": topic.name, "startingOffsets": "earliest"}
    assert Query(read_stream(**options), tmp_path).run().values == numbered("old", 100)
    old = topic_id(topic)
    make_again(topic, numbered("new", more))
    new = topic_id(topic)
    with pytest.raises(Exception, match=f"(?s)DataLossError.*{old}.*{new}.*failOnDataLoss=false"):
        Query(read_stream(**options), tmp_path).run()
    again = Query(read_stream(**options, failOnDataLoss="false"), tmp_path).run()
    assert again.values == numbered("new", more)
    topic.produce(["last"])
    assert Query(read_stream(**options), tmp_path).run().values == ["last"]
    assert newest_offset(tmp_path) == {topic.name: {"0": more + 1}, f"{topic.name}#{new}": {}}


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_under_a_running_stream(
    fail_on_data_loss: str, new_topic: Any, read_stream: Any, tmp_path: Path
) -> None:
    def run() -> None:
        topic = new_topic()
        topic.produce(numbered("old", 10))
        frame = read_stream(
            subscribe=topic.name,
            startingOffsets="earliest",
            columns="value",
            failOnDataLoss=fail_on_data_loss,
            **{"fetchOffset.numRetries": 20, "fetchOffset.retryIntervalMs": 100},
        )
        with collecting(frame, tmp_path / topic.name) as (query, seen):
            query.processAllAvailable()
            old = topic_id(topic)
            make_again(topic, numbered("new", 15))
            if fail_on_data_loss == "true":
                with pytest.raises(Exception, match=f"(?s)DataLossError.*{old}.*{topic_id(topic)}"):
                    query.awaitTermination(300)
            else:
                query.processAllAvailable()
                assert seen == [*numbered("old", 10), *numbered("new", 15)]

    started_in_time(run)


def test_batch_reads_of_one_session_read_the_topic_that_is_there(new_topic: Any, read: Any) -> None:
    topic = new_topic()
    topic.produce(numbered("old", 10))
    assert len(read(subscribe=topic.name).collect()) == 10
    make_again(topic, numbered("new", 15))
    values = [bytes(row.value).decode() for row in read(subscribe=topic.name).collect()]
    assert values == numbered("new", 15)
