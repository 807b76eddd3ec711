"""Partitions with damaged files: offline by name, all others served, nothing of theirs touched or lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker, StartError
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

from ..apis.test_hostile import warnings_of
from ..live import append, batch, connect, create_topic, delete_topics, fetch, running
from ..net import run

CONFIG = {
    "log_segment_bytes": 1000,
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
}
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
RECORDS = 12
DELETED = 2


async def fill(data: Path) -> None:
    """A topic of three partitions with records, some deleted, and a group's offset."""
    async with running(data, **CONFIG) as broker:
        await create_topic(broker, "t", 3)
        client = await connect(broker)
        for index in range(3):
            for _ in range(RECORDS):
                assert (await append(client, "t", batch([b"x" * 300]), index=index)).error_code == 0
            partition = DeleteRecordsPartition(partition_index=index, offset=DELETED)
            topic = DeleteRecordsTopic(name="t", partitions=[partition])
            await client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
        await client.call(FindCoordinatorRequest(key="group", key_type=0), 2)
        assert await commit(client, 7) == 0
        error = ErrorCode.NOT_COORDINATOR
        while error:
            await client.call(FindCoordinatorRequest(key="tx", key_type=1), 2)
            request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
            error = (await client.call(request, 4)).error_code
        client.close()


async def commit(client: Any, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    answer = await client.call(OffsetCommitRequest(group_id="group", topics=[topic]), 2)
    return int(answer.topics[0].partitions[0].error_code)


async def committed(client: Any) -> tuple[int, int]:
    """The error, and the offset."""
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = await client.call(OffsetFetchRequest(group_id="group", topics=[topic]), 5)
    if answer.error_code:
        return int(answer.error_code), -1
    return 0, answer.topics[0].partitions[0].committed_offset


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("sound") / "data"
    run(lambda: fill(data))
    return data


@pytest.fixture
def data(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "data")
    return tmp_path / "data"


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"folder"
        for path in sorted(folder.rglob("*"))
    }


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def middle_gone(folder: Path) -> Callable[[], None]:
    path = segments(folder)[2]
    content = path.read_bytes()
    path.unlink()
    return lambda: (path.write_bytes(content), None)[1]


def garbled(folder: Path) -> Callable[[], None]:
    path = segments(folder)[-1]
    content = path.read_bytes()
    path.write_bytes(b"\xff" + content[1:])
    return lambda: (path.write_bytes(content), None)[1]


def folder_for_index(folder: Path) -> Callable[[], None]:
    path = segments(folder)[1].with_suffix(".index")
    path.unlink()
    path.mkdir()
    return path.rmdir


def folder_gone(folder: Path) -> Callable[[], None]:
    folder.rename(folder.parent.parent / "away")
    return lambda: ((folder.parent.parent / "away").rename(folder), None)[1]


def gauge(broker: Broker, name: str) -> float:
    return next(value for key, value in broker.metrics.snapshot().items() if name in str(key))


async def check_offline(broker: Broker, index: int, text: str) -> None:
    """One partition of three is offline, and told."""
    client = await connect(broker)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    partitions = (await client.call(request, 9)).topics[0].partitions
    for one in partitions:
        gone = one.partition_index == index
        assert one.error_code == (ErrorCode.LEADER_NOT_AVAILABLE if gone else 0)
        assert one.leader_id == (-1 if gone else 0)
        assert one.offline_replicas == ([0] if gone else [])
        answer = await append(client, "t", batch(), index=one.partition_index)
        assert answer.error_code == (STORAGE if gone else 0)
        read = await client.call(fetch("t", DELETED, index=one.partition_index), 12)
        assert read.responses[0].partitions[0].error_code == (STORAGE if gone else 0)
    assert text in broker.replicas.offline["t", index]
    client.close()


@pytest.mark.parametrize("harm", [middle_gone, garbled, folder_for_index, folder_gone])
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_one_partition_is_offline_and_comes_back(
    harm: Callable[[Path], Callable[[], None]], clean: bool, data: Path
) -> None:
    if not clean:
        (data / ".kafka_cleanshutdown").unlink()
    folder = data / "t-1"
    repair = harm(folder)
    before = tree(folder)

    async def main() -> None:
        # The second start finds what the first one has: a clean stop of the others does not make it whole.
        for _ in range(2):
            with warnings_of() as lines:
                async with running(data, **CONFIG) as broker:
                    await check_offline(broker, 1, "t-1")
                    assert gauge(broker, "OfflineReplicaCount") == 1
                    assert gauge(broker, "OfflinePartitionsCount") == 1
            assert any("t-1" in line or "partition=1" in line for line in lines)
            assert tree(folder) == before
        repair()
        async with running(data, **CONFIG) as broker:
            assert not broker.replicas.offline
            log = broker.replicas.get("t", 1).log
            assert (log.log_start_offset, log.log_end_offset) == (DELETED, RECORDS)
            client = await connect(broker)
            assert (await append(client, "t", batch(), index=1)).base_offset == RECORDS
            client.close()

    run(main)


@pytest.mark.parametrize("harm", [middle_gone, garbled, folder_for_index])
def test_a_strict_broker_refuses_to_start(harm: Callable[[Path], object], data: Path) -> None:
    harm(data / "t-1")
    before = tree(data)

    async def main() -> None:
        with pytest.raises(StartError, match="t-1"):
            async with running(data, odradek_refuse_damaged_logs=True, **CONFIG):
                pass
        after = tree(data)
        after.pop(".lock", None)
        assert after == {name: content for name, content in before.items() if name != ".lock"}

    run(main)


def test_groups_do_not_start_empty(data: Path) -> None:
    (path,) = segments(data / "__consumer_offsets-0")
    content = path.read_bytes()
    path.write_bytes(b"")

    async def main() -> None:
        for _ in range(2):
            async with running(data, **CONFIG) as broker:
                client = await connect(broker)
                found = await client.call(FindCoordinatorRequest(key="group", key_type=0), 2)
                assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                refusals = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
                assert (await committed(client))[0] in refusals
                assert await commit(client, 1) in refusals
                client.close()
        path.write_bytes(content)
        async with running(data, **CONFIG) as broker:
            client = await connect(broker)
            answer = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
            while answer[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                answer = await committed(client)
            assert answer == (0, 7)
            client.close()

    run(main)


def test_transactions_do_not_start_anew(data: Path) -> None:
    shutil.rmtree(data / "__transaction_state-0")

    async def main() -> None:
        async with running(data, **CONFIG) as broker:
            client = await connect(broker)
            found = await client.call(FindCoordinatorRequest(key="tx", key_type=1), 2)
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
            refusals = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
            assert (await client.call(request, 4)).error_code in refusals
            client.close()
        assert not (data / "__transaction_state-0").exists()

    run(main)


@pytest.mark.parametrize("harm", [garbled, folder_gone])
def test_a_topic_with_a_damaged_partition_is_deleted(harm: Callable[[Path], object], data: Path) -> None:
    harm(data / "t-1")

    async def main() -> None:
        async with running(data, **CONFIG) as broker:
            await delete_topics(broker, ["t"])
            assert "t" not in broker.image.topics
            assert not [path.name for path in data.glob("t-?")]
            await create_topic(broker, "t", 3)
            assert not broker.replicas.offline
            assert all(one.log.log_end_offset == 0 for one in broker.replicas if one.topic == "t")
        async with running(data, **CONFIG) as broker:
            assert not broker.replicas.offline

    run(main)


def test_a_folder_without_metadata_is_taken_over_with_its_damaged_partition(data: Path) -> None:
    (data / "metadata.sqlite").unlink()
    repair = garbled(data / "t-1")

    async def main() -> None:
        async with running(data, **CONFIG) as broker:
            await check_offline(broker, 1, "t-1")
        repair()
        async with running(data, **CONFIG) as broker:
            assert not broker.replicas.offline
            assert broker.replicas.get("t", 1).log.log_end_offset == RECORDS

    run(main)


def test_a_partition_in_two_data_folders_is_offline_until_one_of_them_goes(data: Path) -> None:
    """A data folder was out of `log.dirs` while its replica was made anew: nobody can tell which counts."""
    more = data.parent / "more"
    more.mkdir()
    shutil.copytree(data / "t-1", more / "t-1")
    (more / "unrelated").mkdir()
    both = f"{data},{more}"
    before = tree(data / "t-1"), tree(more / "t-1")

    async def main() -> None:
        for _ in range(2):
            with warnings_of() as lines:
                async with running(both, **CONFIG) as broker:
                    await check_offline(broker, 1, f"is in both {data / 't-1'} and {more / 't-1'}")
                    assert gauge(broker, "OfflineReplicaCount") == 1
            assert any("Move the folder away that is not the newer one" in line for line in lines)
            assert (tree(data / "t-1"), tree(more / "t-1")) == before
        shutil.move(more / "t-1", data.parent / "away")
        async with running(both, **CONFIG) as broker:
            assert not broker.replicas.offline
            log = broker.replicas.get("t", 1).log
            assert (log.log_start_offset, log.log_end_offset) == (DELETED, RECORDS)
            assert log.directory == data / "t-1"
        shutil.move(data.parent / "away", more / "t-1")
        async with running(both, **CONFIG) as broker:
            await delete_topics(broker, ["t"])
        async with running(both, **CONFIG) as broker:
            assert broker.image.topics.get("t") is None
        assert not {path.name for path in (*data.iterdir(), *more.iterdir())} & {"t-0", "t-1", "t-2"}

    run(main)
