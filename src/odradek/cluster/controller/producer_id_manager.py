"""Blocks of producer ids, each of which one broker has for good.

Kafka: `ZooKeeperProducerIdManager`.
"""

from __future__ import annotations

import logging

from odradek.cluster import nodes, paths
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.nodes import ProducerIdBlock
from odradek.cluster.producer_ids import MAX_PRODUCER_ID, PRODUCER_ID_BLOCK_SIZE, block_with
from odradek.cluster.store.store import BadVersion, SessionExpired, StoreUnavailable
from odradek.errors import KafkaStorageError, UnknownServerError

logger = logging.getLogger(__name__)

_MAX_ATTEMPTS = 3


class ProducerIdManager:
    """Takes blocks for this broker; any broker does so, active controller or not."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def allocate(self, above: int = -1) -> ProducerIdBlock:
        """Return the next block of producer ids, for this broker alone and for good.

        Args:
            above: ids up to this one have been given out, whatever the store says: it may have been restored
                from an older backup.

        Raises:
            KafkaStorageError: the store cannot be reached, or the session with it is over.
            UnknownServerError: the ids are used up, or other brokers took every block first.
        """
        path, store, broker_id = paths.PRODUCER_ID_BLOCK, self._context.store, self._context.broker_id
        for _ in range(_MAX_ATTEMPTS):
            try:
                data, stat = store.get(path)
                last = nodes.decode_producer_id_block(path, data)
                first = 0 if last is None else last.last + 1
                if first <= above:
                    logger.error(
                        "the metadata store would give producer ids from %d on, but they are given out up to"
                        " %d: it was restored from an older backup, perhaps. They go on above that",
                        *(first, above),
                    )
                    first = block_with(broker_id, above).last + 1
                if first > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
                    raise UnknownServerError("all producer ids have been given out")
                block = ProducerIdBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
                store.set(path, nodes.encode_producer_id_block(block), stat.version)
            except BadVersion:
                continue
            except (StoreUnavailable, SessionExpired) as error:
                raise KafkaStorageError(str(error)) from error
            return block
        raise UnknownServerError("no block of producer ids could be had: others were faster")
