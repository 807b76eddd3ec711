"""A metadata store that was restored from an older backup knows less than the brokers' logs: it is told.

What goes up for ever has gone back there, and would be given out a second time:

- Leader epochs. Two leaders of one epoch make logs that cannot be told apart (KIP-101), and a leader in an
  older epoch than its log knows cannot answer followers who have the newer one.
- Producer ids. Somebody else's records would be taken for duplicates.
- The controller epoch. Brokers that were not restarted refuse all that a controller in an older one says.

So a broker compares them with what its logs know, before it registers, and raises them above that: each with
the version that it has read, so that who is faster wins and is looked at again. For a running controller a
notice of changed states is left (`/isr_change_notification`), and where its own epoch was raised it is
removed, so that there is another election. Topics that are younger than the backup are `strays`'.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from odradek.cluster import nodes, paths
from odradek.cluster.nodes import NodeFormatError
from odradek.cluster.producer_ids import BELIEVED_BELOW, block_with
from odradek.cluster.store.store import BadVersion, Delete, NoNode, SetData
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.cluster.store.store import MetadataStore
    from odradek.log.folders.log_manager import LogManager
    from odradek.log.partition.partition_log import PartitionLog
    from odradek.util.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

_LAST_EPOCH = 2**31 - 2
_IN_ONE_NOTICE = 3_000
_TRIES = 5


class KnownEpoch(NamedTuple):
    """The newest leader epoch that a broker knows of a partition, of the topic with that id."""

    leader_epoch: int
    topic_id: bytes | None


class Known(NamedTuple):
    """The knowledge of a broker, by its logs and by what it was told.

    Attributes:
        leader_epochs: of its replicas.
        producer_id: the largest in its logs; -1 for none.
        controller_epoch: the largest that a controller has spoken to it in, since it started; 0 for none.
    """

    leader_epochs: Mapping[TopicPartition, KnownEpoch]
    producer_id: int
    controller_epoch: int = 0


def known(logs: LogManager, replicas: ReplicaManager, controller_epoch: int = 0) -> Known:
    """Return what a broker knows by now; see `Known`."""

    def epoch_of(log: PartitionLog) -> KnownEpoch:
        replica = replicas.find(log.topic, log.partition)
        leader_epoch = NO_EPOCH if replica is None else replica.leader_epoch
        return KnownEpoch(max(log.epochs.latest, leader_epoch), log.topic_id)

    return Known(
        {(log.topic, log.partition): epoch_of(log) for log in logs.all()},
        logs.largest_producer_id(BELIEVED_BELOW),
        controller_epoch,
    )


def tell_store(store: MetadataStore, broker_id: int, known: Known) -> int:
    """Raise what stands in the store, and has to be above what a broker knows.

    Args:
        store: is read and written, in another thread than the event loop's.
        broker_id: of this broker.
        known: what it knows.

    Returns:
        How many leader epochs were raised.

    Raises:
        StoreError: it cannot be read or written.
    """
    topic_ids = _topic_ids(store, known.leader_epochs)
    raised = _raise_leader_epochs(store, known.leader_epochs, topic_ids)
    is_behind = _raise_producer_ids(store, broker_id, known.producer_id)
    is_behind |= _raise_controller_epoch(store, known.controller_epoch)
    if raised or is_behind:
        logger.error(
            "the metadata store knows less than this broker, as one that was restored from an older backup:"
            " %d leader epochs, and what else has to grow, were raised above what the logs know. What it"
            " says of in-sync replicas, topics and configs is as old (docs/cluster.md, 'A restored store')",
            len(raised),
        )
    strangers = sorted(key for key in known.leader_epochs if topic_ids.get(key[0], b"") is None)
    if strangers:
        logger.log(
            logging.ERROR if raised or is_behind else logging.WARNING,
            "%d logs (%s …) are of topics that the metadata store does not know: they are kept, and go by"
            " -stray names after a while. If they were not deleted, the store was restored from a backup that"
            " is older than they are: docs/cluster.md says how they come back ('A restored store')",
            len(strangers),
            ", ".join(f"{topic}-{index}" for topic, index in strangers[:5]),
        )
    return len(raised)


def _topic_ids(store: MetadataStore, keys: Iterable[TopicPartition]) -> dict[str, bytes | None]:
    """The ids of the topics in the store, zeros where one has none, None where there is no such topic."""
    names = sorted({topic for topic, _ in keys})
    ids: dict[str, bytes | None] = {}
    for name, node in zip(names, store.get_many([paths.topic(name) for name in names]), strict=True):
        with suppress(NodeFormatError):  # said by whoever needs it
            ids[name] = None if node is None else nodes.decode_topic(name, node.data).topic_id
    return ids


def _raise_leader_epochs(
    store: MetadataStore,
    leader_epochs: Mapping[TopicPartition, KnownEpoch],
    topic_ids: Mapping[str, bytes | None],
) -> list[TopicPartition]:
    keys = [
        key
        for key, known_epoch in leader_epochs.items()
        # A topic that was made anew under its name begins with 0 again.
        if (its_id := topic_ids.get(key[0])) is not None
        and (known_epoch.topic_id is None or its_id in (known_epoch.topic_id, ZERO_UUID))
        and 0 <= known_epoch.leader_epoch < _LAST_EPOCH
    ]
    raised = []
    states = [paths.partition_state(*key) for key in keys]
    for key, path, node in zip(keys, states, store.get_many(states), strict=True):
        if node is not None and _raise_one(store, path, leader_epochs[key].leader_epoch):
            raised.append(key)
    for start in range(0, len(raised), _IN_ONE_NOTICE):
        notice = nodes.encode_isr_change(raised[start : start + _IN_ONE_NOTICE])
        store.create(paths.ISR_CHANGE_PREFIX, notice, sequence=True)
    return raised


def _raise_one(store: MetadataStore, path: str, epoch: int) -> bool:
    for _ in range(_TRIES):
        try:
            data, stat = store.get(path)
            state = nodes.decode_partition_state(path, data)
            if state.leader_epoch >= epoch:
                return False
            # Nobody has led in it: it is as after another election of the same leader.
            after = nodes.encode_partition_state(state._replace(leader_epoch=epoch + 1))
            store.set(path, after, stat.version)
        except BadVersion:
            continue
        except (NoNode, NodeFormatError):
            return False
        return True
    return False


def _raise_producer_ids(store: MetadataStore, broker_id: int, largest: int) -> bool:
    path = paths.PRODUCER_ID_BLOCK
    for _ in range(_TRIES):
        try:
            data, stat = store.get(path)
            last = nodes.decode_producer_id_block(path, data)
            if largest < 0 or (last is not None and last.last >= largest):
                return False
            store.set(path, nodes.encode_producer_id_block(block_with(broker_id, largest)), stat.version)
        except BadVersion:
            continue
        except NoNode:
            return False
        return True
    return False


def _raise_controller_epoch(store: MetadataStore, epoch: int) -> bool:
    for _ in range(_TRIES):
        try:
            data, stat = store.get(paths.CONTROLLER_EPOCH)
            if nodes.decode_epoch(paths.CONTROLLER_EPOCH, data) >= epoch:
                return False
            raised = SetData(paths.CONTROLLER_EPOCH, nodes.encode_epoch(epoch), stat.version)
            is_held = store.exists(paths.CONTROLLER) is not None
            store.multi([raised, Delete(paths.CONTROLLER)] if is_held else [raised])
        except (BadVersion, NoNode):
            continue
        return True
    return False
