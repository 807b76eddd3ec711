"""DescribeLogDirs and AlterReplicaLogDirs at every version, over one and several data folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.broker.requests.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from waiting import until_async

from ..admin_world import Denying
from ..live import Client, append, batch, connect, create_topic, running
from ..net import run


async def describe(client: Client, version: int, topics: dict[str, list[int]] | None) -> Any:
    wanted = None
    if topics is not None:
        wanted = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
    return await client.call(DescribeLogDirsRequest(topics=wanted), version)


def found(result: Any) -> set[tuple[str, int]]:
    return {(topic.name, one.partition_index) for topic in result.topics for one in topic.partitions}


@pytest.mark.parametrize("version", range(6))
def test_one_folder(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 2)
            await create_topic(broker, "u", 1)
            client = await connect(broker)
            await append(client, "t", batch([b"x" * 100]))
            answer = await describe(client, version, None)
            (result,) = answer.results
            assert (answer.error_code, result.error_code, result.log_dir) == (0, 0, str(tmp_path))
            assert found(result) == {("t", 0), ("t", 1), ("u", 0)}
            sizes = {one.partition_index: one.partition_size for one in result.topics[0].partitions}
            assert sizes[0] == (tmp_path / "t-0" / f"{0:020}.log").stat().st_size > 100
            assert sizes[1] == 0
            assert {(one.offset_lag, one.is_future_key) for one in result.topics[0].partitions} == {
                (0, False)
            }
            if version >= 4:
                assert result.total_bytes >= result.usable_bytes > 0
            else:
                assert (result.total_bytes, result.usable_bytes) == (-1, -1)
            (result,) = (await describe(client, version, {"t": [1, 9], "missing": [0]})).results
            assert found(result) == {("t", 1)}
            (result,) = (await describe(client, version, {})).results
            assert result.topics == []
            client.close()

    run(main)


@pytest.mark.parametrize("version", range(6))
def test_who_may(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await connect(broker)
            broker.authorizer = Denying((Operation.DESCRIBE, "kafka-cluster"))
            answer = await describe(client, version, None)
            assert answer.results == []
            denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert answer.error_code == (denied if version >= 3 else ErrorCode.NONE)
            client.close()

    run(main)


def test_several_folders_one_of_which_fails(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        async with running(Path(f"{first},{second}")) as broker:
            await create_topic(broker, "t", 4)
            client = await connect(broker)
            results = {one.log_dir: one for one in (await describe(client, 5, None)).results}
            assert results.keys() == {str(first), str(second)}
            both = [found(one) for one in results.values()]
            assert set.union(*both) == {("t", index) for index in range(4)}
            assert [len(one) for one in both] == [2, 2]
            broker.logs.directories.fail(second, "the test says so")
            results = {one.log_dir: one for one in (await describe(client, 5, None)).results}
            assert [one.error_code for one in results.values()] == [0, ErrorCode.KAFKA_STORAGE_ERROR]
            assert (results[str(second)].topics, results[str(second)].total_bytes) == ([], -1)
            client.close()

    run(main)


async def alter(client: Client, version: int, *moves: tuple[Path, str, list[int]]) -> dict[Any, int]:
    dirs = [
        AlterReplicaLogDir(path=str(path), topics=[AlterReplicaLogDirTopic(name=name, partitions=indexes)])
        for path, name, indexes in moves
    ]
    answer = await client.call(AlterReplicaLogDirsRequest(dirs=dirs), version)
    return {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in answer.results
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", range(3))
def test_replicas_that_lie_where_they_shall_and_others(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t", 2)
            client = await connect(broker)
            long = "x" * 214
            assert await alter(
                client,
                version,
                (tmp_path, "t", [0, 9]),
                (tmp_path / "elsewhere", "t", [1]),
                (tmp_path, "missing", [0]),
                (tmp_path, long, [0]),
            ) == {
                ("t", 0): 0,
                ("t", 9): ErrorCode.REPLICA_NOT_AVAILABLE,
                ("t", 1): ErrorCode.LOG_DIR_NOT_FOUND,
                ("missing", 0): ErrorCode.REPLICA_NOT_AVAILABLE,
                (long, 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
            }
            broker.authorizer = Denying((Operation.ALTER, "kafka-cluster"))
            refused = await alter(client, version, (tmp_path, "t", [0]))
            assert refused == {("t", 0): ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
            client.close()

    run(main)


def logs_in(result: Any, name: str) -> list[tuple[int, bool]]:
    return [
        (one.partition_index, one.is_future_key)
        for topic in result.topics
        if topic.name == name
        for one in topic.partitions
    ]


async def until(reached: Callable[[], bool]) -> None:
    await until_async(reached, every_s=0.001)


def two_folders(broker: Broker) -> tuple[Path, Path]:
    """Where partition 0 lies, and the other one."""
    present = broker.replicas.get("t", 0).log.directory.parent
    (other,) = [path for path in broker.logs.data_dirs if path != present]
    return present, other


def test_a_replica_moves_while_it_is_used(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        async with running(Path(f"{first},{second}")) as broker:
            await create_topic(broker, "t", 1)
            client = await connect(broker)
            await append(client, "t", batch([b"x" * 900] * 1000))
            present, other = two_folders(broker)
            assert await alter(client, 2, (other, "t", [0])) == {("t", 0): 0}
            # Asked for once more, it just goes on.
            assert await alter(client, 2, (other, "t", [0])) == {("t", 0): 0}
            results = {one.log_dir: one for one in (await describe(client, 5, {"t": [0]})).results}
            assert logs_in(results[str(present)], "t") in ([(0, False)], [])
            count = 1
            while broker.logs.moves.all():
                await append(client, "t", batch([b"y"]))
                count += 1
            assert broker.replicas.get("t", 0).log.directory == other / "t-0"
            assert not (present / "t-0").exists()
            results = {one.log_dir: one for one in (await describe(client, 5, {"t": [0]})).results}
            assert logs_in(results[str(other)], "t") == [(0, False)]
            assert logs_in(results[str(present)], "t") == []
            await append(client, "t", batch([b"z"]))
            log = broker.replicas.get("t", 0).log
            assert log.log_end_offset == log.high_watermark == 1000 + count
            client.close()
        async with running(Path(f"{first},{second}")) as broker:
            log = broker.replicas.get("t", 0).log
            assert (log.directory, log.log_end_offset) == (other / "t-0", 1000 + count)

    run(main)


def test_a_move_that_is_held_up_is_shown_and_given_up_and_resumed(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        folders = Path(f"{first},{second}")
        slow = {"replica.alter.log.dirs.io.max.bytes.per.second": "0"}
        async with running(folders, **slow) as broker:
            await create_topic(broker, "t", 1)
            client = await connect(broker)
            present, other = two_folders(broker)
            data = batch([b"x" * 900] * 1000)
            for _ in range(7):
                await append(client, "t", data)
            size = broker.replicas.get("t", 0).log.size_bytes
            assert await alter(client, 2, (other, "t", [0])) == {("t", 0): 0}
            (move,) = broker.logs.moves.all()
            await until(lambda: move.bytes_copied > 0)
            results = {one.log_dir: one for one in (await describe(client, 5, {"t": [0]})).results}
            assert logs_in(results[str(present)], "t") == [(0, False)]
            assert logs_in(results[str(other)], "t") == [(0, True)]
            (copy,) = results[str(other)].topics[0].partitions
            assert 0 < copy.partition_size < size
            assert 0 < copy.offset_lag <= 7000
            # Given up, and begun once more.
            assert await alter(client, 2, (present, "t", [0])) == {("t", 0): 0}
            assert [path for path in other.iterdir() if path.name.endswith("-future")] == []
            assert await alter(client, 2, (other, "t", [0])) == {("t", 0): 0}
            (move,) = broker.logs.moves.all()
            client.close()
        (left,) = [path for path in other.iterdir() if path.name.endswith("-future")]
        assert list(left.iterdir()) == []
        async with running(folders) as broker:
            await until(lambda: not broker.logs.moves.all())
            log = broker.replicas.get("t", 0).log
            assert (log.directory, log.log_end_offset) == (other / "t-0", 7000)

    run(main)


def test_the_rate_is_raised_while_a_move_waits(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        rate = "replica.alter.log.dirs.io.max.bytes.per.second"
        async with running(Path(f"{first},{second}"), **{rate: "1"}) as broker:
            await create_topic(broker, "t", 1)
            client = await connect(broker)
            _, other = two_folders(broker)
            data = batch([b"x" * 900] * 1000)
            for _ in range(7):
                await append(client, "t", data)
            assert await alter(client, 2, (other, "t", [0])) == {("t", 0): 0}
            (move,) = broker.logs.moves.all()
            await until(lambda: move.bytes_copied > 0)
            broker.config.put_layers({}, {rate: str(1 << 40)})
            await until(lambda: not broker.logs.moves.all())
            assert broker.replicas.get("t", 0).log.directory == other / "t-0"
            client.close()

    run(main)


def test_a_wish_before_the_topic_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        async with running(Path(f"{first},{second}")) as broker:
            client = await connect(broker)
            unavailable = ErrorCode.REPLICA_NOT_AVAILABLE
            wished = await alter(client, 2, (second, "t", [0, 1, 2, 3]))
            assert wished == {("t", index): unavailable for index in range(4)}
            await create_topic(broker, "t", 4)
            folders = {broker.replicas.get("t", index).log.directory.parent for index in range(4)}
            assert folders == {second}
            client.close()

    run(main)


def test_replicas_are_not_moved_where_a_folder_has_failed(tmp_path: Path) -> None:
    async def main() -> None:
        first, second, third = tmp_path / "first", tmp_path / "second", tmp_path / "third"
        async with running(Path(f"{first},{second},{third}")) as broker:
            await create_topic(broker, "t", 1)
            client = await connect(broker)
            present = broker.replicas.get("t", 0).log.directory.parent
            failing, other = [path for path in broker.logs.data_dirs if path != present]
            broker.logs.directories.fail(failing, "the test says so")
            failed = {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}
            assert await alter(client, 2, (failing, "t", [0])) == failed
            assert await alter(client, 2, (other, "t", [0])) == failed
            assert await alter(client, 2, (present, "t", [0])) == {("t", 0): 0}
            client.close()

    run(main)
