"""What real clients asked a real Kafka about topics and configs, asked again: our answers beside Kafka's."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_request_header, decode_response
from odradek.wire.messages import request_class

from ..admin_world import World

TRANSCRIPTS = Path(__file__).parents[2] / "golden" / "transcripts"
ASKED = {
    ApiKey.METADATA,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_CLUSTER,
}


def _exchanges(release: str) -> list[tuple[int, int, Any, Any]]:
    """(key, version, request, response) in the order of the answers."""
    asked: dict[tuple[int, int], tuple[int, int, Any]] = {}
    found: list[tuple[int, int, Any, Any]] = []
    with gzip.open(TRANSCRIPTS / f"{release}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            if entry["key"] not in ASKED:
                continue
            frame = bytes.fromhex(entry["hex"])
            place = (entry["conn"], entry["correlation"])
            if entry["dir"] == "request":
                header, body = decode_request_header(frame)
                message = request_class(header.api_key).decode(memoryview(frame)[body:], header.api_version)
                asked[place] = (header.api_key, header.api_version, message)
            else:
                key, version, message = asked.pop(place)
                found.append((key, version, message, decode_response(frame, key, version)[1]))
    return found


@pytest.mark.parametrize(
    "release", ["0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.0.0", "2.0.1", "2.2.2", "3.9.1", "4.4.0"]
)
def test_our_answers_are_kafkas(release: str) -> None:
    exchanges = _exchanges(release)
    kafka = next(theirs for key, _, _, theirs in exchanges if key == ApiKey.METADATA)
    broker = kafka.brokers[0]
    world = World(
        # The recorded broker was a 3.9.1, whatever the client.
        {
            "num.partitions": "2",
            "offsets.topic.num.partitions": "5",
            "odradek.kafka.version": "3.9",
        },
        broker_id=broker.node_id,
        host=broker.host,
        port=broker.port,
    )
    compared = 0
    for key, version, request, theirs in exchanges:
        ours = world.call(request, version)
        known = {topic.name for topic in getattr(theirs, "topics", [])}
        ours_json, theirs_json = _plain(key, ours.to_json(version)), _plain(key, theirs.to_json(version))
        if key == ApiKey.METADATA and not request.topics:
            # All topics: the recorded broker also has its internal ones and those of other sessions.
            ours_names = {topic.name for topic in ours.topics}
            assert ours_names <= known | {None}
            del ours_json["topics"], theirs_json["topics"]
        if key == ApiKey.METADATA:
            _forgive_delay(ours_json, theirs_json)
        assert ours_json == theirs_json, (key, version, request)
        compared += 1
    assert compared > 2


def _forgive_delay(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Kafka needs a moment for what it creates and says LEADER_NOT_AVAILABLE until then, we only once."""
    waiting = {topic["name"] for topic in theirs.get("topics", []) if topic["errorCode"] == 5}
    for answer in (ours, theirs):
        if "topics" in answer:
            answer["topics"] = [topic for topic in answer["topics"] if topic["name"] not in waiting]


def _plain(key: int, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs from cluster to cluster."""
    answer.pop("clusterId", None)
    for topic in answer.get("topics", []):
        topic.pop("topicId", None)
        if key == ApiKey.CREATE_TOPICS and topic.get("configs") is not None:
            topic["configs"].sort(key=lambda config: config["name"])
        for partition in topic.get("partitions", []):
            partition.pop("leaderEpoch", None)
        topic.get("partitions", []).sort(key=lambda partition: partition["partitionIndex"])
    for result in answer.get("results", []):
        result.get("configs", []).sort(key=lambda config: config["name"])
    return answer
