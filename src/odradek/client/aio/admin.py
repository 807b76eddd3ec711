"""`AsyncAdmin`: topics, configs, groups, offsets, the cluster.

Calls about several things return a dictionary and raise the first error after all were asked; `errors` on the
exception has the others (`AdminError`). A request that may go to any broker does; one for the controller, a
leader or a coordinator goes there, and is tried again where these have moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from odradek.client.aio.cluster import Cluster
from odradek.client.aio.coordinator import COORDINATOR, fetch_committed, find_coordinator
from odradek.client.aio.offsets import list_offsets, retry
from odradek.client.config import AdminConfig, build
from odradek.client.core.admin_requests import (
    alter_configs_request,
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
    describe_configs_request,
    incremental_alter_configs_request,
)
from odradek.client.core.group_protocol import PROTOCOL_TYPE, decode_assignment
from odradek.client.core.metadata import ZERO_UUID
from odradek.client.core.produce import to_code
from odradek.client.errors import ClosedError
from odradek.client.types import (
    ApiVersionRange,
    ClusterDescription,
    ConfigEntry,
    GroupDescription,
    GroupListing,
    MemberDescription,
    NewTopic,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicDescription,
    TopicPartition,
)
from odradek.errors import ErrorCode, KafkaError, ProtocolError, error_for
from odradek.wire.api import ApiKey

T = TypeVar("T")

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
_RESOURCES = {"topic": TOPIC, "broker": BROKER, "broker-logger": BROKER_LOGGER}

#: A config resource: ('topic', name), ('broker', id) or Kafka's number for the type.
Resource = tuple[str | int, str | int]


def resource_key(resource: Resource) -> tuple[int, str]:
    """(Kafka's number of the type, name). Raises `ValueError`."""
    kind, name = resource
    number = _RESOURCES.get(kind.lower()) if isinstance(kind, str) else kind
    if number is None:
        raise ValueError(f"{kind!r} is no kind of config resource: {', '.join(_RESOURCES)}")
    return number, str(name)


def _check(code: int, what: str, message: str | None = None) -> None:
    if code:
        raise error_for(code, f"{what}: {message or to_code(code).message}")


def _raise_first(problems: Mapping[Any, KafkaError]) -> None:
    if problems:
        first = next(iter(problems.values()))
        first.errors = dict(problems)  # type: ignore[attr-defined]
        raise first


class AsyncAdmin:
    """The administrator, for coroutines.

        async with AsyncAdmin(bootstrap_servers="127.0.0.1:9092") as admin:
            await admin.create_topics([NewTopic("events", num_partitions=6)])

    Every call takes at most `default_api_timeout_ms`, and raises `KafkaError` (`ClientTimeoutError` after
    that time). Where one call names several things and some fail, the others are done; the exception is
    that of the first, with all of them in its attribute `errors`.

    Args:
        config, configs: Kafka's admin configs under Python's names or, in a mapping, Kafka's.

    Raises:
        ConfigError: a config that cannot be used.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self._config = build(AdminConfig, {**(config or {}), **configs})
        self._cluster: Cluster | None = None
        self._closed = False

    @property
    def config(self) -> AdminConfig:
        """The configs in effect."""
        return self._config

    def _started(self) -> Cluster:
        if self._closed:
            raise ClosedError("the admin client is closed")
        if self._cluster is None:
            self._cluster = Cluster(self._config, allow_auto_create=False)
        return self._cluster

    async def _retry(
        self, what: str, step: Callable[[], Awaitable[T]], also: frozenset[ErrorCode] = frozenset()
    ) -> T:
        return await retry(self._started(), what, self._config.default_api_timeout_ms, step, also=also)

    async def _any(self, what: str, message: Callable[[int], Any], key: ApiKey) -> Any:
        """Ask any broker; `message(version)` makes the request."""

        async def step() -> Any:
            connection = await self._started().any_connection()
            version = connection.pick(key)
            return await connection.send(message(version), version)

        return await self._retry(what, step)

    async def _controller(self, what: str, message: Any, failed: Callable[[Any], int]) -> Any:
        """Ask the controller; once more where `failed(response)` says that it is not the controller any
        more.
        """
        cluster = self._started()

        async def step() -> Any:
            if cluster.metadata.controller_id not in cluster.metadata.brokers:
                await cluster.wait_update(self._config.request_timeout_ms)
            node = cluster.metadata.controller_id
            # Brokers of a KRaft cluster name any broker as controller, and forward.
            response = await cluster.request(node if node in cluster.metadata.brokers else None, message)
            if failed(response) == ErrorCode.NOT_CONTROLLER:
                cluster.metadata.controller_id = -1
                raise error_for(ErrorCode.NOT_CONTROLLER)
            return response

        return await self._retry(what, step)

    # Topics

    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicDescription]:
        """Create topics.

        Returns: name → what was made; the id is zeros and the partitions are empty where the broker does
            not say.

        Raises `TopicExistsError` and whatever else the controller says.
        """
        wanted = [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]
        request = create_topics_request(wanted, timeout_ms or self._config.request_timeout_ms, validate_only)
        response = await self._controller(
            "create topics",
            request,
            lambda r: next((t.error_code for t in r.topics if t.error_code == 41), 0),
        )
        made: dict[str, TopicDescription] = {}
        problems: dict[str, KafkaError] = {}
        for t in response.topics:
            if t.error_code:
                problems[t.name] = error_for(t.error_code, t.error_message or f"topic {t.name!r}")
                continue
            partitions = tuple(
                PartitionInfo(t.name, n, -1, (), (), ()) for n in range(max(0, t.num_partitions))
            )
            made[t.name] = TopicDescription(t.name, bytes(t.topic_id), False, partitions)
        self._started().request_update()
        _raise_first(problems)
        return made

    async def delete_topics(self, topics: Iterable[str], *, timeout_ms: int | None = None) -> None:
        """Delete topics by name. Raises `UnknownTopicOrPartitionError` and the like."""
        names = list(topics)
        cluster = self._started()
        timeout = timeout_ms or self._config.request_timeout_ms

        async def step() -> Any:
            await self._known_controller(cluster)
            connection = await self._to_controller(cluster)
            version = connection.pick(ApiKey.DELETE_TOPICS)
            response = await connection.send(delete_topics_request(names, timeout, version), version)
            if any(r.error_code == ErrorCode.NOT_CONTROLLER for r in response.responses):
                cluster.metadata.controller_id = -1
                raise error_for(ErrorCode.NOT_CONTROLLER)
            return response

        response = await self._retry("delete topics", step)
        problems = {
            r.name: error_for(
                r.error_code, r.error_message or f"topic {r.name!r}: {to_code(r.error_code).message}"
            )
            for r in response.responses
            if r.error_code
        }
        for name in names:
            cluster.metadata.forget(name)
        _raise_first(problems)

    async def _known_controller(self, cluster: Cluster) -> None:
        if cluster.metadata.controller_id not in cluster.metadata.brokers:
            await cluster.wait_update(self._config.request_timeout_ms)

    async def _to_controller(self, cluster: Cluster) -> Any:
        node = cluster.metadata.controller_id
        return await (
            cluster.connection(node) if node in cluster.metadata.brokers else cluster.any_connection()
        )

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, ascending; the internal ones if asked for."""
        response = await self._metadata(None)
        return sorted(t.name for t in response.topics if not t.error_code and (internal or not t.is_internal))

    async def describe_topics(self, topics: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """Partitions, leaders and replicas; of all topics for None. Raises `UnknownTopicOrPartitionError`."""
        response = await self._metadata(None if topics is None else list(topics))
        described: dict[str, TopicDescription] = {}
        problems: dict[str, KafkaError] = {}
        for t in response.topics:
            # A topic that is being made has no leader yet; that is not a reason not to describe it.
            if t.error_code and t.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                problems[t.name] = error_for(
                    t.error_code, f"topic {t.name!r}: {to_code(t.error_code).message}"
                )
                continue
            partitions = tuple(
                PartitionInfo(
                    t.name,
                    p.partition_index,
                    p.leader_id,
                    tuple(p.replica_nodes),
                    tuple(p.isr_nodes),
                    tuple(p.offline_replicas),
                    p.leader_epoch,
                )
                for p in sorted(t.partitions, key=lambda p: p.partition_index)
            )
            described[t.name] = TopicDescription(
                t.name, bytes(t.topic_id or ZERO_UUID), t.is_internal, partitions
            )
        _raise_first(problems)
        return described

    async def _metadata(self, topics: list[str] | None) -> Any:
        from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

        def message(version: int) -> Any:
            return MetadataRequest(
                topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
                allow_auto_topic_creation=version < 4,
            )

        return await self._any("metadata", message, ApiKey.METADATA)

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, list[list[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise topics to so many partitions in all.

        Args:
            assignments: topic → for each new partition its broker ids.
        """
        request = create_partitions_request(
            counts, assignments or {}, self._config.request_timeout_ms, validate_only
        )
        response = await self._controller(
            "create partitions",
            request,
            lambda r: next((t.error_code for t in r.results if t.error_code == 41), 0),
        )
        problems = {
            r.name: error_for(r.error_code, r.error_message or f"topic {r.name!r}")
            for r in response.results
            if r.error_code
        }
        self._started().request_update()
        _raise_first(problems)

    async def delete_records(self, offsets: Mapping[Any, int]) -> dict[TopicPartition, int]:
        """Delete what lies before an offset (-1: everything); returns the new first offsets."""
        from odradek.wire.messages.delete_records import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsTopic,
        )

        cluster = self._started()
        wanted = {TopicPartition(*tp): offset for tp, offset in offsets.items()}
        for topic in {tp.topic for tp in wanted}:
            await cluster.topic_partitions(topic, self._config.default_api_timeout_ms)
        low: dict[TopicPartition, int] = {}

        async def step() -> None:
            by_node: dict[int, dict[str, list[DeleteRecordsPartition]]] = {}
            for tp, offset in wanted.items():
                if tp in low:
                    continue
                leader = cluster.metadata.leader(tp)
                if leader is None:
                    cluster.request_update()
                    raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp} has no leader")
                by_node.setdefault(leader, {}).setdefault(tp.topic, []).append(
                    DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
                )
            problem: KafkaError | None = None
            for node, topics in by_node.items():
                request = DeleteRecordsRequest(
                    timeout_ms=self._config.request_timeout_ms,
                    topics=[DeleteRecordsTopic(name=n, partitions=p) for n, p in topics.items()],
                )
                response = await cluster.request(node, request)
                for t in response.topics:
                    for p in t.partitions:
                        tp = TopicPartition(t.name, p.partition_index)
                        if p.error_code:
                            problem = error_for(p.error_code, f"{tp}: {to_code(p.error_code).message}")
                        else:
                            low[tp] = p.low_watermark
            if problem is not None:
                raise problem

        await self._retry("delete records", step)
        return low

    async def list_offsets(
        self, timestamps: Mapping[Any, int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by time (epoch ms), or -1 latest, -2 earliest, -3 of the largest timestamp; offset -1:
        none.
        """
        wanted = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}
        isolation = 1 if isolation_level == "read_committed" else 0
        return await list_offsets(self._started(), wanted, isolation, self._config.default_api_timeout_ms)

    # Configs

    async def describe_configs(
        self,
        resources: Iterable[Resource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[tuple[int, str], dict[str, ConfigEntry]]:
        """Configs of topics, brokers and broker loggers: ('topic', name), ('broker', id),
        ('broker-logger', id).

        Returns: (type's number, name) → config name → entry.
        """
        keys = [resource_key(resource) for resource in resources]
        wanted = None if names is None else list(names)
        described: dict[tuple[int, str], dict[str, ConfigEntry]] = {}
        problems: dict[tuple[int, str], KafkaError] = {}
        for node, part in self._by_broker(keys).items():

            async def step(node: int | None = node, part: list[tuple[int, str]] = part) -> Any:
                connection = await self._connection_to(node)
                version = connection.pick(ApiKey.DESCRIBE_CONFIGS)
                request = describe_configs_request(part, wanted, synonyms, documentation, version)
                return await connection.send(request, version)

            response = await self._retry("describe configs", step)
            for r in response.results:
                key = (r.resource_type, r.resource_name)
                if r.error_code:
                    problems[key] = error_for(r.error_code, r.error_message or f"{key}")
                    continue
                described[key] = {c.name: _entry(c, r.resource_type) for c in r.configs}
        _raise_first(problems)
        return described

    def _by_broker(self, keys: Iterable[tuple[int, str]]) -> dict[int | None, list[tuple[int, str]]]:
        """A broker's own configs are asked of and told to that broker; all else to any."""
        grouped: dict[int | None, list[tuple[int, str]]] = {}
        for kind, name in keys:
            node = int(name) if kind in (BROKER, BROKER_LOGGER) and name else None
            grouped.setdefault(node, []).append((kind, name))
        return grouped

    async def _connection_to(self, node: int | None) -> Any:
        cluster = self._started()
        if node is None:
            return await cluster.any_connection()
        if node not in cluster.metadata.brokers:
            await cluster.wait_update(self._config.request_timeout_ms)
            if node not in cluster.metadata.brokers:
                known = ", ".join(map(str, sorted(cluster.metadata.brokers)))
                raise error_for(
                    ErrorCode.INVALID_REQUEST, f"there is no broker {node}: the cluster has {known}"
                )
        return await cluster.connection(node)

    async def alter_configs(
        self, configs: Mapping[Resource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> None:
        """Replace the configs of resources: what is not named goes back to its default.

        `incremental_alter_configs` changes single ones, and is what new code wants.
        """
        wanted = {resource_key(resource): dict(values) for resource, values in configs.items()}
        await self._alter(wanted, lambda part: alter_configs_request(part, validate_only), "alter configs")

    async def incremental_alter_configs(
        self,
        configs: Mapping[Resource, Mapping[str, Any]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single configs.

        Args:
            configs: resource → config → value to set, None to delete it, or ('append' | 'subtract', value)
                for configs that are lists.
        """
        wanted = {resource_key(resource): dict(values) for resource, values in configs.items()}
        await self._alter(
            wanted,
            lambda part: incremental_alter_configs_request(part, validate_only),
            "incremental alter configs",
        )

    async def _alter(
        self,
        wanted: Mapping[tuple[int, str], Any],
        message: Callable[[Mapping[tuple[int, str], Any]], Any],
        what: str,
    ) -> None:
        problems: dict[tuple[int, str], KafkaError] = {}
        for node, keys in self._by_broker(wanted).items():
            request = message({key: wanted[key] for key in keys})
            if node is None:
                response = await self._controller(
                    what,
                    request,
                    lambda r: next((x.error_code for x in r.responses if x.error_code == 41), 0),
                )
            else:

                async def step(node: int = node, request: Any = request) -> Any:
                    connection = await self._connection_to(node)
                    return await connection.send(request, connection.pick(request.API_KEY))

                response = await self._retry(what, step)
            for r in response.responses:
                if r.error_code:
                    key = (r.resource_type, r.resource_name)
                    problems[key] = error_for(r.error_code, r.error_message or f"{key}")
        _raise_first(problems)

    # Groups

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """All groups of all brokers, by id; with filters as far as brokers know them."""
        from odradek.wire.messages.list_groups import ListGroupsRequest

        cluster = self._started()
        wanted_states, wanted_types = list(states), list(types)
        listed: dict[str, GroupListing] = {}
        if not cluster.metadata.brokers:
            await cluster.wait_update(self._config.default_api_timeout_ms)

        async def ask(node: int) -> Any:
            async def step() -> Any:
                connection = await cluster.connection(node)
                lowest = 5 if wanted_types else 4 if wanted_states else None
                version = connection.pick(ApiKey.LIST_GROUPS, at_least=lowest)
                request = ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)
                response = await connection.send(request, version)
                _check(response.error_code, f"groups of broker {node}")
                return response

            return await self._retry(f"groups of broker {node}", step)

        if not cluster.metadata.brokers:
            raise cluster.timeout_error("no broker answered", self._config.default_api_timeout_ms)
        for response in await asyncio.gather(*(ask(node) for node in sorted(cluster.metadata.brokers))):
            for g in response.groups:
                listed[g.group_id] = GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type)
        return [listed[name] for name in sorted(listed)]

    async def _coordinator(self, group_id: str, what: str, ask: Callable[[Any], Awaitable[T]]) -> T:
        """Find a group's coordinator and ask it; again if it moved."""
        cluster = self._started()
        retriable = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

        async def step() -> T:
            node = await find_coordinator(cluster, group_id)
            return await ask(await cluster.connection(node.id, COORDINATOR))

        return await self._retry(f"group {group_id!r}: {what}", step, retriable)

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """State, members and their partitions. A group that does not exist has the state 'Dead'."""
        from odradek.wire.messages.describe_groups import DescribeGroupsRequest

        described: dict[str, GroupDescription] = {}
        cluster = self._started()
        for group_id in group_ids:

            async def ask(connection: Any, group_id: str = group_id) -> GroupDescription:
                version = connection.pick(ApiKey.DESCRIBE_GROUPS)
                response = await connection.send(DescribeGroupsRequest(groups=[group_id]), version)
                group = response.groups[0]
                _check(group.error_code, f"group {group_id!r}", getattr(group, "error_message", None))
                return _group(group, connection, cluster)

            try:
                described[group_id] = await self._coordinator(group_id, "describe", ask)
            except KafkaError as problem:
                # Since version 6 brokers say so; before, they described the group as dead.
                if problem.code != ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                described[group_id] = GroupDescription(group_id, "Dead", "", "", (), None)
        return described

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members. Raises `GroupNotEmptyError`, `GroupIdNotFoundError`."""
        from odradek.wire.messages.delete_groups import DeleteGroupsRequest

        problems: dict[str, KafkaError] = {}
        for group_id in group_ids:

            async def ask(connection: Any, group_id: str = group_id) -> None:
                version = connection.pick(ApiKey.DELETE_GROUPS)
                response = await connection.send(DeleteGroupsRequest(groups_names=[group_id]), version)
                for r in response.results:
                    _check(r.error_code, f"group {group_id!r}")

            try:
                await self._coordinator(group_id, "delete", ask)
            except KafkaError as problem:
                problems[group_id] = problem
        _raise_first(problems)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[Any] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed, for all partitions or the given ones; those without are left out."""
        wanted = None if partitions is None else [TopicPartition(*tp) for tp in partitions]
        return await self._coordinator(
            group_id, "offsets", lambda connection: fetch_committed(connection, group_id, wanted, False)
        )

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[Any, Any]) -> None:
        """Commit in a group's name while it has no members. Raises `UnknownMemberIdError` while it has."""
        from odradek.wire.messages.offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for key, value in offsets.items():
            tp = TopicPartition(*key)
            entry = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(int(value))
            topics.setdefault(tp.topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=entry.offset,
                    committed_leader_epoch=entry.leader_epoch,
                    committed_metadata=entry.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[OffsetCommitRequestTopic(name=name, partitions=p) for name, p in topics.items()],
        )

        async def ask(connection: Any) -> None:
            response = await connection.send(request, connection.pick(ApiKey.OFFSET_COMMIT))
            for t in response.topics:
                for p in t.partitions:
                    _check(p.error_code, f"group {group_id!r}, {t.name}-{p.partition_index}")

        await self._coordinator(group_id, "commit", ask)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[Any]) -> None:
        """Forget committed offsets of topics that the group does not subscribe to (KIP-496)."""
        from odradek.wire.messages.offset_delete import (
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
        )

        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for key in partitions:
            tp = TopicPartition(*key)
            topics.setdefault(tp.topic, []).append(OffsetDeleteRequestPartition(partition_index=tp.partition))
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[OffsetDeleteRequestTopic(name=name, partitions=p) for name, p in topics.items()],
        )

        async def ask(connection: Any) -> None:
            response = await connection.send(request, connection.pick(ApiKey.OFFSET_DELETE))
            _check(response.error_code, f"group {group_id!r}")
            for t in response.topics:
                for p in t.partitions:
                    _check(p.error_code, f"group {group_id!r}, {t.name}-{p.partition_index}")

        await self._coordinator(group_id, "delete offsets", ask)

    async def remove_members(self, group_id: str, group_instance_ids: Iterable[str]) -> None:
        """Take static members out of a group (KIP-345)."""
        from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

        members = [MemberIdentity(member_id="", group_instance_id=name) for name in group_instance_ids]

        async def ask(connection: Any) -> None:
            version = connection.pick(ApiKey.LEAVE_GROUP, at_least=3)
            response = await connection.send(LeaveGroupRequest(group_id=group_id, members=members), version)
            _check(response.error_code, f"group {group_id!r}")
            for m in response.members:
                _check(m.error_code, f"group {group_id!r}, member {m.group_instance_id!r}")

        await self._coordinator(group_id, "remove members", ask)

    # Cluster

    async def describe_cluster(self) -> ClusterDescription:
        """Brokers, controller, cluster id."""
        from odradek.wire.messages.describe_cluster import DescribeClusterRequest

        cluster = self._started()

        async def step() -> ClusterDescription:
            connection = await cluster.any_connection()
            if not connection.has_api(ApiKey.DESCRIBE_CLUSTER):
                from odradek.wire.messages.metadata import MetadataRequest

                version = connection.pick(ApiKey.METADATA)
                old = await connection.send(
                    MetadataRequest(topics=[], allow_auto_topic_creation=version < 4), version
                )
                nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in old.brokers}
                return ClusterDescription(old.cluster_id, nodes.get(old.controller_id), _sorted(nodes))
            version = connection.pick(ApiKey.DESCRIBE_CLUSTER)
            response = await connection.send(DescribeClusterRequest(), version)
            _check(response.error_code, "cluster", response.error_message)
            nodes = {b.broker_id: Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers}
            return ClusterDescription(response.cluster_id, nodes.get(response.controller_id), _sorted(nodes))

        return await self._retry("describe cluster", step)

    async def api_versions(self, node_id: int | None = None) -> list[ApiVersionRange]:
        """What a broker (None: any) offers, by key."""

        async def step() -> list[ApiVersionRange]:
            connection = await self._connection_to(node_id)
            ranges = connection.state.versions.ranges
            return [ApiVersionRange(key, _api_name(key), *ranges[key]) for key in sorted(ranges)]

        return await self._retry("API versions", step)

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._cluster is not None:
            await self._cluster.close()

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _sorted(nodes: Mapping[int, Node]) -> tuple[Node, ...]:
    return tuple(nodes[node] for node in sorted(nodes))


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).api_name
    except ValueError:
        return ""


def _entry(config: Any, kind: int) -> ConfigEntry:
    source = config.config_source
    if source < 0:
        # Version 0 says only whether it is a default.
        source = 5 if config.is_default else (1 if kind == TOPIC else 4)
    return ConfigEntry(
        config.name,
        config.value,
        config.read_only,
        source,
        config.is_sensitive,
        config.config_type,
        tuple((s.name, s.value, s.source) for s in config.synonyms),
        config.documentation or None,
    )


def _group(group: Any, connection: Any, cluster: Cluster) -> GroupDescription:
    members = []
    for m in group.members:
        partitions: tuple[TopicPartition, ...] = ()
        if group.protocol_type == PROTOCOL_TYPE:
            try:
                partitions = decode_assignment(m.member_assignment)
            except ProtocolError:
                partitions = ()  # another program's idea of an assignment
        members.append(
            MemberDescription(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                bytes(m.member_metadata),
                partitions,
            )
        )
    coordinator = next(
        (
            node
            for node in cluster.metadata.brokers.values()
            if f"{node.host}:{node.port}" == connection.address
        ),
        None,
    )
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(members),
        coordinator,
    )
