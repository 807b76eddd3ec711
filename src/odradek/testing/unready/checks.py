"""Checks of what a request asks about: the error that Kafka answers while it is not ready.

The table of docs/test_kit.md in code: which API says what of which subject, in which versions and releases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.coordinators.partitioner import partition_for
from odradek.errors.codes import ErrorCode
from odradek.testing.unready.lagging_metadata import COORDINATOR, DELETED, END_OFFSET, LEADER, TOPIC_OF
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    from odradek.testing.faults.names import Names
    from odradek.testing.unready.early_request import EarlyRequest

PRODUCER_IDS = ("producer ids",)
"""The block of ids from which a broker gives them out: with KRaft it has to ask the controller for one."""

_LATEST = -1
_FIRST_OF_THREE = 3
_ALL: tuple[str, ...] = ()
_PART = ("topic", "partition")


class NotReady(NamedTuple):
    """An answer to some parts of a request, in place of the work.

    Attributes:
        error: NONE where nothing is said of it, and nothing done.
        kinds: the kinds of names by which the parts are told from others.
    """

    error: ErrorCode
    kinds: tuple[str, ...]


Check = Callable[["EarlyRequest", "Names"], NotReady | None]
"""Tells what is to be said of a part of a request; None where it is ready."""


# ---------------------------------------------------------------------- topics


def topic_is_known(early: EarlyRequest, names: Names) -> NotReady | None:
    """`MetadataCache.contains`, before anything is asked of a partition."""
    name, index = names.get("topic"), names.get("partition")
    there = None if name is None else early.image.topic(name)
    if name is None or there is None:
        return None
    told = early.told.topic(name)
    if "topic_id" in names and (told is None or told.topic_id != there.topic_id):
        return NotReady(ErrorCode.UNKNOWN_TOPIC_ID, _PART)
    if told is None or (index in there.partitions and index not in told.partitions):
        return NotReady(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _PART)
    return None


def leader_leads(early: EarlyRequest, names: Names) -> NotReady | None:
    """`ReplicaManager.getPartitionOrError`: the cache has the partition before the replica leads it.

    A broker with ZooKeeper hears of its own leadership first, of others' later.
    """
    if not early.with_kraft and early.state.broker.channels is None:
        return None
    if early.left((LEADER, names.get("topic", ""), names.get("partition", 0))):
        return NotReady(ErrorCode.NOT_LEADER_OR_FOLLOWER, _PART)
    return None


def end_offset_is_known(early: EarlyRequest, names: Names) -> NotReady | None:
    """`Partition.fetchOffsetForTimestamp`: a new leader's high watermark is behind the start of its epoch
    (KIP-207)."""
    name, index = names.get("topic", ""), names.get("partition", 0)
    if not early.is_from("2.2") or not asks_for_end(early.request, name, index):
        return None
    partition = early.image.partition(name, index)
    replica = early.state.broker.replicas.find(name, index)
    if partition is None or replica is None or len(partition.replicas) < 2 or not replica.log.log_end_offset:
        return None
    if not early.left((END_OFFSET, name, index)):
        return None
    from_5 = early.version >= 5
    return NotReady(ErrorCode.OFFSET_NOT_AVAILABLE if from_5 else ErrorCode.LEADER_NOT_AVAILABLE, _PART)


def asks_for_end(request: Any, name: str, index: int) -> bool:
    """Return whether a consumer's ListOffsets asks for the end of a partition."""
    return request.replica_id == -1 and any(
        partition.partition_index == index and partition.timestamp == _LATEST
        for topic in request.topics
        if topic.name == name
        for partition in topic.partitions
    )


def name_is_free(early: EarlyRequest, names: Names) -> NotReady | None:
    """`AdminZkClient.validateTopicCreate`: with ZooKeeper a topic is marked for deletion for a while."""
    if early.with_kraft or not early.left((DELETED, names.get("topic", ""))):
        return None
    return NotReady(ErrorCode.TOPIC_ALREADY_EXISTS, ("topic",))


# ---------------------------------------------------------------------- coordinators


def _coordinator(early: EarlyRequest, names: Names, kind: str) -> ErrorCode | None:
    """Return what a coordinator says that is not elected, and then loads."""
    key, topic = names.get(kind), early.image.topic(TOPIC_OF[kind])
    if key is None or topic is None:
        return None
    left = early.left((COORDINATOR, topic.name, partition_for(key, len(topic.partitions))))
    if not left:
        return None
    # With KRaft the cache of the broker knows its leadership before its coordinator does.
    is_elected = left < _FIRST_OF_THREE or not early.with_kraft
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_elected else ErrorCode.NOT_COORDINATOR


def group_is_loaded(early: EarlyRequest, names: Names) -> NotReady | None:
    """`GroupCoordinator.validateGroupStatus`, later `CoordinatorRuntime`."""
    error = _coordinator(early, names, "group")
    return None if error is None else NotReady(error, ("group",))


def group_is_loaded_for_offsets(early: EarlyRequest, names: Names) -> NotReady | None:
    """The same for OffsetCommit and OffsetFetch, of which version 0 asks ZooKeeper and no coordinator."""
    return None if early.version == 0 else group_is_loaded(early, names)


def group_is_loaded_for_sync(early: EarlyRequest, names: Names) -> NotReady | None:
    """`handleSyncGroup`: what was joined is lost; clients before 2.4 would not know the other error."""
    error = _coordinator(early, names, "group")
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not early.is_from("4.0"):
        error = ErrorCode.REBALANCE_IN_PROGRESS
    return None if error is None else NotReady(error, ("group",))


def group_is_loaded_for_heartbeat(early: EarlyRequest, names: Names) -> NotReady | None:
    """`handleHeartbeat`: while the group is being loaded it is answered blindly."""
    error = _coordinator(early, names, "group")
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error = ErrorCode.NONE
    return None if error is None else NotReady(error, ("group",))


def group_is_loaded_for_transaction(early: EarlyRequest, names: Names) -> NotReady | None:
    """`handleTxnOffsetCommitRequest`: producers before 2.3 do not know that the group is being loaded."""
    error = _coordinator(early, names, "group")
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and early.version < 2:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return None if error is None else NotReady(error, ("group",))


def all_are_loaded(kind: str) -> Check:
    """`listGroups`, `listTransactions`: as long as one partition of theirs is being loaded."""

    def check(early: EarlyRequest, _: Names) -> NotReady | None:
        loading = early.state.unreadiness.of_kind(COORDINATOR, TOPIC_OF[kind])
        for subject in loading:
            early.left(subject)
        return NotReady(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _ALL) if loading else None

    return check


def producer_is_loaded(early: EarlyRequest, names: Names) -> NotReady | None:
    """`TransactionStateManager.getTransactionState`."""
    error = _coordinator(early, names, "transactional_id")
    return None if error is None else NotReady(error, ("transactional_id",))


# ---------------------------------------------------------------------- transactions


def transaction_has_ended(early: EarlyRequest, names: Names) -> NotReady | None:
    """`TransactionCoordinator`: in PrepareCommit and PrepareAbort the markers are still to be written."""
    transactional_id = names.get("transactional_id")
    if transactional_id is None or not early.is_ending(transactional_id):
        return None
    return NotReady(ErrorCode.CONCURRENT_TRANSACTIONS, ("transactional_id",))


def transaction_has_ended_for_produce(early: EarlyRequest, names: Names) -> NotReady | None:
    """The partition is added to the transaction by its leader (KIP-890), which tries for a while."""
    return transaction_has_ended(early, names) if early.version >= 12 and early.is_from("4.0") else None


def partitions_can_be_added(early: EarlyRequest, names: Names) -> NotReady | None:
    """The questions to the coordinator come once all topics are known, which the handler looks at itself."""
    if early.version >= 4 or any(topic_is_known(early, part) for part in early.names):
        return None
    return producer_is_loaded(early, names) or transaction_has_ended(early, names)


def offset_is_stable(early: EarlyRequest, names: Names) -> NotReady | None:
    """A transaction has an offset that no marker has decided yet (KIP-447)."""
    kinds = ("group", *_PART)
    if early.version < 7 or not early.request.require_stable or not all(kind in names for kind in kinds):
        return None
    offset = names["group"], names["topic"], names["partition"]
    return (
        NotReady(ErrorCode.UNSTABLE_OFFSET_COMMIT, kinds)
        if early.state.transactions.is_unstable(offset)
        else None
    )


def producer_ids_are_there(early: EarlyRequest, _: Names) -> NotReady | None:
    """`RPCProducerIdManager.generateProducerId`, which waits for no block any more from 3.6 on."""
    if early.with_kraft and early.is_from("3.6") and early.left(PRODUCER_IDS):
        return NotReady(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _ALL)
    return None


CHECKS: dict[ApiKey, tuple[Check, ...]] = {
    ApiKey.PRODUCE: (topic_is_known, leader_leads, transaction_has_ended_for_produce),
    ApiKey.FETCH: (topic_is_known, leader_leads),
    ApiKey.LIST_OFFSETS: (topic_is_known, leader_leads, end_offset_is_known),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (topic_is_known, leader_leads),
    ApiKey.DELETE_RECORDS: (topic_is_known, leader_leads),
    ApiKey.CREATE_TOPICS: (name_is_free,),
    ApiKey.OFFSET_COMMIT: (topic_is_known, group_is_loaded_for_offsets),
    ApiKey.OFFSET_FETCH: (group_is_loaded_for_offsets, offset_is_stable),
    ApiKey.OFFSET_DELETE: (group_is_loaded,),
    ApiKey.JOIN_GROUP: (group_is_loaded,),
    ApiKey.SYNC_GROUP: (group_is_loaded_for_sync,),
    ApiKey.HEARTBEAT: (group_is_loaded_for_heartbeat,),
    ApiKey.LEAVE_GROUP: (group_is_loaded,),
    ApiKey.DESCRIBE_GROUPS: (group_is_loaded,),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (group_is_loaded,),
    ApiKey.DELETE_GROUPS: (group_is_loaded,),
    ApiKey.LIST_GROUPS: (all_are_loaded("group"),),
    ApiKey.INIT_PRODUCER_ID: (producer_is_loaded, transaction_has_ended, producer_ids_are_there),
    ApiKey.ADD_PARTITIONS_TO_TXN: (partitions_can_be_added,),
    ApiKey.ADD_OFFSETS_TO_TXN: (producer_is_loaded, transaction_has_ended),
    ApiKey.TXN_OFFSET_COMMIT: (topic_is_known, group_is_loaded_for_transaction),
    ApiKey.END_TXN: (producer_is_loaded,),
    ApiKey.DESCRIBE_TRANSACTIONS: (producer_is_loaded,),
    ApiKey.LIST_TRANSACTIONS: (all_are_loaded("transactional_id"),),
}
"""By API, what is looked at, in Kafka's order."""
