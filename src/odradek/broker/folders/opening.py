"""The data folders at a start: locked, known to be this broker's, and loaded."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from odradek.broker.folders.broker_ids import with_stored_id
from odradek.broker.folders.store_file import STORE_FILE, check_store_file
from odradek.cluster import nodes, paths
from odradek.cluster.store.embedded import peek
from odradek.log.folders.log_manager import LogManager

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.folders.log_configs import TopicLogConfigs
    from odradek.log.storage.files import FileSystem
    from odradek.util.clock import Clock
    from odradek.util.undo import Undo


def open_logs(
    config: BrokerConfig,
    log_configs: TopicLogConfigs,
    files: FileSystem,
    clock: Clock,
    undo: Undo,
    *,
    has_store_file: bool,
) -> tuple[LogManager, BrokerConfig]:
    """Lock the data folders and load the logs in them.

    Args:
        config: the broker's configs.
        log_configs: of its logs.
        files: where the folders are.
        clock: time.
        undo: gets what lets go of them again.
        has_store_file: whether the metadata is in a file in the first of them.

    Returns:
        The logs, and the configs with the broker's id if the folders know it.

    Raises:
        DataDirectoryError: they are in use, damaged, or another broker's.
        OSError: they cannot be read or written.
    """
    logs = LogManager(
        [path.absolute() for path in config.data_dirs],
        files,
        clock,
        log_configs.defaults,
        refuses_damage=config.odradek_refuse_damaged_logs,
    )
    bounds = logs.producer_bounds
    bounds.per_partition = config.odradek_producer_ids_per_partition_max
    bounds.in_all = config.odradek_producer_ids_max
    logs.checkpoints.exclusive = threading.Lock()
    undo.push("data folders", logs.unlock)
    stored = logs.identity.stored_broker_id()
    config = with_stored_id(config, stored)
    if stored is not None:
        logs.identity.check(config.broker_id, None)
    if has_store_file:
        store_file = logs.data_dirs[0] / STORE_FILE
        check_store_file(store_file)
        cluster_id = peek(store_file, paths.CLUSTER_ID)
        if stored is not None and cluster_id is not None and logs.identity.stored_cluster_id() is not None:
            # Looked at again when the store is open; by then the logs have been touched.
            logs.identity.check(config.broker_id, nodes.decode_cluster_id(store_file.name, cluster_id))
    logs.load()
    return logs, config
