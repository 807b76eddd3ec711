"""One partition of `__consumer_offsets`: its groups, its offsets, and `replay`.

Durable state, changed by `replay` alone: `durable` (a `GroupMetadataValue` per group) and `offsets`.
Volatile state: `groups`, which requests and timers act on. Loading replays the whole partition and then
builds the groups from the durable state; a tombstone takes a group out of both.
"""

from __future__ import annotations

from odradek.coordinators.groups.classic_group import ClassicGroup, join_error, sync_error
from odradek.coordinators.groups.env import GroupEnv, logger
from odradek.coordinators.groups.offset_store import OffsetStore
from odradek.coordinators.groups.offsets import all_tombstones, expired
from odradek.coordinators.groups.rebalance import NOTHING, begin, restart_session
from odradek.coordinators.groups.records import GROUP_KEY_TYPE, OFFSET_KEY_TYPES, group_record
from odradek.coordinators.groups.states import GroupState
from odradek.coordinators.outcome import CoordinatorRecord, Outcome
from odradek.errors import ErrorCode, GroupIdNotFoundError, GroupNotEmptyError, ProtocolError
from odradek.wire.schemas.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)


class GroupShard:
    """The groups and offsets of one partition.

    Attributes:
        env: its surroundings.
        durable: per group, the last value in the log.
        offsets: the committed offsets.
        groups: the groups as they are now.
        unknown_key_types: key types met while loading that this release does not know; their records stay
            in the log, for the release that wrote them.
    """

    def __init__(self, env: GroupEnv) -> None:
        self.env = env
        self.durable: dict[str, GroupMetadataValue] = {}
        self.offsets = OffsetStore()
        self.groups: dict[str, ClassicGroup] = {}
        self.unknown_key_types: set[int] = set()
        # Whether `groups` stands for what was replayed; until then it is empty.
        self._loaded = False
        env.settled = self.settled

    # Replay

    def replay_bytes(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> None:
        """Apply a record as it stands in the log.

        Args:
            offset: the record's offset.
            producer_id: of the transaction that it is part of, -1 outside of transactions.
            key: its key.
            value: its value; `None` is a tombstone.

        Raises:
            ProtocolError: the record is not what its key type says.
        """
        if key is None or len(key) < 2:
            raise ProtocolError("a record of the offsets topic without a key type")
        key_type = int.from_bytes(key[:2], "big", signed=True)
        if key_type in OFFSET_KEY_TYPES:
            offset_key, _ = OffsetCommitKey.decode_from(key, OffsetCommitKey.VERSIONS[-1], 2)
            offset_value = None if value is None else OffsetCommitValue.decode_prefixed(value)
            self.replay(offset, producer_id, offset_key, offset_value)
        elif key_type == GROUP_KEY_TYPE:
            group_key, _ = GroupMetadataKey.decode_from(key, GroupMetadataKey.VERSIONS[-1], 2)
            group_value = None if value is None else GroupMetadataValue.decode_prefixed(value)
            self.replay(offset, producer_id, group_key, group_value)
        else:
            self.unknown_key_types.add(key_type)

    def replay(self, offset: int, producer_id: int, key: object, value: object) -> None:
        """Apply a record to the durable state; see `replay_bytes`."""
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self.offsets.replay(offset, producer_id, key.group, key.topic, key.partition, value)
            # While loading, a later record may still be the group's own: `on_loaded` makes those without one.
            if value is not None and self._loaded:
                self.group_or_new(key.group)
            return
        assert isinstance(key, GroupMetadataKey)
        if value is None:
            self.durable.pop(key.group, None)
            group = self.groups.pop(key.group, None)
            if group is not None:
                group.move_to(GroupState.DEAD, self.env.clock.now_ms())
                group.held.let_go()
            return
        assert isinstance(value, GroupMetadataValue)
        self.durable[key.group] = value

    def replay_end_of_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a control record."""
        self.offsets.replay_end_of_transaction(producer_id, committed=committed)

    # Life

    def on_loaded(self) -> Outcome:
        """Build the groups from what was replayed and start their timers."""
        self._loaded = True
        env = self.env
        for group_id, value in self.durable.items():
            group = self.groups[group_id] = ClassicGroup.from_record(group_id, value, env.held)
            for member in group.members.values():
                restart_session(env, group, member)
            if len(group.members) > env.config.group_max_size:
                # The limit was lowered: those who come back first stay.
                begin(env, group, f"{len(group.members)} members are over group.max.size")
        for group_id in self.offsets.group_ids():
            if group_id not in self.groups:
                # Only stores offsets. Since when is not known, so expiry counts from the commits.
                self.groups[group_id] = ClassicGroup(group_id, None, env.held)
        if self.unknown_key_types:
            logger.warning(
                "record types %s of the offsets topic are unknown here and were left alone",
                sorted(self.unknown_key_types),
            )
        env.deadlines.every(
            "expired offsets",
            env.config.offsets_retention_check_interval_ms,
            lambda: env.run("cleanup", self.clean_up),
        )
        return NOTHING

    def on_unloaded(self) -> None:
        """End all groups and timers; whoever waits is sent to look for the coordinator again."""
        now_ms = self.env.clock.now_ms()
        for group in self.groups.values():
            group.move_to(GroupState.DEAD, now_ms)
            group.held.let_go()
            for member in group.members.values():
                self.env.answer(
                    group.take_join(member), join_error(ErrorCode.NOT_COORDINATOR, member.member_id)
                )
                self.env.answer(group.take_sync(member), sync_error(ErrorCode.NOT_COORDINATOR))
        self.env.deadlines.cancel_all()
        self.groups.clear()

    # Groups

    def group(self, group_id: str) -> ClassicGroup:
        """The group.

        Raises:
            GroupIdNotFoundError: there is none.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        return group

    def group_or_new(self, group_id: str) -> ClassicGroup:
        """The group, made if it is not there."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self.env.clock.now_ms(), self.env.held)
        return group

    def settled(self, group: ClassicGroup, outcome: Outcome) -> Outcome:
        """The outcome of a command on `group`, which is dropped if the command has left nothing of it."""
        if not outcome.records:
            # With records, they are about the group: it is in the log in a moment.
            self.forget_if_unused(group)
        return outcome

    def forget_if_unused(self, group: ClassicGroup) -> None:
        """Drop a group that nobody is in, that nothing is stored of, and that was never written."""
        group_id = group.group_id
        if (
            group.state is GroupState.EMPTY
            and not group.pending_members
            and group_id not in self.durable
            and not self.offsets.of_group(group_id)
            and not self.offsets.has_open_transactions(group_id)
            and self.groups.get(group_id) is group
        ):
            del self.groups[group_id]

    def delete(self, group_id: str) -> list[CoordinatorRecord]:
        """Tombstones for a group and all that it has committed.

        Raises:
            GroupIdNotFoundError: there is none.
            GroupNotEmptyError: it has members.
        """
        group = self.group(group_id)
        if group.state is GroupState.DEAD:
            raise GroupIdNotFoundError(f"Group {group_id} is in dead state.")
        if group.state is not GroupState.EMPTY:
            raise GroupNotEmptyError
        return [*all_tombstones(self.offsets, group_id), group_record(group_id, None)]

    # Expiry

    def clean_up(self) -> Outcome:
        """Remove expired offsets, and groups that have neither members nor offsets left."""
        records: list[CoordinatorRecord] = []
        for group in list(self.groups.values()):
            tombstones, nothing_left = expired(self.env, group, self.offsets)
            records += tombstones
            if not nothing_left or group.state is not GroupState.EMPTY or group.pending_members:
                continue
            if tombstones or group.group_id in self.durable:
                records.append(group_record(group.group_id, None))
            else:
                self.forget_if_unused(group)
        return Outcome(records, on_failed=_cleanup_failed, atomic=False)


def _cleanup_failed(error: ErrorCode) -> None:
    logger.warning("expired offsets could not be removed: %s", error.name)
