"""A broker with several data folders, one of which fails."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker
from odradek.errors.codes import ErrorCode
from odradek.log.storage.real_files import RealFileSystem
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

from ..live import append, batch, connect, create_topic, delete_topics, fetch, running
from ..net import run, settle
from ..stand_ins import WatchedFile


class BrokenDisk(RealFileSystem):
    """Whatever is written below `broken` fails."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: Path | None = None

    def check(self, path: Path) -> None:
        if self.broken is not None and self.broken in path.parents:
            raise OSError(errno.EIO, "Input/output error", str(path))

    def open(self, path: Path, *, create: bool = False) -> Any:
        file = super().open(path, create=create)

        def checked(write: Any) -> Any:
            def checked_write(*given: Any) -> Any:
                self.check(path)
                return write(*given)

            return checked_write

        return WatchedFile(file, pwrite=checked(file.pwrite), pwrite_batch=checked(file.pwrite_batch))

    def make_dirs(self, directory: Path) -> None:
        self.check(directory)
        super().make_dirs(directory)

    def list(self, directory: Path) -> list[str]:
        self.check(directory / "any")
        return super().list(directory)

    def write_atomically(self, path: Path, content: bytes, *, sync: bool = True) -> None:
        self.check(path)
        super().write_atomically(path, content, sync=sync)


def dirs_of(tmp_path: Path) -> tuple[Path, Path, Path]:
    return tmp_path / "a", tmp_path / "b", tmp_path / "c"


async def describe(client: Any, topic: str) -> list[Any]:
    answer = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
    partitions: list[Any] = answer.topics[0].partitions
    return sorted(partitions, key=lambda one: one.partition_index)


def where(broker: Broker, topic: str, index: int) -> Path:
    return broker.replicas.get(topic, index).log.directory.parent


def test_one_of_three_fails(tmp_path: Path) -> None:
    folders = dirs_of(tmp_path)
    log_dirs = ",".join(map(str, folders))

    async def main() -> None:
        disk = BrokenDisk()
        async with running(log_dirs, files=disk) as broker:  # type: ignore[arg-type]
            await create_topic(broker, "t", 6)
            client, other = await connect(broker), await connect(broker)
            for index in range(6):
                assert (await append(client, "t", batch(), index=index)).error_code == 0
            homes = [where(broker, "t", index) for index in range(6)]
            assert sorted(homes) == sorted(folders * 2)
            failed = folders[1]
            lost = [index for index, home in enumerate(homes) if home == failed]
            other.send(fetch("t", 1, index=lost[1], max_wait_ms=10_000), 12)
            await settle(lambda: len(broker.purgatory) > 0, "for a fetch to wait")

            disk.broken = failed
            answer = await append(client, "t", batch(), index=lost[0])
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await settle(lambda: broker.image.partition("t", lost[1]).leader == -1, "for the controller")
            # Who waited is told; who asks is told; who looks for a leader finds none.
            assert (await other.receive()).responses[0].partitions[0].error_code != ErrorCode.NONE
            for index in lost:
                answer = await append(client, "t", batch(), index=index)
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                read = await client.call(fetch("t", 0, index=index), 12)
                assert read.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            for index, partition in enumerate(await describe(client, "t")):
                gone = index in lost
                assert partition.error_code == (ErrorCode.LEADER_NOT_AVAILABLE if gone else 0)
                assert partition.leader_id == (-1 if gone else 0)
                assert (partition.isr_nodes, partition.replica_nodes) == ([0], [0])
                assert partition.offline_replicas == ([0] if gone else [])
            # Everything else goes on, and new partitions go where they can.
            for index in set(range(6)) - set(lost):
                assert (await append(client, "t", batch(), index=index)).error_code == 0
            request = CreateTopicsRequest(
                topics=[CreatableTopic(name="new", num_partitions=4, replication_factor=1)], timeout_ms=1
            )
            assert (await client.call(request, 5)).topics[0].error_code == 0
            assert {where(broker, "new", index) for index in range(4)} == {folders[0], folders[2]}
            client.close()
            other.close()
        assert not (failed / ".kafka_cleanshutdown").exists()
        assert (folders[0] / ".kafka_cleanshutdown").exists()

        # It is still broken at the next start: its partitions are not made anew elsewhere.
        async with running(log_dirs, files=disk) as broker:  # type: ignore[arg-type]
            client = await connect(broker)
            assert broker.logs.online_dirs == [folders[0], folders[2]]
            for index, partition in enumerate(await describe(client, "t")):
                assert partition.leader_id == (-1 if index in lost else 0)
                answer = await append(client, "t", batch(), index=index)
                assert answer.error_code == (ErrorCode.KAFKA_STORAGE_ERROR if index in lost else 0)
            client.close()

        # It works again: nothing that was acknowledged is lost.
        async with running(log_dirs) as broker:  # type: ignore[arg-type]
            client = await connect(broker)
            for index, partition in enumerate(await describe(client, "t")):
                assert (partition.leader_id, partition.offline_replicas) == (0, [])
                assert where(broker, "t", index) == homes[index]
                end = broker.replicas.get("t", index).log.log_end_offset
                assert end == (1 if index in lost else 3)
                assert (await append(client, "t", batch(), index=index)).base_offset == end
            client.close()

    run(main)


def test_a_topic_in_a_failed_folder_is_deleted_when_the_folder_is_back(tmp_path: Path) -> None:
    folders = dirs_of(tmp_path)[:2]
    log_dirs = ",".join(map(str, folders))

    async def main() -> None:
        disk = BrokenDisk()
        async with running(log_dirs, files=disk) as broker:  # type: ignore[arg-type]
            await create_topic(broker, "t", 2)
            broker.logs.directories.fail(folders[1], "for the test")
            lost, queue = broker.controller, broker.controller.event_queue
            await settle(lambda: bool(lost.offline_replicas) and not queue.is_busy, "for the controller")
            await delete_topics(broker, ["t"])
            assert broker.image.topic("t") is None
            assert "t" in broker.controller.image.topics
        async with running(log_dirs) as broker:  # type: ignore[arg-type]
            assert "t" not in broker.image.topics
            await create_topic(broker, "t", 2)
            assert all(partition.log.log_end_offset == 0 for partition in broker.replicas)
        async with running(log_dirs) as broker:  # type: ignore[arg-type]
            assert len(broker.replicas) == 2

    run(main)


def test_without_any_folder_the_broker_says_that_it_cannot_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        disk = BrokenDisk()
        async with running(tmp_path / "a", files=disk) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            told: list[str] = []
            broker.on_fatal = told.append
            disk.broken = tmp_path / "a"
            assert (await append(client, "t", batch())).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            await settle(lambda: bool(told), "for the end")
            assert "all data folders have failed" in told[0]
            assert str(tmp_path / "a") in told[0]
            assert "Input/output error" in told[0]
            client.close()
            disk.broken = None

    run(main)
