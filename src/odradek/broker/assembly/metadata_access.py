"""The metadata of a start: its store, and the controller over it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.assembly.store_choice import open_store
from odradek.broker.folders.adoption import adopt_cluster_id
from odradek.broker.folders.broker_ids import with_generated_id
from odradek.broker.membership.start_sessions import StartSession
from odradek.cluster.controller.kafka_controller import KafkaController

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.membership.membership import ClusterAccess
    from odradek.cluster.store.store import MetadataStore
    from odradek.log.folders.log_manager import LogManager
    from odradek.util.clock import Clock
    from odradek.util.undo import Undo


class MetadataAccess(NamedTuple):
    """The way of a broker to the metadata.

    Attributes:
        store: where it is; of a cluster of several the session in which it was loaded.
        controller: writes it.
        config: the broker's configs, with its id.
    """

    store: MetadataStore
    controller: KafkaController
    config: BrokerConfig


async def open_metadata(
    config: BrokerConfig,
    logs: LogManager,
    clock: Clock,
    undo: Undo,
    *,
    given_store: MetadataStore | None,
    cluster: ClusterAccess | None,
) -> MetadataAccess:
    """Open the metadata, and check that the data folders belong to it.

    Args:
        config: the broker's configs.
        logs: the folders, which may know ids.
        clock: for the controller.
        undo: gets what closes again what is opened.
        given_store: is used, and not closed; None for one that the configs name.
        cluster: how to get to a cluster of several; None for a broker that is alone. A store that goes away
            when it has been reached once is waited for.

    Raises:
        StoreError, DataDirectoryError, ConfigError: see `open_store` and `with_generated_id`; the folders are
            another cluster's.
    """
    controller: KafkaController | None = None
    if cluster is not None:
        session = StartSession(cluster.open_store)
        # Another one may have taken the place of the first by then.
        undo.push(
            "session with the metadata store",
            lambda: (session.store if controller is None else controller.store).close(),
        )
        undo.push("wait for the metadata store", session.stop)
        given, stored_id = config, logs.identity.stored_broker_id()
        config = await session.ask(lambda store: with_generated_id(given, stored_id, store))
        opened = KafkaController(session.store, config.broker_id, config, clock)
        await session.ask(partial(_open_controller, opened, logs))
        store, controller = session.store, opened
    else:
        if given_store is None:
            store = open_store(config, logs.data_dirs[0], clock)
            undo.push("metadata store", store.close)
        else:
            store = given_store
        controller = KafkaController(store, config.broker_id, config, clock, alone=True)
        _open_controller(controller, logs, store)
    logs.identity.check(config.broker_id, controller.cluster_id)
    return MetadataAccess(store, controller, config)


def _open_controller(controller: KafkaController, logs: LogManager, store: MetadataStore) -> None:
    adopt_cluster_id(logs, store)
    controller.store = store
    controller.open()
