"""Record what DescribeConfigs of real Kafkas answers, as golden files.

    PYTHONPATH=tests python -m interop.record_configs 2.2.2 3.9.1 3.9.1-kraft 4.3.1

starts a broker of each release and writes `tests/golden/configs/<release>.json.gz`: the properties that it
was given, and all that it says of a topic, of itself, and of the defaults for all brokers, with synonyms and
in its order; then the order of a few that were asked for by name. What depends on the machine (folders,
ports) is masked.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from interop import kafka_peer
from interop.asking import ask
from odradek.broker.kafka_versions.release import find
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from waiting import until

FOLDER = Path(__file__).parents[1] / "golden" / "configs"
TOPIC, BROKER = 2, 4
NEWEST_VERSION = 4
NAMED = {
    TOPIC: [
        "retention.ms",
        "compression.type",
        "min.insync.replicas",
        "segment.bytes",
        "flush.ms",
        "cleanup.policy",
    ],
    BROKER: [
        "num.partitions",
        "log.dirs",
        "min.insync.replicas",
        "broker.id",
        "log.retention.ms",
        "log.retention.hours",
    ],
}


def record(name: str) -> dict[str, Any]:
    """What a release answers, as it goes into the golden file."""
    patch, _, kraft = name.partition("-")
    answered = find(name).answered[DescribeConfigsRequest.API_KEY]
    version = min(NEWEST_VERSION, answered[-1])
    with (
        tempfile.TemporaryDirectory(prefix="configs-") as folder,
        kafka_peer.RealKafka(patch, Path(folder), kraft=bool(kraft)) as kafka,
    ):
        topic = CreatableTopic(name="plain", num_partitions=1, replication_factor=1)
        # With ZooKeeper a broker answers before its controller knows of it.
        error = until(
            lambda: _created(kafka.port, topic),
            "a controller that knows of the broker",
            holds=lambda error: error != ErrorCode.INVALID_REPLICATION_FACTOR,
            every_s=0.1,
        )
        assert error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), error
        properties = dict(
            line.split("=", 1)
            for line in (Path(folder) / "server.properties").read_text(encoding="utf-8").splitlines()
        )
        found = {
            "release": name,
            "version": version,
            "properties": properties,
            "results": _describe(
                kafka.port,
                version,
                # The defaults for all brokers came with dynamic configs.
                ((TOPIC, "plain"), (BROKER, "1"), *([(BROKER, "")] if find(name).at_least("1.1") else [])),
            ),
            "named": {
                str(kind): [
                    one["name"]
                    for one in _describe(kafka.port, version, ((kind, of),), NAMED[kind])[0]["configs"]
                ]
                for kind, of in ((TOPIC, "plain"), (BROKER, "1"))
            },
        }
        return _masked(found, {folder: "/kafka", **_ports(properties, kafka.port)})


def _created(port: int, topic: CreatableTopic) -> int:
    return int(ask(port, CreateTopicsRequest(topics=[topic]), 2).topics[0].error_code)


def _describe(
    port: int, version: int, resources: tuple[tuple[int, str], ...], names: list[str] | None = None
) -> list[dict[str, Any]]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=names)
            for kind, name in resources
        ]
    )
    if version >= 1:
        request.include_synonyms = True
    answer = ask(port, request, version).to_json(version)
    for result in answer["results"]:
        assert result["errorCode"] == 0, result
    return list(answer["results"])


def _ports(properties: dict[str, str], port: int) -> dict[str, str]:
    """The broker's port becomes 9092, that of its controller or ZooKeeper 9093."""
    other = properties.get("controller.quorum.voters") or properties["zookeeper.connect"]
    return {f":{port}": ":9092", f":{other.rpartition(':')[2]}": ":9093"}


def _masked(value: Any, masks: dict[str, str]) -> Any:
    if isinstance(value, str):
        for real, mask in masks.items():
            value = value.replace(real, mask)
        return value
    if isinstance(value, list):
        return [_masked(one, masks) for one in value]
    if isinstance(value, dict):
        return {key: _masked(one, masks) for key, one in value.items()}
    return value


def main(names: list[str]) -> None:
    """Record these releases."""
    FOLDER.mkdir(exist_ok=True)
    for name in names:
        text = json.dumps(record(name), separators=(",", ":"))
        path = FOLDER / f"{name}.json.gz"
        # Without a time of writing, so that the same answers make the same file.
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        print(f"{path.name}: {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
