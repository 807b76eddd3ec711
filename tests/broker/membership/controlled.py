"""A broker of several, its logs in memory, and what a controller tells it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from odradek.broker.interbroker.replica_fetcher_manager import Assignment
from odradek.broker.membership.state_changes import StateChanges
from odradek.broker.metadata.metadata_cache import MetadataCache
from odradek.broker.replicas.replica_manager import ReplicaManager
from odradek.cluster.store.memory import MemoryStore
from odradek.errors.codes import ErrorCode
from odradek.log.config import LogConfig
from odradek.log.folders.log_manager import LogManager
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.replication.delayed import Purgatory
from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.util.topic_partition import TopicPartition
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)

ME, OTHER, THIRD = 0, 1, 2
ID, ANOTHER_ID = bytes(15) + b"\x01", bytes(15) + b"\x02"
FOLDER, MORE = Path("/data"), Path("/more")
CONTROLLER_EPOCH = 7
BROKER_EPOCH = 100
NONE = ErrorCode.NONE
STALE = ErrorCode.STALE_CONTROLLER_EPOCH
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
FENCED = ErrorCode.FENCED_LEADER_EPOCH


class Fetchers:
    """Writes down whom it follows."""

    def __init__(self) -> None:
        self.followed: dict[TopicPartition, tuple[int, int]] = {}
        self.added = 0

    def add(self, assignments: Iterable[Assignment]) -> None:
        for one in assignments:
            self.followed[one.replica.key] = (one.leader_id, one.leader_epoch)
            self.added += 1

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            self.followed.pop(key, None)

    def shutdown_idle_fetchers(self) -> None:
        pass


class World:
    """Broker 0, its logs in memory, and what it is told."""

    def __init__(
        self,
        files: MemoryFileSystem | None = None,
        data_dirs: Sequence[Path] = (FOLDER,),
        *,
        tries_again: bool = False,
    ) -> None:
        self.clock = ManualClock()
        self.files = files or MemoryFileSystem(now_ms=self.clock.now_ms)
        self.logs = LogManager(data_dirs, self.files, self.clock)
        self.logs.load()
        self.metadata = MetadataCache("a cluster", {})
        self.replicas = ReplicaManager(
            broker_id=ME,
            logs=self.logs,
            purgatory=Purgatory(ManualTimers(self.clock)),
            clock=self.clock,
            log_config=lambda topic, image: LogConfig.from_topic(image.topic_config(topic), LogConfig()),
            image=self.metadata.image,
            tries_again=tries_again,
        )
        self.metadata.add_listener(self.replicas.follow_configs)
        self.fetchers = Fetchers()
        self.store: Any = MemoryStore()
        self.broker_epoch = BROKER_EPOCH
        self.led: list[set[str]] = []
        self.on_leadership: Callable[[set[str]], object] = self.led.append
        self.old_epochs = 0
        self.changes = StateChanges(
            broker_id=ME,
            replicas=self.replicas,
            logs=self.logs,
            metadata=self.metadata,
            store=lambda: self.store,
            fetchers=self.fetchers,
            broker_epoch=lambda: self.broker_epoch,
            on_leadership=lambda topics: self.on_leadership(topics),
            on_old_epochs=self._count_old_epochs,
        )

    def _count_old_epochs(self) -> None:
        self.old_epochs += 1

    async def lead(
        self,
        *states: LeaderAndIsrPartitionState,
        version: int = 7,
        topic_id: bytes = ID,
        **fields: Any,
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        request = leader_and_isr(*states, version=version, topic_id=topic_id, **fields)
        response = await self.changes.lead_or_follow(request, version)
        errors = [one.error_code for one in response.partition_errors]
        errors += [one.error_code for topic in response.topics for one in topic.partition_errors]
        return ErrorCode(response.error_code), [ErrorCode(one) for one in errors]

    async def stop(
        self, *indexes: int, version: int = 4, epoch: int = -2, delete: bool = True, **fields: Any
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        request = stop_replica(*indexes, version=version, epoch=epoch, delete=delete, **fields)
        response = await self.changes.stop_replicas(request, version)
        errors = [ErrorCode(one.error_code) for one in response.partition_errors]
        return ErrorCode(response.error_code), errors

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.files.dirs if path.parent == FOLDER)


def state(index: int = 0, leader: int = ME, epoch: int = 3, **fields: Any) -> LeaderAndIsrPartitionState:
    known = {
        "topic_name": "t",
        "isr": [ME, OTHER],
        "replicas": [ME, OTHER],
        "partition_epoch": epoch,
        "controller_epoch": CONTROLLER_EPOCH,
    }
    return LeaderAndIsrPartitionState(
        partition_index=index, leader=leader, leader_epoch=epoch, **{**known, **fields}
    )


def leader_and_isr(
    *states: LeaderAndIsrPartitionState,
    version: int,
    topic_id: bytes = ID,
    controller_epoch: int = CONTROLLER_EPOCH,
    broker_epoch: int = BROKER_EPOCH,
) -> LeaderAndIsrRequest:
    request = LeaderAndIsrRequest(
        controller_id=OTHER,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch if version >= 2 else -1,
    )
    if version < 2:
        request.ungrouped_partition_states = list(states)
    else:
        request.topic_states = [
            LeaderAndIsrTopicState(
                topic_name="t", topic_id=topic_id if version >= 5 else bytes(16), partition_states=[*states]
            )
        ]
    return request


def stop_replica(
    *indexes: int,
    version: int,
    epoch: int,
    delete: bool,
    controller_epoch: int = CONTROLLER_EPOCH,
    broker_epoch: int = BROKER_EPOCH,
) -> StopReplicaRequest:
    request = StopReplicaRequest(
        controller_id=OTHER,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch if version >= 1 else -1,
    )
    if version < 3:
        request.delete_partitions = delete
    if version == 0:
        request.ungrouped_partitions = [
            StopReplicaPartitionV0(topic_name="t", partition_index=index) for index in indexes
        ]
    elif version < 3:
        request.topics = [StopReplicaTopicV1(name="t", partition_indexes=list(indexes))]
    else:
        request.topic_states = [
            StopReplicaTopicState(
                topic_name="t",
                partition_states=[
                    StopReplicaPartitionState(
                        partition_index=index, leader_epoch=epoch, delete_partition=delete
                    )
                    for index in indexes
                ],
            )
        ]
    return request


def run(scenario: Callable[[World], Coroutine[Any, Any, None]], world: World | None = None) -> None:
    async def main() -> None:
        await scenario(world or World())

    asyncio.run(main())


def fail_to_make(world: World, name: str) -> None:
    """No folder of this name, nor a file in it, can be made from now on."""
    make_dirs, open_file = world.files.make_dirs, world.files.open

    def refuse_folder(path: Path) -> None:
        check(path)
        make_dirs(path)

    def refuse_file(path: Path, *, create: bool = False) -> Any:
        check(path)
        return open_file(path, create=create)

    def check(path: Path) -> None:
        if name in str(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    world.files.make_dirs = refuse_folder  # type: ignore[method-assign]
    world.files.open = refuse_file  # type: ignore[method-assign]


def mend(world: World) -> None:
    """The files are as they should be again."""
    del world.files.make_dirs, world.files.open
