"""Elections of leaders: pure functions from (replicas, state, live brokers) to the next state.

None as an answer means: nobody can lead now. Each election raises the leader epoch by one, which fences the
leader before. A member leaves the ISR for a leader that goes on without it, or as it has lost its log: with
nobody of an ISR alive, all of them stay in it, without a leader. It is never empty.
"""

from __future__ import annotations

from collections.abc import Collection

from odradek.cluster.image import PartitionImage
from odradek.cluster.nodes import LEADER_RECOVERING, NO_LEADER, PartitionState


def state_of(partition: PartitionImage) -> PartitionState:
    """A partition's state as it stands in its node."""
    return PartitionState(
        partition.leader,
        partition.leader_epoch,
        partition.isr,
        partition.controller_epoch,
        partition.leader_recovery_state,
    )


def first_leader(
    partition: PartitionImage, live: Collection[int], controller_epoch: int
) -> PartitionState | None:
    """The first state of a new partition: all live replicas are in sync, the first of them leads."""
    isr = tuple(broker for broker in partition.replicas if broker in live)
    return PartitionState(isr[0], 0, isr, controller_epoch) if isr else None


def offline(
    partition: PartitionImage, live: Collection[int], controller_epoch: int, *, unclean: bool
) -> PartitionState | None:
    """A new leader for a partition whose leader is gone: the first live replica that is in sync.

    With `unclean` (`unclean.leader.election.enable`) at worst the first live one, which may lose records.
    """
    in_sync = [b for b in partition.replicas if b in live and b in partition.isr]
    if in_sync:
        isr = tuple(b for b in partition.isr if b in live)
        return PartitionState(
            in_sync[0],
            partition.leader_epoch + 1,
            isr,
            controller_epoch,
            partition.leader_recovery_state,
        )
    return begun_anew(partition, live, controller_epoch) if unclean else None


def begun_anew(
    partition: PartitionImage, live: Collection[int], controller_epoch: int
) -> PartitionState | None:
    """The first live replica as the leader, in sync or not, which may lose records.

    Where its log is lost it begins with an empty one: it knows by the recovery state that it may (KIP-704).
    """
    alive = [b for b in partition.replicas if b in live]
    if not alive:
        return None
    # The ISR is the leader alone: nobody else is known to have what it has, and only that.
    return PartitionState(
        alive[0], partition.leader_epoch + 1, (alive[0],), controller_epoch, LEADER_RECOVERING
    )


def preferred(
    partition: PartitionImage, live: Collection[int], controller_epoch: int
) -> PartitionState | None:
    """The first replica as the leader, if it is alive and in sync."""
    first = partition.replicas[0] if partition.replicas else NO_LEADER
    if first not in live or first not in partition.isr:
        return None
    return state_of(partition)._replace(
        leader=first,
        leader_epoch=partition.leader_epoch + 1,
        controller_epoch=controller_epoch,
    )


def controlled_shutdown(
    partition: PartitionImage, live: Collection[int], leaving: Collection[int], controller_epoch: int
) -> PartitionState | None:
    """A new leader in place of one that is about to leave; the leaving brokers leave the ISR as well."""
    candidates = [b for b in partition.replicas if b in live and b in partition.isr and b not in leaving]
    if not candidates:
        return None
    return state_of(partition)._replace(
        leader=candidates[0],
        leader_epoch=partition.leader_epoch + 1,
        isr=tuple(b for b in partition.isr if b not in leaving),
        controller_epoch=controller_epoch,
    )


def without_replica(partition: PartitionImage, broker: int, controller_epoch: int) -> PartitionState | None:
    """The state after a broker is gone that holds a replica: None when that changes nothing.

    It leaves the ISR of another leader, who goes on without it. Where nobody leads the ISR stays whole:
    nothing is committed any more, so each of its members has everything, and whoever has kept its disk leads
    when it is back. (Kafka's ReplicaStateMachine takes all out but the last.)
    """
    if broker not in partition.isr or partition.leader == NO_LEADER:
        return None
    state = state_of(partition)._replace(
        leader_epoch=partition.leader_epoch + 1, controller_epoch=controller_epoch
    )
    if partition.leader == broker:
        return state._replace(leader=NO_LEADER)
    return state._replace(isr=tuple(b for b in partition.isr if b != broker))


def without_log(partition: PartitionImage, broker: int, controller_epoch: int) -> PartitionState | None:
    """The state after a broker cannot use its log any more: None when that changes nothing.

    It leaves the ISR to those who can, dead or not, unless it is its last member, and leads no longer.
    """
    if broker not in partition.isr:
        return None
    # Its last member stays, as nobody else is known to have all records
    # (docs/decisions/who-has-lost-a-replica-leaves-its-isr.md).
    isr = tuple(b for b in partition.isr if b != broker) or partition.isr
    leader = NO_LEADER if partition.leader == broker else partition.leader
    if isr == partition.isr and leader == partition.leader:
        return None
    return state_of(partition)._replace(
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + 1,
        controller_epoch=controller_epoch,
    )
