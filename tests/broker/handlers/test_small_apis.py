"""ApiVersions, ListOffsets, DeleteRecords and OffsetForLeaderEpoch against a whole broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from odradek.broker.apis.registry import SERVED, Handlers
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages import request_class
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from ..live import append, batch, connect, create_topic, running
from ..net import run

NOW = 1_700_000_000_000


def test_every_handler_registers_what_the_table_says() -> None:
    handlers = Handlers()
    handlers.load_all()
    for key, versions in handlers.versions():
        entry = handlers.get(key)
        assert entry is not None
        assert entry.versions == versions == SERVED[key].versions
        declared = request_class(key).VERSIONS
        assert versions[0] in declared
        assert versions[-1] in declared
    assert handlers.get(int(ApiKey.CONSUMER_GROUP_HEARTBEAT)) is None


@pytest.mark.parametrize("version", range(6))
def test_api_versions_lists_what_is_served(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await connect(broker)
            request = ApiVersionsRequest(client_software_name="odradek-test", client_software_version="1.0")
            response = await client.call(request, version)
            assert response.error_code == 0
            listed = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
            assert listed == {key: (s.versions[0], s.versions[-1]) for key, s in SERVED.items() if s.listed}
            client.close()

    run(main)


OURS = "ours"
API_VERSIONS_REFUSALS: list[tuple[int, dict[str, Any], ErrorCode]] = [
    (3, {"client_software_name": ""}, ErrorCode.INVALID_REQUEST),
    (3, {"client_software_name": "-x"}, ErrorCode.INVALID_REQUEST),
    (4, {"client_software_version": "1 0"}, ErrorCode.INVALID_REQUEST),
    (3, {"client_software_name": "a", "client_software_version": "1"}, ErrorCode.NONE),
    (5, {"cluster_id": OURS, "node_id": 0}, ErrorCode.NONE),
    (5, {"cluster_id": OURS, "node_id": 7}, ErrorCode.REBOOTSTRAP_REQUIRED),
    (5, {"cluster_id": "other", "node_id": 0}, ErrorCode.REBOOTSTRAP_REQUIRED),
    (5, {"cluster_id": OURS}, ErrorCode.INVALID_REQUEST),
    (5, {"node_id": 0}, ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("version", "fields", "code"), API_VERSIONS_REFUSALS)
def test_api_versions_checks_the_client(
    version: int, fields: dict[str, Any], code: ErrorCode, tmp_path: Path
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await connect(broker)
            given = {"client_software_name": "x", "client_software_version": "1", **fields}
            if given.get("cluster_id") == OURS:
                given["cluster_id"] = broker.cluster_id
            response = await client.call(ApiVersionsRequest(**given), version)
            assert ErrorCode(response.error_code) == code
            assert bool(response.api_keys) is (code == ErrorCode.NONE)
            client.close()

    run(main)


def list_offsets(timestamp: int, *, topic: str = "t", index: int = 0, **fields: Any) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=fields.pop("replica_id", -1),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)],
            )
        ],
    )


LOOKUPS = [
    # timestamp, from version, offset, timestamp found
    (-1, 1, 6, -1),
    (-2, 1, 0, -1),
    (-3, 7, 5, NOW + 5),
    (-4, 8, 0, -1),
    (-5, 9, -1, -1),
    (-6, 11, -1, -1),
    (-7, 99, -1, -1),
    (NOW + 2, 1, 2, NOW + 2),
    (NOW + 99, 1, -1, -1),
]


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            await append(client, "t", batch([b"x"] * 6, timestamp=NOW))
            for timestamp, first_version, offset, found_timestamp in LOOKUPS:
                response = await client.call(list_offsets(timestamp), version)
                answer = response.topics[0].partitions[0]
                if version < first_version:
                    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
                else:
                    assert (answer.error_code, answer.offset, answer.timestamp) == (
                        0,
                        offset,
                        found_timestamp,
                    )
                    assert answer.leader_epoch == (0 if version >= 4 and offset >= 0 else -1)
            client.close()

    run(main)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"index": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "nobody"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 4}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current_leader_epoch": 0}, ErrorCode.NONE),
        ({"replica_id": -2}, ErrorCode.NONE),
    ],
)
def test_list_offsets_errors(fields: dict[str, Any], code: ErrorCode, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            response = await client.call(list_offsets(-1, **fields), 7)
            assert ErrorCode(response.topics[0].partitions[0].error_code) == code
            client.close()

    run(main)


def test_a_partition_named_twice_is_a_mistake(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 2)
            client = await connect(broker)
            request = list_offsets(-1)
            request.topics[0].partitions += [
                ListOffsetsPartition(partition_index=0, timestamp=-2),
                ListOffsetsPartition(partition_index=1, timestamp=-2),
            ]
            answers = (await client.call(request, 7)).topics[0].partitions
            assert [ErrorCode(one.error_code) for one in answers] == [
                ErrorCode.INVALID_REQUEST,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.NONE,
            ]
            client.close()

    run(main)


@pytest.mark.parametrize("version", range(3))
def test_delete_records(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            await create_topic(broker, "compacted", configs={"cleanup.policy": "compact"})
            client = await connect(broker)
            await append(client, "t", batch([b"x"] * 6))

            async def delete(offset: int, topic: str = "t", index: int = 0) -> tuple[ErrorCode, int]:
                partition = DeleteRecordsPartition(partition_index=index, offset=offset)
                request = DeleteRecordsRequest(
                    topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=100
                )
                answer = (await client.call(request, version)).topics[0].partitions[0]
                assert answer.partition_index == index
                return ErrorCode(answer.error_code), answer.low_watermark

            assert await delete(2) == (ErrorCode.NONE, 2)
            assert await delete(1) == (ErrorCode.NONE, 2)
            assert await delete(7) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
            assert await delete(-2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
            assert await delete(-1) == (ErrorCode.NONE, 6)
            assert await delete(0, "compacted") == (ErrorCode.POLICY_VIOLATION, -1)
            assert await delete(0, "nobody") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
            assert await delete(0, index=5) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
            client.close()
        async with running(tmp_path) as broker:
            assert broker.replicas.get("t", 0).log.log_start_offset == 6

    run(main)


@pytest.mark.parametrize("version", range(5))
def test_offset_for_leader_epoch(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            await append(client, "t", batch([b"x"] * 6))

            async def ask(epoch: int, current: int = -1, topic: str = "t") -> tuple[ErrorCode, int, int]:
                partition = OffsetForLeaderPartition(
                    partition=0, leader_epoch=epoch, current_leader_epoch=current if version >= 2 else -1
                )
                request = OffsetForLeaderEpochRequest(
                    topics=[OffsetForLeaderTopic(topic=topic, partitions=[partition])]
                )
                answer = (await client.call(request, version)).topics[0].partitions[0]
                return ErrorCode(answer.error_code), answer.leader_epoch, answer.end_offset

            epoch = 0 if version >= 1 else -1
            assert await ask(0) == (ErrorCode.NONE, epoch, 6)
            assert await ask(5) == (ErrorCode.NONE, -1, -1)
            assert (await ask(0, topic="nobody"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if version >= 2:
                assert (await ask(0, current=9))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
                assert (await ask(0, current=0))[0] == ErrorCode.NONE
            client.close()

    run(main)
