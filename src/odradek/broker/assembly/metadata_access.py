"""The metadata of a start: its store, the controller over it, and the membership in a cluster of several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from odradek.broker.assembly.store_choice import open_store
from odradek.broker.folders.adoption import adopt_cluster_id
from odradek.broker.folders.broker_ids import with_generated_id
from odradek.broker.membership.membership import Membership
from odradek.broker.membership.restored_store import Known, KnownEpoch, tell_store
from odradek.broker.membership.start_sessions import StartSession
from odradek.broker.membership.unclean_return import look_for_doubts
from odradek.cluster.controller.kafka_controller import KafkaController
from odradek.cluster.controller.lone_controller import LoneController
from odradek.cluster.producer_ids import BELIEVED_BELOW

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.event_loop.slices import Slicer
    from odradek.broker.membership.membership import ClusterAccess
    from odradek.cluster.controller.controller import Controller
    from odradek.cluster.store.store import MetadataStore
    from odradek.log.folders.log_manager import LogManager
    from odradek.util.clock import Clock
    from odradek.util.timers import Timers
    from odradek.util.undo import Undo

T = TypeVar("T")


class MetadataAccess(NamedTuple):
    """The way of a broker to the metadata.

    Attributes:
        store: where it is; of a cluster of several the session in which it was loaded.
        controller: writes it.
        membership: in a cluster of several; None for a broker that is alone.
        config: the broker's configs, with its id.
    """

    store: MetadataStore
    controller: Controller
    membership: Membership | None
    config: BrokerConfig


async def open_metadata(
    config: BrokerConfig,
    logs: LogManager,
    clock: Clock,
    timers: Timers,
    slicer: Slicer,
    undo: Undo,
    *,
    given_store: MetadataStore | None,
    cluster: ClusterAccess | None,
) -> MetadataAccess:
    """Open the metadata, and check that the data folders belong to it.

    Args:
        config: the broker's configs.
        logs: the folders, which may know ids.
        clock, timers, slicer: for the controller and the membership.
        undo: gets what closes again what is opened.
        given_store: is used, and not closed; None for one that the configs name.
        cluster: how to get to a cluster of several; None for a broker that is alone. A store that goes away
            when it has been reached once is waited for.

    Raises:
        StoreError, DataDirectoryError, ConfigError: see `open_store` and `with_generated_id`; the folders are
            another cluster's.
    """
    membership: Membership | None = None
    controller: Controller
    if cluster is not None:
        session = StartSession(cluster.open_store)
        # Another one may have taken the place of the first by then.
        undo.push(
            "session with the metadata store",
            lambda: (session.store if membership is None else controller.store).close(),
        )
        undo.push("wait for the metadata store", session.stop)
        given, stored_id = config, logs.identity.stored_broker_id()
        config = await session.ask(lambda store: with_generated_id(given, stored_id, store))
        controller = one_of_several = KafkaController(session.store, config.broker_id, config, clock)
        await session.ask(partial(_open_controller, one_of_several, logs))
        store = session.store
        membership = Membership(cluster, config, one_of_several, clock, timers, slicer)
    else:
        if given_store is None:
            store = open_store(config, logs.data_dirs[0], clock)
            undo.push("metadata store", store.close)
        else:
            store = given_store
        adopt_cluster_id(logs, store)
        controller = LoneController(store, config.broker_id, config, clock)
        controller.open()
    logs.identity.check(config.broker_id, controller.cluster_id)
    if membership is None:
        # One of several does so when it joins.
        if controller.image.topics:
            # Without any, topics are made of the logs, and what these know is taken over.
            logs_know = {
                (one.topic, one.partition): KnownEpoch(one.epochs.latest, one.topic_id) for one in logs.all()
            }
            known = Known(logs_know, logs.largest_producer_id(BELIEVED_BELOW))
            tell_store(store, config.broker_id, known)
        doubts = look_for_doubts(store, config.broker_id, logs.stopped_cleanly, logs.offline.lacks)
        logs.offline.note_lost(doubts.lost)
        controller.open()
    return MetadataAccess(store, controller, membership, config)


async def ask_store(
    controller: Controller, membership: Membership | None, work: Callable[[MetadataStore], T]
) -> T:
    """Ask the metadata; of a cluster of several until there is an answer.

    Raises:
        StoreError: see `Membership.ask_until_answered`.
    """
    if membership is None:
        return work(controller.store)
    return await membership.ask_until_answered(work)


def _open_controller(controller: KafkaController, logs: LogManager, store: MetadataStore) -> None:
    adopt_cluster_id(logs, store)
    controller.store = store
    controller.open()
