"""The way of transaction markers to the brokers that lead their partitions.

To other brokers they go as WriteTxnMarkers, one request at a time to each:

    ask ──► queue of the broker ──(nothing under way)──► WriteTxnMarkers ──► deliver, per entry
                └─ full ──► no answer                        └─ broken ──► no answer

What got no answer is given out anew by the coordinator after a pause, to whoever leads by then; so nothing
is tried again here. While a request is under way, what comes for the same broker gathers for the next one.
Kafka: `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.interbroker.inter_broker_sender import InterBrokerSender
from odradek.cluster.inter_broker_versions import request_version
from odradek.errors.codes import to_code
from odradek.util.futures import error_of
from odradek.util.repeats import Repeats
from odradek.wire.api import ApiKey
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from odradek.broker.interbroker.channels import InterBrokerChannels
    from odradek.broker.transactions.markers import MarkerWriter
    from odradek.coordinators.transactions.coordinator import PartitionErrors
    from odradek.coordinators.transactions.markers import TransactionMarkers
    from odradek.wire.messages.write_txn_markers import WriteTxnMarkersResponse

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

PURPOSE = "markers"
"""Names the connections that markers go over."""

MAX_PARTITIONS_PER_REQUEST = 5_000
"""A request has no more, but for one transaction that has more by itself."""

MAX_PARTITIONS_WAITING = 50_000
"""So many partitions' markers wait for one broker; what comes beyond gets no answer, and comes again."""

Deliver = Callable[["PartitionErrors"], None]
_Entry = tuple["TransactionMarkers", Deliver]


class MarkerSender(Protocol):
    """The way of markers to the broker that leads their partitions."""

    def __call__(self, broker_id: int, markers: TransactionMarkers, deliver: Deliver) -> None:
        """Send markers to the broker that writes them.

        Args:
            broker_id: who leads their partitions; -1: nobody at the moment.
            markers: what to write.
            deliver: gets what each partition answered; nothing for those that gave no answer, which are
                tried again after a pause.
        """
        ...


class LocalMarkers:
    """`MarkerSender` of a broker that is alone: what it does not lead itself has to wait."""

    def __init__(self, broker_id: int, writer: MarkerWriter) -> None:
        self._broker_id = broker_id
        self._writer = writer

    def __call__(self, broker_id: int, markers: TransactionMarkers, deliver: Deliver) -> None:
        """See `MarkerSender`."""
        if broker_id != self._broker_id:
            deliver({})
            return
        self._writer.write(
            markers.producer_id,
            markers.producer_epoch,
            sorted(markers.partitions),
            coordinator_epoch=markers.coordinator_epoch,
            commit=markers.commit,
            deliver=deliver,
            transaction_version=markers.transaction_version,
        )


class _Queue:
    """The markers that wait for one broker.

    Attributes:
        entries: in the order in which they came.
        partitions: of all of them.
    """

    __slots__ = ("entries", "partitions")

    def __init__(self) -> None:
        self.entries: deque[_Entry] = deque()
        self.partitions = 0


class RemoteMarkers:
    """`MarkerSender` of a broker in a cluster of several. Used in the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        local: MarkerSender,
        channels: InterBrokerChannels,
        loop: asyncio.AbstractEventLoop,
        inter_broker_protocol_version: str,
        owes: Callable[[TransactionMarkers], bool],
    ) -> None:
        """
        Args:
            broker_id: this broker.
            local: takes what it leads itself.
            channels: to the others.
            loop: gathers what is asked for in one of its turns.
            inter_broker_protocol_version: which version of the request they understand.
            owes: whether markers are still to be written; asked right before they are sent.
        """
        self._broker_id = broker_id
        self._local = local
        self._channels = channels
        self._version = request_version(ApiKey.WRITE_TXN_MARKERS, inter_broker_protocol_version)
        self._owes = owes
        self._sender: InterBrokerSender[_Queue, list[_Entry]] = InterBrokerSender(
            loop, new_queue=_Queue, take=self._take, send=self._send, on_answer=self._answered
        )

    @property
    def waiting(self) -> int:
        """The number of partitions whose markers wait to be sent."""
        return sum(queue.partitions for queue in self._sender.queues)

    def __call__(self, broker_id: int, markers: TransactionMarkers, deliver: Deliver) -> None:
        """See `MarkerSender`."""
        if broker_id == self._broker_id:
            self._local(broker_id, markers, deliver)
            return
        if broker_id < 0:
            deliver({})
            return
        queue = self._sender.queue_of(broker_id)
        size = len(markers.partitions)
        if queue.entries and queue.partitions + size > MAX_PARTITIONS_WAITING:
            repeats.log(
                logging.WARNING, broker_id, "too many transaction markers wait for broker %d", broker_id
            )
            deliver({})
            return
        queue.entries.append((markers, deliver))
        queue.partitions += size

    def _send(self, broker_id: int, batch: list[_Entry]) -> asyncio.Future[Any]:
        request = WriteTxnMarkersRequest(markers=[_marker(markers) for markers, _ in batch])
        return self._channels.to_broker(broker_id, PURPOSE).send(request, self._version)

    def _take(self, queue: _Queue) -> list[_Entry]:
        """Return the markers for the next request. Answers name producers, so each is in it once."""
        batch: list[_Entry] = []
        left: deque[_Entry] = deque()
        producers: set[int] = set()
        partitions = 0
        while queue.entries:
            entry = queue.entries.popleft()
            markers, _ = entry
            size = len(markers.partitions)
            if not self._owes(markers):
                # Given up, or the next leader's to write.
                queue.partitions -= size
            elif markers.producer_id in producers:
                left.append(entry)
            elif batch and partitions + size > MAX_PARTITIONS_PER_REQUEST:
                left.append(entry)
                break
            else:
                queue.partitions -= size
                partitions += size
                producers.add(markers.producer_id)
                batch.append(entry)
        queue.entries.extendleft(reversed(left))
        return batch

    def _answered(self, broker_id: int, batch: list[_Entry], answer: asyncio.Future[Any]) -> None:
        errors_by_producer: dict[int, PartitionErrors] = {}
        error = error_of(answer)
        if error is not None:
            repeats.log(
                logging.INFO, broker_id, "transaction markers not written broker=%d: %s", broker_id, error
            )
        else:
            try:
                errors_by_producer = _errors(answer.result())
            except Exception:
                # Whoever waits asks again, and the next ones have their turn.
                logger.exception("unforeseen failure in an answer about markers of broker %d", broker_id)
        for markers, deliver in batch:
            errors = errors_by_producer.get(markers.producer_id, {})
            try:
                deliver({key: errors[key] for key in markers.partitions if key in errors})
            except Exception:
                # The other transactions of the request have their answers, and the next ones their turn.
                logger.exception("unforeseen failure after markers of producer id %d", markers.producer_id)


def _marker(markers: TransactionMarkers) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(markers.partitions):
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.commit,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()
        ],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )


def _errors(response: WriteTxnMarkersResponse) -> dict[int, PartitionErrors]:
    errors_by_producer: dict[int, PartitionErrors] = {}
    for marker in response.markers:
        errors = errors_by_producer.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partitions:
                errors[topic.name, partition.partition_index] = to_code(partition.error_code)
    return errors_by_producer
