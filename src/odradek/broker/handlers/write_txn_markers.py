"""WriteTxnMarkers 0-2: a transaction coordinator has markers written to partitions that this broker leads.

- For other brokers, and for an administrator who aborts a hanging transaction: ALTER or CLUSTER_ACTION on the
  cluster. Each partition for itself: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION,
  INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, UNSUPPORTED_FOR_MESSAGE_FORMAT.
- The answer comes when every marker is committed.
- 2 says of which transactions' version the marker is (KIP-1228): those of version 2 have a higher epoch than
  the transaction that they end, else INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.coordinators.transactions.coordinator import PartitionErrors
from odradek.errors import ClusterAuthorizationError
from odradek.errors.codes import ErrorCode
from odradek.util.promise import Promise, promised
from odradek.wire.api import ApiKey
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused
    from odradek.util.topic_partition import TopicPartition

_AT_A_TIME = 200
"""Markers that are written before others get their turn."""


def _error_response(refused: Refused[WriteTxnMarkersRequest]) -> WriteTxnMarkersResponse:
    return _response(
        {
            marker.producer_id: dict.fromkeys(_partitions(marker), refused.error)
            for marker in refused.request.markers
        }
    )


@handler(ApiKey.WRITE_TXN_MARKERS, versions=range(3), error_response=_error_response)
def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> Promise[WriteTxnMarkersResponse]:
    """Write the markers of each producer."""
    if not context.authorize(Operation.ALTER, CLUSTER, log_if_denied=False) and not context.authorize(
        Operation.CLUSTER_ACTION, CLUSTER
    ):
        raise ClusterAuthorizationError
    return promised(asyncio.ensure_future(_write(context, request.markers)))


async def _write(context: RequestContext, markers: list[WritableTxnMarker]) -> WriteTxnMarkersResponse:
    broker = context.broker
    errors_by_producer: dict[int, PartitionErrors] = {}
    left = len(markers)
    done: asyncio.Future[None] = broker.loop.create_future()
    if not left:
        return WriteTxnMarkersResponse()

    def deliver(producer_id: int, errors: PartitionErrors) -> None:
        nonlocal left
        errors_by_producer.setdefault(producer_id, {}).update(errors)
        left -= 1
        if not left and not done.done():
            done.set_result(None)

    written = 0
    for marker in markers:
        partitions = _partitions(marker)
        written += len(partitions)
        if written > _AT_A_TIME:
            # Others get their turn.
            written = 0
            await asyncio.sleep(0)
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            # Nobody writes as such a producer, and no log could say that it was one.
            deliver(marker.producer_id, dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST))
            continue
        broker.transactions.writer.write(
            marker.producer_id,
            marker.producer_epoch,
            partitions,
            coordinator_epoch=marker.coordinator_epoch,
            commit=marker.transaction_result,
            deliver=partial(deliver, marker.producer_id),
            transaction_version=marker.transaction_version,
        )
    await done
    return _response(errors_by_producer)


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


def _response(errors_by_producer: dict[int, PartitionErrors]) -> WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = []
    for producer_id, errors in errors_by_producer.items():
        topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
        for (topic, index), error in errors.items():
            topics.setdefault(topic, []).append(
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=int(error))
            )
        markers.append(
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            )
        )
    return WriteTxnMarkersResponse(markers=markers)
