"""`Admin`: `AsyncAdmin` in a background thread, every call waited for."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, Unpack

from odradek.client.aio.admin import AsyncAdmin
from odradek.client.aio.admin_access import QuotaEntity
from odradek.client.aio.admin_configs import ConfigChange, Resource
from odradek.client.aio.admin_placement import ReplicaFolders
from odradek.client.errors import ClosedError
from odradek.client.sync.loop_thread import LoopThread
from odradek.client.sync.unclosed import Unclosed
from odradek.client.types import (
    AbortTransactionSpec,
    ApiVersionRange,
    ByPartition,
    ClusterDescription,
    ConfigEntry,
    DelegationToken,
    FeatureMetadata,
    GroupDescription,
    GroupListing,
    LogDirDescription,
    NewTopic,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    PartitionReassignment,
    ProducerIdAndEpoch,
    ProducerState,
    QuorumInfo,
    ReplicaLogDirInfo,
    TopicDescription,
    TopicPartition,
    TopicPartitionLike,
    TopicPartitionReplica,
    TransactionDescription,
    TransactionListing,
)
from odradek.errors import KafkaError
from odradek.util.acl import AclBinding, AclBindingFilter

if TYPE_CHECKING:
    from odradek.client.config_dicts import AdminConfigs


class Admin:
    """The administrator, for threads; may be shared by several.

        with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
            admin.create_topics([NewTopic("events", num_partitions=6)])

    Its methods are those of `AsyncAdmin`, with the same arguments, results and errors; each waits for its
    result.

    Args:
        config, configs: Kafka's admin configs under Python's names or, in a mapping, Kafka's.

    Raises:
        ConfigError: a config that cannot be used.
    """

    def __init__(
        self, config: Mapping[str, object] | None = None, /, **configs: Unpack[AdminConfigs]
    ) -> None:
        self._admin = AsyncAdmin(config, **configs)
        self._thread = LoopThread(f"odradek-{self._admin.config.client_id}")
        self._closed = False
        client_name = f"admin client {self._admin.config.client_id!r}"
        self._unclosed = Unclosed(self, client_name, self._thread, self._admin.close)

    def _run(self, name: str, *args: Any, **more: Any) -> Any:
        if self._closed:
            raise ClosedError("the admin client is closed")
        return self._thread.run(getattr(self._admin, name)(*args, **more))

    if TYPE_CHECKING:
        # The methods are made below, from those of `AsyncAdmin`; type checkers need to see them.
        def create_topics(
            self,
            topics: Iterable[NewTopic | str],
            *,
            validate_only: bool = ...,
            timeout_ms: int | None = ...,
            retry_on_quota_violation: bool = ...,
        ) -> dict[str, TopicDescription]: ...
        def delete_topics(
            self,
            topics: Iterable[str],
            *,
            timeout_ms: int | None = ...,
            retry_on_quota_violation: bool = ...,
        ) -> None: ...
        def list_topics(self, *, internal: bool = ...) -> list[str]: ...
        def describe_topics(self, topics: Iterable[str] | None = ...) -> dict[str, TopicDescription]: ...
        def create_partitions(
            self,
            counts: Mapping[str, int],
            *,
            assignments: Mapping[str, list[list[int]]] | None = ...,
            validate_only: bool = ...,
            retry_on_quota_violation: bool = ...,
        ) -> None: ...
        def delete_records(self, offsets: ByPartition[int]) -> dict[TopicPartition, int]: ...
        def list_offsets(
            self, timestamps: ByPartition[int | datetime], *, isolation_level: str = ...
        ) -> dict[TopicPartition, OffsetAndTimestamp]: ...
        def describe_configs(
            self,
            resources: Iterable[Resource],
            *,
            names: Iterable[str] | None = ...,
            synonyms: bool = ...,
            documentation: bool = ...,
        ) -> dict[Resource, dict[str, ConfigEntry]]: ...
        def list_config_resources(self, kinds: Iterable[str] = ...) -> list[tuple[str, str]]: ...
        def alter_configs(
            self, configs: Mapping[Resource, Mapping[str, str | None]], *, validate_only: bool = ...
        ) -> None: ...
        def incremental_alter_configs(
            self, configs: Mapping[Resource, Mapping[str, ConfigChange]], *, validate_only: bool = ...
        ) -> None: ...
        def list_groups(
            self, *, states: Iterable[str] = ..., types: Iterable[str] = ...
        ) -> list[GroupListing]: ...
        def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]: ...
        def delete_groups(self, group_ids: Iterable[str]) -> None: ...
        def list_group_offsets(
            self, group_id: str, partitions: Iterable[TopicPartitionLike] | None = ...
        ) -> dict[TopicPartition, OffsetAndMetadata]: ...
        def alter_group_offsets(self, group_id: str, offsets: Offsets) -> None: ...
        def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartitionLike]) -> None: ...
        def remove_members(self, group_id: str, group_instance_ids: Iterable[str]) -> None: ...
        def describe_log_dirs(
            self, brokers: Iterable[int] | None = ...
        ) -> dict[int, dict[str, LogDirDescription]]: ...
        def describe_replica_log_dirs(
            self, replicas: Iterable[TopicPartitionReplica | tuple[str, int, int]]
        ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]: ...
        def alter_replica_log_dirs(self, assignment: ReplicaFolders) -> None: ...
        def elect_leaders(
            self,
            partitions: Iterable[TopicPartitionLike] | None = ...,
            *,
            election_type: str = ...,
            timeout_ms: int | None = ...,
        ) -> dict[TopicPartition, KafkaError | None]: ...
        def alter_partition_reassignments(
            self, reassignments: ByPartition[Sequence[int] | None], *, timeout_ms: int | None = ...
        ) -> None: ...
        def list_partition_reassignments(
            self, partitions: Iterable[TopicPartitionLike] | None = ..., *, timeout_ms: int | None = ...
        ) -> dict[TopicPartition, PartitionReassignment]: ...
        def describe_client_quotas(
            self, components: Mapping[str, str | EllipsisType | None] | None = ..., *, strict: bool = ...
        ) -> dict[QuotaEntity, dict[str, float]]: ...
        def alter_client_quotas(
            self, quotas: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = ...
        ) -> None: ...
        def describe_user_scram_credentials(
            self, users: Iterable[str] | None = ...
        ) -> dict[str, dict[str, int]]: ...
        def alter_user_scram_credentials(
            self, passwords: Mapping[tuple[str, str], str | None], *, iterations: int = ...
        ) -> None: ...
        def describe_acls(self, acl_filter: AclBindingFilter = ...) -> list[AclBinding]: ...
        def create_acls(self, bindings: Iterable[AclBinding]) -> None: ...
        def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[list[AclBinding]]: ...
        def create_delegation_token(
            self, *, owner: str | None = ..., renewers: Iterable[str] = ..., max_lifetime_ms: int = ...
        ) -> DelegationToken: ...
        def renew_delegation_token(self, hmac: bytes, *, period_ms: int = ...) -> int: ...
        def expire_delegation_token(self, hmac: bytes, *, period_ms: int = ...) -> int: ...
        def describe_delegation_tokens(self, owners: Iterable[str] | None = ...) -> list[DelegationToken]: ...
        def list_transactions(
            self,
            *,
            states: Iterable[str] = ...,
            producer_ids: Iterable[int] = ...,
            longer_than_ms: int = ...,
            pattern: str | None = ...,
        ) -> dict[int, list[TransactionListing]]: ...
        def describe_transactions(
            self, transactional_ids: Iterable[str]
        ) -> dict[str, TransactionDescription]: ...
        def describe_producers(
            self, partitions: Iterable[TopicPartitionLike], *, broker_id: int | None = ...
        ) -> dict[TopicPartition, list[ProducerState]]: ...
        def abort_transaction(self, spec: AbortTransactionSpec) -> None: ...
        def fence_producers(
            self, transactional_ids: Iterable[str], *, timeout_ms: int | None = ...
        ) -> dict[str, ProducerIdAndEpoch]: ...
        def force_terminate_transaction(self, transactional_id: str) -> None: ...
        def describe_cluster(self, *, include_fenced_brokers: bool = ...) -> ClusterDescription: ...
        def describe_features(self, node_id: int | None = ...) -> FeatureMetadata: ...
        def update_features(
            self,
            levels: Mapping[str, int],
            *,
            upgrade_type: str = ...,
            validate_only: bool = ...,
            timeout_ms: int | None = ...,
        ) -> None: ...
        def describe_metadata_quorum(self) -> QuorumInfo: ...
        def api_versions(self, node_id: int | None = ...) -> list[ApiVersionRange]: ...

    def close(self) -> None:
        """Close the connections. Calls under way in other threads end with `ClosedError`."""
        if self._thread.left_in is not None:
            return
        self._closed = True
        if self._thread.is_current:
            self._unclosed.close_in_background(self._admin.close)
            return
        self._unclosed.closed()
        try:
            with contextlib.suppress(ClosedError):
                self._thread.run(self._admin.close())
        finally:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _waiting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Admin, *args: Any, **more: Any) -> Any:
        return self._run(name, *args, **more)

    # `wraps` would have it look like a coroutine function to whoever asks.
    del call.__wrapped__
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return call


for _name, _method in inspect.getmembers(AsyncAdmin, inspect.iscoroutinefunction):
    if not _name.startswith("_") and _name != "close":
        setattr(Admin, _name, _waiting(_name, _method))
