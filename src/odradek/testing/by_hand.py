"""Events that a test brings about by hand, each by the road that it goes in a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odradek.testing.own_client import own
from odradek.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from odradek.broker.network.server import Listener
    from odradek.broker.requests.peer import Peer
    from odradek.client import Admin
    from odradek.coordinators.groups.coordinator import GroupCoordinator
    from odradek.coordinators.groups.member import Member
    from odradek.testing.faults.calls import Calls


def admin(configs: Mapping[str, Any]) -> Admin:
    """Return a client for administration, which the caller closes.

    Args:
        configs: those of a client that may do everything.
    """
    # Not before it is needed: a broker in a test starts in a blink.
    from odradek.client import Admin

    return Admin(own(configs))


def expire_session(coordinator: GroupCoordinator, group_id: str, member: str | None) -> None:
    """Let the time of a member's session be over. In the loop of the broker that coordinates the group.

    Args:
        coordinator: the broker's.
        group_id: of the group.
        member: a member id, group instance id or client id; None for the only member.

    Raises:
        KafkaError: this broker does not coordinate the group, or does not yet.
        ValueError: there is no such member, or more than one, or it waits for an answer of the group.
    """
    shard = coordinator.runtime.shard(coordinator.partition_of(group_id))
    group = shard.groups.get(group_id)
    members = {} if group is None else group.members
    named = [candidate for candidate in members.values() if member is None or member in _names(candidate)]
    if len(named) != 1:
        member_ids = ", ".join(sorted(members)) or "nobody"
        raise ValueError(f"{len(named)} members of group {group_id!r} are {member!r}: there is {member_ids}")
    if named[0].is_parked():
        raise ValueError(f"{named[0].member_id} waits for the group: a session runs out between answers")
    shard.env.deadlines.pass_now(("session", group_id, named[0].member_id))


def _names(member: Member) -> set[str | None]:
    return {member.member_id, member.group_instance_id, member.client_id}


def fence_producer(configs: Mapping[str, Any], transactional_id: str) -> None:
    """Take a transactional id away from its producer (InitProducerId).

    Raises:
        KafkaError: it is refused.
    """
    with admin(configs) as client:
        client.fence_producers([transactional_id])


def led_by(broker_id: int, topic: str, index: int, replicas: Sequence[int]) -> list[int]:
    """Return a partition's replicas with the one first that is to lead.

    Raises:
        ValueError: the broker has none of them.
    """
    if broker_id not in replicas:
        raise ValueError(f"broker {broker_id} has no replica of {topic}-{index}: {list(replicas)} have")
    return [broker_id, *(other for other in replicas if other != broker_id)]


def coordinated(group: str | None, transactional_id: str | None) -> tuple[str, str]:
    """Return the topic among whose partitions a group or a transactional id has one, and its key there.

    Raises:
        ValueError: it is not one of the two.
    """
    if group is not None and transactional_id is None:
        return GROUP_METADATA_TOPIC, group
    if transactional_id is not None and group is None:
        return TRANSACTION_STATE_TOPIC, transactional_id
    raise ValueError("give a group or a transactional id")


def move_leader(configs: Mapping[str, Any], topic: str, index: int, replicas: Sequence[int]) -> None:
    """Make the first of a partition's replicas its preferred leader, and elect it.

    Args:
        configs: see `admin`.
        topic, index: the partition.
        replicas: its own, the new leader first.

    Raises:
        KafkaError: it is refused.
    """
    with admin(configs) as client:
        client.alter_partition_reassignments({(topic, index): list(replicas)})
        for error in client.elect_leaders([(topic, index)]).values():
            if error is not None:
                raise error


def abort_connections(listeners: Sequence[Listener], client_id: str, calls: Calls) -> list[Peer]:
    """Close the connections on which a client waits for an answer; each is counted.

    Returns:
        The ends of all connections that there were.
    """
    connections = [connection for listener in listeners for connection in listener.connections]
    peers = [connection.peer for connection in connections]
    for connection in connections:
        if connection.waits_for_answer_to(client_id.__eq__):
            calls.next()
            connection.abort("cut off by the test")
    return peers
