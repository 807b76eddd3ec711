"""The group coordinator: what a broker's handlers call.

Each method validates what needs no group, finds the shard, runs the command, and gives errors the form of
the request's response. Answers come through a `Reply`-like callback, perhaps before the method returns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from odradek.coordinators.deadlines import Deadlines
from odradek.coordinators.groups import describe as describing
from odradek.coordinators.groups import offsets as offset_commands
from odradek.coordinators.groups.classic_group import ClassicGroup, join_error, sync_error
from odradek.coordinators.groups.commit_answers import commit_error, transactional_commit_error
from odradek.coordinators.groups.config import GroupConfig
from odradek.coordinators.groups.env import Caller, Command, GroupEnv
from odradek.coordinators.groups.heartbeat import heartbeat
from odradek.coordinators.groups.held_bytes import HeldBytes
from odradek.coordinators.groups.join import JoinAttempt, give_up, join
from odradek.coordinators.groups.leave import leave
from odradek.coordinators.groups.rebalance import NOTHING
from odradek.coordinators.groups.shard import GroupShard
from odradek.coordinators.groups.sync import sync
from odradek.coordinators.outcome import CoordinatorRecord, Outcome
from odradek.coordinators.partitioner import partition_for
from odradek.coordinators.reply import Reply
from odradek.coordinators.runtime import CoordinatorRuntime, DeferredResponse, RecordLog
from odradek.errors import (
    CoordinatorLoadInProgressError,
    ErrorCode,
    GroupIdNotFoundError,
    IllegalGenerationError,
    KafkaError,
)
from odradek.records.compression import Codec
from odradek.util.clock import Clock
from odradek.util.timers import Timers
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC
from odradek.wire.messages.delete_groups import DeletableGroupResult
from odradek.wire.messages.describe_groups import DescribedGroup
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.wire.messages.leave_group import (
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from odradek.wire.messages.list_groups import ListedGroup
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from odradek.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

R = TypeVar("R")

FIRST_COMMIT_VERSION_WITH_NOT_FOUND = 9
"""The OffsetCommit that may be answered GROUP_ID_NOT_FOUND."""


class GroupCoordinator:
    """Coordinates the groups whose partitions of `__consumer_offsets` this broker leads.

    Args:
        config: the broker's settings.
        log: the partitions of the topic.
        clock: the time.
        timers: for sessions, rebalances and what expires.
        pauses: for how long an answer waits for its commit.
        new_uuid: makes the random part of member ids.
        partition_count: partitions of the topic as it is; 0 while it does not exist.
        codec: how the coordinator's records are compressed (`offsets.topic.compression.codec`).

    Attributes:
        held: the bytes that the members of all groups take.
    """

    def __init__(
        self,
        *,
        config: GroupConfig,
        log: RecordLog,
        clock: Clock,
        timers: Timers,
        pauses: Timers,
        new_uuid: Callable[[], str],
        partition_count: int = 0,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.config = config
        # Kept by the broker as its image says (`broker.coordination.shell`).
        self.partition_count = partition_count
        self._clock = clock
        self._timers = timers
        self._new_uuid = new_uuid
        self.held = HeldBytes()
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            topic=GROUP_METADATA_TOPIC,
            log=log,
            clock=clock,
            timers=pauses,
            new_shard=self._new_shard,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
            codec=codec,
        )

    def _new_shard(self, partition: int) -> tuple[GroupShard, list[DeferredResponse]]:
        def run(name: str, command: Command) -> None:
            self.runtime.run(partition, name, lambda shard: command())

        env = GroupEnv(self.config, self._clock, Deadlines(self._timers, self._clock), self._new_uuid, run)
        # One count for all shards: the bound is of the broker's memory, not of a partition's.
        env.held = self.held
        return GroupShard(env), env.outbox

    def partition_of(self, group_id: str) -> int:
        """The partition that coordinates a group.

        Raises:
            NotCoordinatorError: the topic does not exist yet, so nobody does.
        """
        return partition_for(group_id, self.partition_count)

    # Membership

    def join_group(
        self, caller: Caller, request: JoinGroupRequest, deliver: Callable[[JoinGroupResponse], None]
    ) -> Callable[[], None]:
        """JoinGroup; `deliver` takes the answer, at once or when the rebalance is through.

        Returns:
            What is to be called if the client goes before the answer.
        """
        member_id = request.member_id
        reply = Reply(deliver, lambda error: join_error(error, member_id))
        partition = self._partition(request.group_id, reply)
        if partition is None:
            return _nothing
        config = self.config
        if not (
            config.group_min_session_timeout_ms
            <= request.session_timeout_ms
            <= config.group_max_session_timeout_ms
        ):
            reply.fail(ErrorCode.INVALID_SESSION_TIMEOUT)
            return _nothing
        group_id = request.group_id

        def command(shard: GroupShard) -> Outcome:
            # Only a member without an id makes a group (GroupMetadataManager.classicGroupJoin): who has an id
            # was a member of a group that is gone.
            if member_id and request.group_id not in shard.groups:
                return Outcome(response=join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            group = shard.group_or_new(request.group_id)
            return shard.settled(group, join(shard.env, group, JoinAttempt(caller, request, reply)))

        # A command like any other, as the answer may be under way already: then `give_up` has nothing to do.
        def forget(shard: GroupShard) -> Outcome:
            group = shard.groups.get(group_id)
            return NOTHING if group is None else shard.settled(group, give_up(shard.env, group, reply))

        self.runtime.run(partition, "JoinGroup", command, reply)
        return lambda: self.runtime.run(partition, "JoinGroup given up", forget)

    def sync_group(self, request: SyncGroupRequest, deliver: Callable[[SyncGroupResponse], None]) -> None:
        """SyncGroup; `deliver` takes the answer, at once or when the leader has assigned."""
        reply = Reply(deliver, sync_error)
        self._run_on_group(
            "SyncGroup",
            request.group_id,
            reply,
            lambda: sync_error(ErrorCode.UNKNOWN_MEMBER_ID),
            lambda shard, group: sync(shard.env, group, request, reply),
        )

    def heartbeat(self, request: HeartbeatRequest, deliver: Callable[[HeartbeatResponse], None]) -> None:
        """Heartbeat. While the shard is loading every member is taken to be fine."""
        self._run_on_group(
            "Heartbeat",
            request.group_id,
            Reply(deliver, _heartbeat_error),
            lambda: HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID),
            lambda shard, group: Outcome(
                response=HeartbeatResponse(error_code=heartbeat(shard.env, group, request))
            ),
        )

    def leave_group(
        self, group_id: str, leaving: list[MemberIdentity], deliver: Callable[[LeaveGroupResponse], None]
    ) -> None:
        """LeaveGroup of one or several members."""
        self._run_on_group(
            "LeaveGroup",
            group_id,
            Reply(deliver, lambda error: LeaveGroupResponse(error_code=error)),
            lambda: _nobody(leaving),
            lambda shard, group: shard.settled(group, leave(shard.env, group, leaving)),
        )

    def _run_on_group(
        self,
        name: str,
        group_id: str,
        reply: Reply[R],
        unknown: Callable[[], R],
        command: Callable[[GroupShard, ClassicGroup], Outcome],
    ) -> None:
        """Run a command on a group; where there is no such group, `unknown` makes the answer."""
        partition = self._partition(group_id, reply)
        if partition is None:
            return

        def run(shard: GroupShard) -> Outcome:
            group = shard.groups.get(group_id)
            return Outcome(response=unknown()) if group is None else command(shard, group)

        self.runtime.run(partition, name, run, reply)

    def _partition(self, group_id: str, reply: Reply[R]) -> int | None:
        if not group_id:
            reply.fail(ErrorCode.INVALID_GROUP_ID)
            return None
        try:
            return self.partition_of(group_id)
        except KafkaError as error:
            reply.fail(error.code)
            return None

    # Offsets

    def commit_offsets(
        self,
        api_version: int,
        request: OffsetCommitRequest,
        deliver: Callable[[OffsetCommitResponse], None],
    ) -> None:
        """OffsetCommit, version 1 and up; the partitions are known to exist. An empty group id is allowed."""
        reply = Reply(deliver, lambda error: commit_error(request, error))
        # Not `_partition`, which refuses an empty group id: Kafka takes it here and in OffsetFetch, for
        # the sake of old clients (GroupCoordinator.isValidGroupId).
        try:
            partition = self.partition_of(request.group_id)
        except KafkaError as error:
            reply.fail(error.code)
            return

        # Clients before version 9 do not know the other error (OffsetMetadataManager.validateOffsetCommit).
        unknown: type[KafkaError] = IllegalGenerationError
        if api_version >= FIRST_COMMIT_VERSION_WITH_NOT_FOUND:
            unknown = GroupIdNotFoundError

        def command(shard: GroupShard) -> Outcome:
            return _commit(
                shard,
                request,
                unknown,
                lambda group: offset_commands.commit(shard.env, group, request),
            )

        self.runtime.run(partition, "OffsetCommit", command, reply)

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, deliver: Callable[[TxnOffsetCommitResponse], None]
    ) -> None:
        """TxnOffsetCommit: the offsets count when the transaction's marker says that it is committed.

        The partitions are known to exist, and the transaction coordinator knows that this partition of
        `__consumer_offsets` takes part.
        """
        reply = Reply(deliver, lambda error: transactional_commit_error(request, error))
        partition = self._partition(request.group_id, reply)
        if partition is None:
            return

        def command(shard: GroupShard) -> Outcome:
            return _commit(
                shard,
                request,
                IllegalGenerationError,
                lambda group: offset_commands.commit_in_transaction(shard.env, group, request),
            )

        self.runtime.run(partition, "TxnOffsetCommit", command, reply)

    def transaction_ended(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """A transaction's marker was appended to a partition of `__consumer_offsets`.

        To be called by whoever appended it, at once, so that no command comes between.

        Args:
            partition: of which partition.
            producer_id: whose transaction.
            committed: whether its offsets count from now on; else they are dropped.
        """
        self.runtime.transaction_ended(partition, producer_id, committed=committed)

    def fetch_offsets(
        self,
        request: OffsetFetchRequestGroup,
        deliver: Callable[[OffsetFetchResponseGroup], None],
        *,
        require_stable: bool,
        only_committed: bool = False,
    ) -> None:
        """OffsetFetch of one group. Waits for commits that are under way. An empty group id is allowed.

        Args:
            request: the group and the partitions.
            deliver: gets the answer.
            require_stable, only_committed: see `offsets.fetch`.
        """
        reply = Reply(deliver, lambda error: fetch_error(request.group_id, error))
        try:
            partition = self.partition_of(request.group_id)
        except KafkaError as error:
            reply.fail(error.code)
            return

        def command(shard: GroupShard) -> Outcome:
            # No lookup that raises: for a group that nobody knows Kafka too answers -1 for each partition.
            group_exists = request.group_id in shard.groups
            return Outcome(
                response=offset_commands.fetch(
                    shard.offsets,
                    group_exists,
                    request,
                    require_stable=require_stable,
                    only_committed=only_committed,
                )
            )

        self.runtime.run(partition, "OffsetFetch", command, reply)

    def committed_partitions(self, group_id: str) -> Iterator[tuple[str, list[int]]]:
        """The partitions of which a group has committed offsets, by topic.

        The topics are those that it has now; the partitions of a topic those that it has when its turn comes.

        Raises:
            KafkaError: the group's coordinator is not here, or not yet.
        """
        shard = self.runtime.shard(self.partition_of(group_id))
        if group_id not in shard.groups:
            return iter(())
        topics = shard.offsets.of_group(group_id)
        # Lists are made one at a time: a group may have committed a hundred thousand partitions.
        return ((topic, list(topics.get(topic, ()))) for topic in tuple(topics))

    def delete_offsets(
        self, request: OffsetDeleteRequest, deliver: Callable[[OffsetDeleteResponse], None]
    ) -> None:
        """OffsetDelete; the partitions are known to exist."""
        reply = Reply(deliver, lambda error: OffsetDeleteResponse(error_code=error))
        partition = self._partition(request.group_id, reply)
        if partition is None:
            return
        self.runtime.run(
            partition,
            "OffsetDelete",
            lambda shard: offset_commands.delete(shard.offsets, shard.group(request.group_id), request),
            reply,
        )

    def on_partitions_deleted(self, deleted: dict[str, set[int] | None]) -> None:
        """Forget the offsets of deleted partitions.

        Args:
            deleted: the partitions by topic; `None` for the whole topic.
        """
        # In all shards, as any group may have read the topic. A shard that is still loading is left out, as
        # with Kafka: its offsets of the topic stay until they expire.
        for partition in self.runtime.partitions():
            self.runtime.run(
                partition,
                "deleted partitions",
                lambda shard: Outcome(
                    # Each tombstone is true by itself, and all of them may be too many for one batch.
                    offset_commands.tombstones_of_topics(shard.offsets, deleted),
                    atomic=False,
                ),
            )

    # Administration

    def describe_group(self, api_version: int, group_id: str) -> DescribedGroup:
        """DescribeGroups of one group."""
        # Read at once, not by a command: what a describer sees may be uncommitted, and decides nothing.
        try:
            shard = self.runtime.shard(self.partition_of(group_id))
        except KafkaError as error:
            return describing.describe_error(group_id, error.code)
        group = shard.groups.get(group_id)
        if group is None:
            return describing.describe_unknown(group_id, api_version)
        return describing.describe(group)

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[ErrorCode, list[ListedGroup]]:
        """ListGroups: the groups coordinated here that pass the filters.

        Args:
            states, types: lower-case names; none for all.

        Returns:
            COORDINATOR_LOAD_IN_PROGRESS and nothing while a shard is loading, else NONE and the groups.
        """
        groups: list[ListedGroup] = []
        for partition in self.runtime.partitions():
            try:
                shard = self.runtime.shard(partition)
            except CoordinatorLoadInProgressError:
                # A list without the groups of one partition could not be told from a whole list.
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []
            except KafkaError:
                # Given up meanwhile, or failed: Kafka's list leaves the groups of such a partition out, too.
                continue
            for group in shard.groups.values():
                line = describing.listed(group, states, types)
                if line is not None:
                    groups.append(line)
        return ErrorCode.NONE, groups

    def delete_groups(
        self, group_ids: Sequence[str], deliver: Callable[[list[DeletableGroupResult]], None]
    ) -> None:
        """DeleteGroups: each group with its offsets, all of one shard together."""
        by_partition: dict[int, list[str]] = {}
        results: dict[str, DeletableGroupResult] = {}
        unique = list(dict.fromkeys(group_ids))
        for group_id in unique:
            try:
                by_partition.setdefault(self.partition_of(group_id), []).append(group_id)
            except KafkaError as error:
                results[group_id] = _deleted(group_id, error)

        # Shards answer in any order, some at once: the last result completes the answer.
        def some_done(some: list[DeletableGroupResult]) -> None:
            for result in some:
                results[result.group_id] = result
            if len(results) == len(unique):
                deliver([results[group_id] for group_id in unique])

        if not by_partition:
            some_done([])
        for partition, ids in by_partition.items():
            self._delete_of_shard(partition, ids, some_done)

    def _delete_of_shard(
        self, partition: int, group_ids: list[str], deliver: Callable[[list[DeletableGroupResult]], None]
    ) -> None:
        def command(shard: GroupShard) -> Outcome:
            records: list[CoordinatorRecord] = []
            results: list[DeletableGroupResult] = []
            # Each group has an error of its own, and a group that has members does not keep the others.
            for group_id in group_ids:
                try:
                    records += shard.delete(group_id)
                    results.append(_deleted(group_id))
                except KafkaError as error:
                    results.append(_deleted(group_id, error))
            return Outcome(records, results)

        reply: Reply[list[DeletableGroupResult]] = Reply(
            deliver, lambda error: [DeletableGroupResult(group_id=g, error_code=error) for g in group_ids]
        )
        self.runtime.run(partition, "DeleteGroups", command, reply)


def _nothing() -> None:
    """There is nothing to give up."""


def _deleted(group_id: str, error: KafkaError | None = None) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NONE if error is None else error.code)


def _heartbeat_error(error: ErrorCode) -> HeartbeatResponse:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # As in Kafka's handleHeartbeat: sessions begin when the shard is loaded, so nothing can have run out.
        error = ErrorCode.NONE
    return HeartbeatResponse(error_code=error)


def _nobody(leaving: Iterable[MemberIdentity]) -> LeaveGroupResponse:
    # An error per member, as since LeaveGroup 3 (KIP-345); the handler makes a single error of it before
    # that.
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for identity in leaving
        ],
    )


def _commit(
    shard: GroupShard,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    unknown: type[KafkaError],
    commit: Callable[[ClassicGroup], Outcome],
) -> Outcome:
    """Run a commit on a group, which need not exist unless the request names a generation of it."""
    group = shard.groups.get(request.group_id)
    is_new = group is None
    if group is None:
        # Without a generation it comes from an administrator, or from a consumer that assigns partitions to
        # itself. Its group only stores offsets: Kafka's "simple group".
        if request.generation_id_or_member_epoch >= 0:
            raise unknown
        group = shard.group_or_new(request.group_id)
    try:
        return commit(group)
    finally:
        if is_new:
            # Replaying its first offset brings it back; if that cannot be written, nothing is left.
            shard.forget_if_unused(group)


def fetch_error(group_id: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    """An OffsetFetch response that says `error` of a group.

    Consumers older than Kafka 3.9 do not know what to do with COORDINATOR_NOT_AVAILABLE here.
    """
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode.NOT_COORDINATOR
    return OffsetFetchResponseGroup(group_id=group_id, error_code=error, topics=[])
