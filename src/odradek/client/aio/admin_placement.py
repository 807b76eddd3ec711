"""The places of replicas and their leaders, for administrators: data folders, elections, reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from odradek.client.aio.admin_base import (
    AdminBase,
    check,
    failure,
    not_controller,
    problems_in,
    problems_of,
    raise_first,
)
from odradek.client.arguments import by_partition, partitions_of
from odradek.client.errors import IllegalArgumentError, left_out
from odradek.client.types import (
    ByPartition,
    LogDirDescription,
    PartitionReassignment,
    ReplicaInfo,
    ReplicaLogDirInfo,
    TopicPartition,
    TopicPartitionLike,
    TopicPartitionReplica,
)
from odradek.errors import ErrorCode, KafkaError
from odradek.wire.api import ApiKey

ELECTION_TYPES = {"preferred": 0, "unclean": 1}


ReplicaFolders: TypeAlias = Mapping[TopicPartitionReplica, str] | Mapping[tuple[str, int, int], str]
"""A path for each replica."""


class PlacementAdmin(AdminBase):
    """The calls about the placement of replicas."""

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        """The data folders of brokers (None: of all), and the replicas in them.

        Returns: broker id → path → folder. A folder that has failed has an `error` and no replicas.

        Raises:
            ClusterAuthorizationError: they may not be described.
        """
        cluster = self._started()
        if not cluster.metadata.brokers:
            await cluster.wait_update(self._config.default_api_timeout_ms)
        nodes = sorted(cluster.metadata.brokers) if brokers is None else list(dict.fromkeys(brokers))
        described: dict[int, dict[str, LogDirDescription]] = {}

        async def ask(node: int) -> dict[int, KafkaError]:
            described[node] = await self._log_dirs_of(node)
            return {}

        raise_first(await problems_of(([node], ask(node)) for node in nodes))
        return {node: described[node] for node in nodes}

    async def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica | tuple[str, int, int]]
    ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]:
        """The data folders of replicas, those of moves under way included (KIP-113).

        Args:
            replicas: (topic, partition, broker) of each. One that the broker does not have is in no folder.
        """
        asked = [TopicPartitionReplica(*replica) for replica in replicas]
        brokers = await self.describe_log_dirs({replica.broker_id for replica in asked})
        infos = dict.fromkeys(asked, ReplicaLogDirInfo())
        for replica in asked:
            tp = TopicPartition(replica.topic, replica.partition)
            for path, folder in brokers[replica.broker_id].items():
                if (info := folder.replicas.get(tp)) is not None:
                    infos[replica] = (
                        replace(
                            infos[replica],
                            future_replica_log_dir=path,
                            future_replica_offset_lag=info.offset_lag,
                        )
                        if info.is_future
                        else replace(
                            infos[replica],
                            current_replica_log_dir=path,
                            current_replica_offset_lag=info.offset_lag,
                        )
                    )
        return infos

    async def _log_dirs_of(self, node: int) -> dict[str, LogDirDescription]:
        from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest

        async def step() -> Any:
            connection = await self._connection_to(node)
            version = connection.pick(ApiKey.DESCRIBE_LOG_DIRS)
            return await connection.send(DescribeLogDirsRequest(topics=None), version)

        subject = f"log directories of broker {node}"
        response = await self._retry(subject, step)
        # Before version 3 the answer has no error on top: who may not know is told of no folder at all, and a
        # broker that runs has one (Kafka's KafkaAdminClient.describeLogDirs).
        code = response.error_code or (0 if response.results else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        check(code, subject)
        return {result.log_dir: _folder(result) for result in response.results}

    async def alter_replica_log_dirs(self, assignment: ReplicaFolders) -> None:
        """Begin to move replicas to other data folders of their brokers (KIP-113); where one is moved back to
        the folder that it is in, a move under way is given up.

        Args:
            assignment: (topic, partition, broker) → path, as the broker has it in `log.dirs`.

        Raises:
            LogDirNotFoundError: the broker has no such folder.
            KafkaStorageError: the folder, or the replica's, is offline.
            ReplicaNotAvailableError: the replica is not on that broker; it will be made in that folder.
        """
        by_broker: dict[int, dict[TopicPartitionReplica, str]] = {}
        for key, path in assignment.items():
            replica = TopicPartitionReplica(*key)
            by_broker.setdefault(replica.broker_id, {})[replica] = path
        asks = (
            (log_dirs, self._alter_log_dirs_of(broker, log_dirs)) for broker, log_dirs in by_broker.items()
        )
        raise_first(await problems_of(asks))

    async def _alter_log_dirs_of(
        self, broker: int, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> dict[TopicPartitionReplica, KafkaError]:
        from odradek.wire.messages import alter_replica_log_dirs as messages

        dirs: dict[str, dict[str, list[int]]] = {}
        for replica, path in log_dirs.items():
            dirs.setdefault(path, {}).setdefault(replica.topic, []).append(replica.partition)
        request = messages.AlterReplicaLogDirsRequest(
            dirs=[
                messages.AlterReplicaLogDir(
                    path=path,
                    topics=[
                        messages.AlterReplicaLogDirTopic(name=name, partitions=indexes)
                        for name, indexes in topics.items()
                    ],
                )
                for path, topics in dirs.items()
            ]
        )

        async def step() -> Any:
            connection = await self._connection_to(broker)
            return await connection.send(request, connection.pick(ApiKey.ALTER_REPLICA_LOG_DIRS))

        response = await self._retry(f"move replicas of broker {broker}", step)
        answers = {
            TopicPartitionReplica(t.topic_name, p.partition_index, broker): p
            for t in response.results
            for p in t.partitions
        }
        return problems_in(answers, log_dirs)

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartitionLike] | None = None,
        *,
        election_type: str = "preferred",
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the preferred replicas of partitions (None: all) or, `unclean`, anybody alive where nobody
        leads, which may lose records.

        Args:
            partitions: (topic, number) pairs; None: all.
            election_type: 'preferred' or 'unclean' (KIP-460).
            timeout_ms: how long the controller may take, milliseconds; None: `request_timeout_ms`.

        Returns: what became of each partition; None: it has a new leader. Asked for all, brokers name only
            those that needed an election.

        Raises:
            IllegalArgumentError: `election_type` is neither of the two.
        """
        from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

        if election_type not in ELECTION_TYPES:
            raise IllegalArgumentError(
                f"{election_type!r} is no type of election: {', '.join(ELECTION_TYPES)}"
            )
        chosen = None if partitions is None else partitions_of(partitions)
        topic_partitions = None
        if chosen is not None:
            topic_partitions = [
                TopicPartitions(topic=name, partitions=p) for name, p in _grouped(chosen).items()
            ]
        request = ElectLeadersRequest(
            election_type=ELECTION_TYPES[election_type],
            topic_partitions=topic_partitions,
            timeout_ms=timeout_ms or self._config.request_timeout_ms,
        )
        response = await self._controller(
            "elect leaders",
            request,
            lambda r: not_controller(p for t in r.replica_election_results for p in t.partition_result),
            at_least=1 if request.election_type else None,
        )
        check(response.error_code, "elect leaders")
        elected = {
            TopicPartition(t.topic, p.partition_id): _error(
                TopicPartition(t.topic, p.partition_id), p.error_code, p.error_message
            )
            for t in response.replica_election_results
            for p in t.partition_result
        }
        return elected | left_out(chosen or (), elected)

    async def alter_partition_reassignments(
        self, reassignments: ByPartition[Sequence[int] | None], *, timeout_ms: int | None = None
    ) -> None:
        """Begin to move partitions to other brokers, the preferred leader first; None takes a move back.

        Args:
            reassignments: (topic, number) → broker ids (KIP-455).
            timeout_ms: how long the controller may take, milliseconds; None: `request_timeout_ms`.

        Raises:
            KafkaError: `InvalidReplicaAssignmentError`, `NoReassignmentInProgressError` and the like.
        """
        from odradek.wire.messages import alter_partition_reassignments as messages

        topics: dict[str, list[messages.ReassignablePartition]] = {}
        moves = by_partition(reassignments, "reassignments", "{('orders', 0): [1, 2]}")
        for tp, replicas in moves.items():
            target = None if replicas is None else list(replicas)
            topics.setdefault(tp.topic, []).append(
                messages.ReassignablePartition(partition_index=tp.partition, replicas=target)
            )
        request = messages.AlterPartitionReassignmentsRequest(
            timeout_ms=timeout_ms or self._config.request_timeout_ms,
            topics=[messages.ReassignableTopic(name=name, partitions=p) for name, p in topics.items()],
        )
        response = await self._controller("reassign partitions", request, lambda r: r.error_code)
        check(response.error_code, "reassign partitions", response.error_message)
        answers = {
            TopicPartition(t.name, p.partition_index): p for t in response.responses for p in t.partitions
        }
        raise_first(problems_in(answers, moves))

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartitionLike] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves that are under way, of these partitions or of all.

        Args:
            partitions: (topic, number) pairs; None: all.
            timeout_ms: how long the controller may take, milliseconds; None: `request_timeout_ms`.
        """
        from odradek.wire.messages import list_partition_reassignments as messages

        requested_topics = None
        if partitions is not None:
            grouped = _grouped(partitions_of(partitions))
            requested_topics = [
                messages.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in grouped.items()
            ]
        request = messages.ListPartitionReassignmentsRequest(
            timeout_ms=timeout_ms or self._config.request_timeout_ms, topics=requested_topics
        )
        response = await self._controller("list reassignments", request, lambda r: r.error_code)
        check(response.error_code, "list reassignments", response.error_message)
        return {
            TopicPartition(t.name, p.partition_index): PartitionReassignment(
                tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
            )
            for t in response.topics
            for p in t.partitions
        }


def _folder(result: Any) -> LogDirDescription:
    return LogDirDescription(
        _error(result.log_dir, result.error_code, None),
        {
            TopicPartition(t.name, p.partition_index): ReplicaInfo(
                p.partition_size, p.offset_lag, p.is_future_key
            )
            for t in result.topics
            for p in t.partitions
        },
        result.total_bytes,
        result.usable_bytes,
    )


def _grouped(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, []).append(tp.partition)
    return grouped


def _error(subject: object, code: int, message: str | None) -> KafkaError | None:
    return failure(subject, code, message) if code else None
