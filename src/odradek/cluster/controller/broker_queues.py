"""The queues of the controller's requests: one per broker, in order, one request under way in each.

Invariants:

- requests reach a broker in the order in which they were made, those of UpdateMetadata that were merged into
  an earlier one excepted: what leads and follows never overtakes;
- what cannot be delivered is sent again until the broker is no longer live; with another epoch of the broker
  everything older is dropped, because a broker that came back is told everything anew;
- a slow broker's queue grows only by what leads and follows: UpdateMetadata that waits is merged, newer
  states replacing older ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from odradek.cluster.controller.control_request_forms import MAX_PARTITIONS_PER_REQUEST, ControlRequest
from odradek.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

MERGE_FROM = 8
"""In a queue of this length UpdateMetadata is merged."""


class _Queue:
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.waiting: deque[ControlRequest] = deque()
        self.under_way: ControlRequest | None = None


class BrokerQueues:
    """Per live broker, what it is still to be told. Makes no requests and sends none itself.

    No `InterBrokerSender`, which sends whatever has gathered and forgets it: here each request goes by
    itself, and stays the first until it is answered, or the broker's epoch is over.
    """

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}

    @property
    def brokers(self) -> dict[int, int]:
        """The epochs of the brokers that have a queue, by id."""
        return {broker: queue.epoch for broker, queue in self._queues.items()}

    def length(self, broker_id: int) -> int:
        """Return how many requests a broker has not answered."""
        queue = self._queues.get(broker_id)
        return 0 if queue is None else len(queue.waiting) + (queue.under_way is not None)

    def keep(self, epochs: dict[int, int]) -> set[int]:
        """Keep the queues of these brokers (epochs by id) alone, and make those that are missing.

        Returns:
            The brokers whose queue, and what was under way to them, was dropped.
        """
        dropped = {b for b, queue in self._queues.items() if epochs.get(b) != queue.epoch}
        for broker in dropped:
            del self._queues[broker]
        for broker, epoch in epochs.items():
            if broker not in self._queues:
                self._queues[broker] = _Queue(epoch)
        return dropped

    def add(self, broker_id: int, requests: Iterable[ControlRequest]) -> None:
        """Put requests at the end of a broker's queue; nothing happens for one that has none."""
        queue = self._queues.get(broker_id)
        if queue is None:
            return
        for request in requests:
            if request.broker_epoch == queue.epoch and not (
                len(queue.waiting) >= MERGE_FROM and _merged(queue.waiting, request)
            ):
                queue.waiting.append(request)

    def next(self, broker_id: int) -> ControlRequest | None:
        """The request to be sent now, which is under way from here on; None while another one is."""
        queue = self._queues.get(broker_id)
        if queue is None or queue.under_way is not None or not queue.waiting:
            return None
        queue.under_way = queue.waiting.popleft()
        return queue.under_way

    def on_response(self, broker_id: int, request: ControlRequest) -> bool:
        """A request was answered. Return whether its answer counts: its broker is live in the same epoch."""
        queue = self._queues.get(broker_id)
        if queue is None or queue.under_way is not request:
            return False
        queue.under_way = None
        return True

    def on_broken(self, broker_id: int, request: ControlRequest) -> bool:
        """A request may not have arrived. Return whether it is to be sent again; it is the next one then."""
        queue = self._queues.get(broker_id)
        if queue is None or queue.under_way is not request:
            return False
        queue.under_way = None
        queue.waiting.appendleft(request)
        return True


def _merged(waiting: deque[ControlRequest], request: ControlRequest) -> bool:
    """Merge an UpdateMetadata into the last one that waits. Return whether that was done."""
    if not isinstance(request.message, UpdateMetadataRequest):
        return False
    for at in range(len(waiting) - 1, -1, -1):
        before = waiting[at]
        if isinstance(before.message, UpdateMetadataRequest):
            both = _merge(before.message, request.message, request.version)
            if both is None:
                return False
            waiting[at] = request._replace(message=both)
            return True
    return False


def _merge(
    before: UpdateMetadataRequest, after: UpdateMetadataRequest, version: int
) -> UpdateMetadataRequest | None:
    # The messages of several brokers share their parts: new ones are made here, none is changed.
    merged = UpdateMetadataRequest(
        controller_id=after.controller_id,
        controller_epoch=after.controller_epoch,
        live_brokers=after.live_brokers,
    )
    if version < 5:
        flat = {
            (state.topic_name, state.partition_index): state
            for message in (before, after)
            for state in message.ungrouped_partition_states
        }
        merged.ungrouped_partition_states = list(flat.values())
        return merged if len(flat) <= MAX_PARTITIONS_PER_REQUEST else None
    merged.broker_epoch = after.broker_epoch
    topics: dict[tuple[str, bytes], dict[int, UpdateMetadataPartitionState]] = {}
    for message in (before, after):
        for topic in message.topic_states:
            # What is said of a topic made anew comes after what is said of the one before.
            states = topics.pop((topic.topic_name, topic.topic_id), {})
            states.update({state.partition_index: state for state in topic.partition_states})
            topics[topic.topic_name, topic.topic_id] = states
    for (name, topic_id), states in topics.items():
        state = UpdateMetadataTopicState(topic_name=name, partition_states=list(states.values()))
        if version >= 7:
            state.topic_id = topic_id
        merged.topic_states.append(state)
    size = sum(len(states) for states in topics.values())
    return merged if size <= MAX_PARTITIONS_PER_REQUEST else None
