"""A disk that takes its time: whoever waits for it waits, everybody else goes on."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.errors.codes import ErrorCode
from odradek.log.storage.checkpoint_file import read_offsets
from odradek.log.storage.real_files import RealFileSystem
from odradek.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from ..live import append, batch, connect, create_topic, fetch, running
from ..net import run, settle


class SlowDisk(RealFileSystem):
    """While `slow` is set, every sync waits until `go` is."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.go = threading.Event()
        self.waiting = 0

    def wait(self) -> None:
        if self.slow:
            assert threading.current_thread() is not threading.main_thread(), "the loop waits for the disk"
            self.waiting += 1
            assert self.go.wait(60), "nobody let it go on"
            self.waiting -= 1

    def write_atomically(self, path: Path, content: bytes, *, sync: bool = True) -> None:
        if sync:
            self.wait()
        super().write_atomically(path, content, sync=sync)

    def fsync(self, path: Path) -> None:
        self.wait()
        super().fsync(path)

    def fsync_dir(self, directory: Path) -> None:
        self.wait()
        super().fsync_dir(directory)


class SlowDatabase:
    """A metadata store's file, on the disk."""

    def __init__(self, database: Any, disk: SlowDisk) -> None:
        self._database = database
        self._disk = disk

    def execute(self, statement: str, *given: Any) -> Any:
        if statement.startswith("BEGIN"):
            self._disk.wait()
        return self._database.execute(statement, *given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


@contextmanager
def slow(disk: SlowDisk, broker: Broker) -> Iterator[None]:
    """All syncs wait, the metadata store's commits included."""
    store: Any = broker.controller.store
    database = store.database
    store.database = SlowDatabase(database, disk)
    disk.slow = True
    try:
        yield
    finally:
        store.database = database
        disk.slow = False
        disk.go.set()
        disk.go = threading.Event()


async def goes_on(broker: Broker, topic: str = "there") -> None:
    """Others write and read."""
    other = await connect(broker)
    for _ in range(3):
        answer = await append(other, topic, batch())
        assert answer.error_code == 0
    read = await other.call(fetch(topic), 12)
    assert read.responses[0].partitions[0].error_code == 0
    other.close()


REQUESTS = {
    "create": (
        CreateTopicsRequest(
            topics=[CreatableTopic(name="new", num_partitions=3, replication_factor=1)], timeout_ms=1
        ),
        5,
    ),
    "create itself": (MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 9),
    "delete": (DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=1), 3),
    "grow": (
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="there", count=5, assignments=None)]),
        2,
    ),
    "configure": (
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2,
                    resource_name="there",
                    configs=[AlterableConfig(name="retention.ms", value="77")],
                )
            ]
        ),
        1,
    ),
    "find": (FindCoordinatorRequest(key="group", key_type=0), 2),
    "begin": (InitProducerIdRequest(transactional_id=None), 4),
    "commit": (
        OffsetCommitRequest(
            group_id="old",
            topics=[
                OffsetCommitRequestTopic(
                    name="there",
                    partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
            ],
        ),
        0,
    ),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_whoever_changes_metadata_waits_and_nobody_else(tmp_path: Path, what: str) -> None:
    message, version = REQUESTS[what]

    async def main() -> None:
        disk = SlowDisk()
        async with running(tmp_path, files=disk) as broker:
            await create_topic(broker, "there")
            await create_topic(broker, "doomed", 2)
            before = broker.image
            client = await connect(broker)
            with slow(disk, broker):
                asking = asyncio.ensure_future(client.call(message, version))
                await settle(lambda: disk.waiting > 0, "for the disk")
                await goes_on(broker)
                # Nobody sees what is not on the disk.
                assert broker.image.topics == before.topics
                assert broker.image.configs == before.configs
                assert not asking.done()
                disk.slow = False
                disk.go.set()
                await asking
            await goes_on(broker)
            if what.startswith("create"):
                assert broker.image.topic("new") is not None
                answer = await append(client, "new", batch())
                assert answer.error_code == ErrorCode.NONE
            client.close()
        # What was answered is there after a restart.
        async with running(tmp_path) as broker:
            assert ("doomed" in broker.image.topics) == (what != "delete")
            assert ("new" in broker.image.topics) == what.startswith("create")
            assert len(broker.image.topics["there"].partitions) == (5 if what == "grow" else 1)
            assert len(broker.replicas) == sum(len(t.partitions) for t in broker.image.topics.values())

    run(main)


def test_requests_that_change_metadata_come_one_after_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        async with running(tmp_path, files=disk) as broker:
            clients = [await connect(broker) for _ in range(6)]
            with slow(disk, broker):
                asking = [
                    asyncio.ensure_future(
                        client.call(
                            CreateTopicsRequest(
                                topics=[
                                    CreatableTopic(name=f"t{n // 2}", num_partitions=2, replication_factor=1)
                                ],
                                timeout_ms=1,
                            ),
                            5,
                        )
                    )
                    for n, client in enumerate(clients)
                ]
                await settle(lambda: disk.waiting > 0, "for the disk")
                disk.slow = False
                disk.go.set()
                errors = [(await one).topics[0].error_code for one in asking]
            assert sorted(errors) == [0, 0, 0] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 3
            assert len(broker.replicas) == 6
            for client in clients:
                client.close()

    run(main)


def test_a_stop_waits_for_what_was_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        async with running(tmp_path, files=disk) as broker:
            client = await connect(broker)
            with slow(disk, broker):
                client.send(
                    CreateTopicsRequest(
                        topics=[CreatableTopic(name="late", num_partitions=2, replication_factor=1)],
                        timeout_ms=1,
                    ),
                    5,
                )
                await settle(lambda: disk.waiting > 0, "for the disk")
                stopping = asyncio.ensure_future(broker.stop())
                await asyncio.sleep(0)
                assert not stopping.done()
                disk.slow = False
                disk.go.set()
                await stopping
            client.close()
        async with running(tmp_path) as broker:
            assert len(broker.replicas) == 2

    run(main)


def test_a_store_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await connect(broker)
            broker.store.database.execute("PRAGMA query_only = ON")
            message, version = REQUESTS["create"]
            refused = await client.call(message, version)
            assert refused.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "new" not in broker.image.topics
            assert not list(tmp_path.glob("new-*"))
            broker.store.database.execute("PRAGMA query_only = OFF")
            assert (await client.call(message, version)).topics[0].error_code == 0
            client.close()

    run(main)


def test_checkpoints_wait_beside_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        async with running(tmp_path, files=disk) as broker:
            await create_topic(broker, "there")
            await goes_on(broker)
            with slow(disk, broker):
                broker.housekeeping.checkpoint()
                await settle(lambda: disk.waiting > 0, "for the disk")
                await goes_on(broker)
                # It is not begun twice.
                broker.housekeeping.checkpoint()
                assert disk.waiting == 1
                disk.slow = False
                disk.go.set()
                await settle(lambda: not broker.housekeeping.is_checkpointing, "for the checkpoints")
        text = (tmp_path / "replication-offset-checkpoint").read_text(encoding="utf-8")
        assert "there 0 6" in text

    run(main)


def delete_records(*ends: tuple[str, int], timeout_ms: int = 1) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
            for name, offset in ends
        ],
        timeout_ms=timeout_ms,
    )


def starts_on_disk(data: Path) -> dict[tuple[str, int], int]:
    return read_offsets(RealFileSystem(), data / "log-start-offset-checkpoint")


def test_deleted_records_are_gone_for_good_when_that_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        async with running(tmp_path, files=disk) as broker:
            await create_topic(broker, "there")
            await create_topic(broker, "beside")
            await create_topic(broker, "other")
            clients = [await connect(broker) for _ in range(4)]
            for topic in ("there", "other"):
                assert (await append(clients[0], topic, batch([b"x"] * 9))).error_code == 0
            with slow(disk, broker):
                asking = [
                    asyncio.ensure_future(client.call(delete_records(("there", 2 + n)), 2))
                    for n, client in enumerate(clients)
                ]
                await settle(lambda: disk.waiting > 0, "for the disk")
                await goes_on(broker, "beside")
                assert not any(one.done() for one in asking)
                disk.slow = False
                disk.go.set()
                for n, one in enumerate(asking):
                    # The time that the disk takes is not the replicas'.
                    answer = (await one).topics[0].partitions[0]
                    assert (answer.error_code, answer.low_watermark) in {(0, low) for low in range(2 + n, 6)}
            assert starts_on_disk(tmp_path) == {("there", 0): 5}
            # Several in one request; and what is there already is answered at once.
            await clients[0].call(delete_records(("there", 7), ("other", -1)), 2)
            assert starts_on_disk(tmp_path) == {("there", 0): 7, ("other", 0): 9}
            with slow(disk, broker):
                answer = await clients[0].call(delete_records(("there", 3)), 2)
                assert answer.topics[0].partitions[0].low_watermark == 7
            for client in clients:
                client.close()

    run(main)


def test_a_peer_that_goes_while_records_are_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        async with running(tmp_path, files=disk) as broker:
            await create_topic(broker, "there")
            await create_topic(broker, "beside")
            client = await connect(broker)
            await append(client, "there", batch([b"x"] * 9))
            with slow(disk, broker):
                client.send(delete_records(("there", 4)), 2)
                await settle(lambda: disk.waiting > 0, "for the disk")
                client.abort()
                await settle(lambda: not broker.listeners[0].connections, "for the peer to be missed")
                disk.slow = False
                disk.go.set()
                await settle(lambda: starts_on_disk(tmp_path) == {("there", 0): 4}, "for the file")
            await goes_on(broker, "beside")
            assert not len(broker.purgatory)

    run(main)


def test_a_failure_while_records_are_deleted_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "there")
            client = await connect(broker)
            await append(client, "there", batch([b"x"] * 9))

            def write(on_written: Any) -> None:
                broker.loop.call_soon(on_written, None)

            monkeypatch.setattr(broker.housekeeping.log_starts, "write", write)
            answer = await client.call(delete_records(("there", 4)), 2)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            client.close()

    run(main)


def test_records_that_may_come_back_are_not_said_to_be_deleted(tmp_path: Path) -> None:
    class FullDisk(RealFileSystem):
        full = False

        def write_atomically(self, path: Path, content: bytes, *, sync: bool = True) -> None:
            if self.full and path.name == "log-start-offset-checkpoint":
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            super().write_atomically(path, content, sync=sync)

    async def main() -> None:
        disk = FullDisk()
        async with running(tmp_path, files=disk) as broker:
            await create_topic(broker, "there")
            await create_topic(broker, "beside")
            client = await connect(broker)
            await append(client, "there", batch([b"x"] * 9))
            disk.full = True
            answer = (await client.call(delete_records(("there", 4)), 2)).topics[0].partitions[0]
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
            disk.full = False
            answer = (await client.call(delete_records(("there", 4)), 2)).topics[0].partitions[0]
            assert (answer.error_code, answer.low_watermark) == (0, 4)
            assert starts_on_disk(tmp_path) == {("there", 0): 4}
            client.close()

    run(main)
