"""Groups and their offsets, as the administrator sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from odradek.client.aio.admin_base import AdminBase, check, failure, listed, problems_in, raise_first
from odradek.client.aio.group_link import COORDINATOR, fetch_committed, find_coordinator
from odradek.client.arguments import name_of, names_of, offsets_of, partitions_of
from odradek.client.core.group_offsets import commit_request, not_committed
from odradek.client.core.group_protocol import PROTOCOL_TYPE, decode_assignment
from odradek.client.types import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    Node,
    OffsetAndMetadata,
    Offsets,
    TopicPartition,
    TopicPartitionLike,
)
from odradek.errors import ErrorCode, KafkaError, ProtocolError
from odradek.wire.api import ApiKey

T = TypeVar("T")


class GroupAdmin(AdminBase):
    """The calls about groups."""

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[GroupListing]:
        """All groups of all brokers, by id; with filters as far as brokers know them.

        Args:
            states: only groups in one of these, such as 'Stable' (KIP-518); nothing: in any.
            types: only groups of these, such as 'classic' (KIP-848); nothing: of any.
        """
        from odradek.wire.messages.list_groups import ListGroupsRequest

        cluster = self._started()
        wanted_states, wanted_types = names_of(states, "states"), names_of(types, "types")
        groups: dict[str, GroupListing] = {}
        if not cluster.metadata.brokers:
            await cluster.wait_update(self._config.default_api_timeout_ms)

        async def ask(node: int) -> Any:
            async def step() -> Any:
                connection = await cluster.connection(node)
                lowest = 5 if wanted_types else 4 if wanted_states else None
                version = connection.pick(ApiKey.LIST_GROUPS, at_least=lowest)
                request = ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)
                response = await connection.send(request, version)
                check(response.error_code, f"groups of broker {node}")
                return response

            return await self._retry(f"groups of broker {node}", step)

        if not cluster.metadata.brokers:
            raise cluster.timeout_error("no broker answered", self._config.default_api_timeout_ms)
        for response in await asyncio.gather(*(ask(node) for node in sorted(cluster.metadata.brokers))):
            for g in response.groups:
                groups[g.group_id] = GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type)
        return [groups[name] for name in sorted(groups)]

    async def _coordinator(self, group_id: str, action: str, ask: Callable[[Any], Awaitable[T]]) -> T:
        """Find a group's coordinator and ask it; again if it moved.

        Raises:
            ArgumentTypeError: the group is no name.
        """
        name_of(group_id, "group_id")
        cluster = self._started()
        retriable = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

        async def step() -> T:
            node = await find_coordinator(cluster, group_id)
            return await ask(await cluster.connection(node.id, COORDINATOR))

        return await self._retry(f"group {group_id!r}: {action}", step, retriable)

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """State, members and their partitions. A group that does not exist has the state 'Dead'.

        Args:
            group_ids: their ids; each coordinator is asked once about all of its groups.
        """
        from odradek.wire.messages.describe_groups import DescribeGroupsRequest

        names = dict.fromkeys(names_of(group_ids, "group_ids"))

        async def ask(
            node: Node, connection: Any, part: list[str]
        ) -> dict[str, GroupDescription | KafkaError]:
            version = connection.pick(ApiKey.DESCRIBE_GROUPS)
            response = await connection.send(DescribeGroupsRequest(groups=part), version)
            return {group.group_id: _described(group, node) for group in response.groups}

        described = await self._coordinators(f"describe groups {listed(names)}", names, ask)
        return {name: described[name] for name in names}

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members.

        Raises:
            GroupNotEmptyError: a group has members.
            GroupIdNotFoundError: there is no such group.
        """
        from odradek.wire.messages.delete_groups import DeleteGroupsRequest

        names = dict.fromkeys(names_of(group_ids, "group_ids"))

        async def ask(_: Node, connection: Any, part: list[str]) -> dict[str, KafkaError | None]:
            version = connection.pick(ApiKey.DELETE_GROUPS)
            response = await connection.send(DeleteGroupsRequest(groups_names=part), version)
            return {
                r.group_id: failure(f"group {r.group_id!r}", r.error_code) if r.error_code else None
                for r in response.results
            }

        await self._coordinators(f"delete groups {listed(names)}", names, ask)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartitionLike] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group, of all partitions or the given ones that have any.

        Args:
            group_id: its id.
            partitions: (topic, number) pairs; None: all.
        """
        tps = None if partitions is None else partitions_of(partitions)
        return await self._coordinator(
            group_id, "offsets", lambda connection: fetch_committed(connection, group_id, tps, False)
        )

    async def alter_group_offsets(self, group_id: str, offsets: Offsets) -> None:
        """Commit in a group's name while it has no members.

        Args:
            group_id: its id.
            offsets: (topic, number) → the next offset to read, or an `OffsetAndMetadata` (KIP-396).

        Raises:
            UnknownMemberIdError: the group has members.
        """
        to_commit = offsets_of(offsets)
        request = commit_request(group_id, to_commit)

        async def ask(connection: Any) -> None:
            response = await connection.send(request, connection.pick(ApiKey.OFFSET_COMMIT))
            raise_first(
                {
                    tp: failure(f"group {group_id!r}, {tp}", code)
                    for tp, code in not_committed(response, to_commit)
                }
            )

        await self._coordinator(group_id, "commit", ask)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartitionLike]) -> None:
        """Forget committed offsets of topics that the group does not subscribe to (KIP-496).

        Args:
            group_id: its id.
            partitions: (topic, number) pairs.

        Raises:
            GroupSubscribedToTopicError: the group subscribes to a topic.
            KafkaError: `GroupIdNotFoundError` and the like.
        """
        from odradek.wire.messages.offset_delete import (
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
        )

        tps = partitions_of(partitions)
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for tp in tps:
            topics.setdefault(tp.topic, []).append(OffsetDeleteRequestPartition(partition_index=tp.partition))
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[OffsetDeleteRequestTopic(name=name, partitions=p) for name, p in topics.items()],
        )

        async def ask(connection: Any) -> Any:
            response = await connection.send(request, connection.pick(ApiKey.OFFSET_DELETE))
            check(response.error_code, f"group {group_id!r}")
            return response

        response = await self._coordinator(group_id, "delete offsets", ask)
        answers = {
            TopicPartition(t.name, p.partition_index): p for t in response.topics for p in t.partitions
        }
        raise_first(problems_in(answers, tps, lambda tp: f"group {group_id!r}, {tp}"))

    async def remove_members(self, group_id: str, group_instance_ids: Iterable[str]) -> None:
        """Take static members out of a group (KIP-345).

        Args:
            group_id: its id.
            group_instance_ids: what the members have as `group.instance.id`.
        """
        from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

        names = names_of(group_instance_ids, "group_instance_ids")
        members = [MemberIdentity(member_id="", group_instance_id=name) for name in names]

        async def ask(connection: Any) -> None:
            version = connection.pick(ApiKey.LEAVE_GROUP, at_least=3)
            response = await connection.send(LeaveGroupRequest(group_id=group_id, members=members), version)
            check(response.error_code, f"group {group_id!r}")
            answers = {m.group_instance_id: m for m in response.members}
            raise_first(problems_in(answers, names, lambda name: f"group {group_id!r}, member {name!r}"))

        await self._coordinator(group_id, "remove members", ask)


def _described(group: Any, node: Node) -> GroupDescription | KafkaError:
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        # Since version 6 brokers say so; before, they described the group as dead.
        return GroupDescription(group.group_id, "Dead", "", "", (), None)
    if group.error_code:
        return failure(f"group {group.group_id!r}", group.error_code, getattr(group, "error_message", None))
    return _group(group, node)


def _group(group: Any, node: Node) -> GroupDescription:
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
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(members),
        node,
    )
