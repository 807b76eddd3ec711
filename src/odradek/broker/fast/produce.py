"""The short cut for the usual Produce: healthy batches for partitions that this broker leads.

The frame is parsed into numbers, every batch is checked where it lies, and only when all of them are in order
is the first one written. Whatever is out of the ordinary (an error, a compressed batch, a repeated one, one
that would open a transaction, replicas to wait for, permissions to ask for) is left to
`odradek.broker.handlers.produce` before anything has been changed; both ways answer the same and write the
same, to the byte, which tests hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.broker.append_errors import append_failed, closing_without_acks
from odradek.broker.fast.produce_codec import check_batch, encode_produce, parse_produce
from odradek.broker.network.answer import NO_ANSWER, Answer
from odradek.cluster.image import INTERNAL_TOPICS
from odradek.errors import KafkaError
from odradek.log.producers.producer_state import Origin
from odradek.records.batch import TRANSACTIONAL_BIT, BatchHeader
from odradek.wire.api import ApiKey
from odradek.wire.headers import encode_response
from odradek.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from odradek.broker.network.answer import Later
    from odradek.broker.network.peer import Peer
    from odradek.broker.services import BrokerServices
    from odradek.replication.partition import Partition

Ready = tuple["Partition", int, int, int, int, int, BatchHeader | None]
"""A partition, its index, where its batch begins and ends, the last offset delta, the largest timestamp, and
the header where there is a producer id."""


class FastProduce:
    """Answers usual Produce frames of one broker; see `odradek.broker.handler_types.FastPath`."""

    __slots__ = ("_broker", "_monotonic_ms", "_now_ms", "_requests", "_topics")

    def __init__(self, broker: BrokerServices) -> None:
        """
        Args:
            broker: whose partitions are written.
        """
        self._broker = broker
        self._requests = broker.metrics.requests.of("Produce")
        self._topics = broker.metrics.topics
        self._monotonic_ms = broker.clock.monotonic_ms
        self._now_ms = broker.clock.now_ms

    def __call__(self, peer: Peer, frame: Any, later: Later) -> Any:
        """See `odradek.broker.handler_types.FastPath`."""
        broker = self._broker
        if broker.authorizer is not None or broker.request_log is not None:
            return NotImplemented
        parsed = parse_produce(frame)
        if parsed is None:
            return NotImplemented
        version, correlation_id, acks, _, topics, transactional = parsed
        started_ms = self._monotonic_ms()
        now_ms = self._now_ms()
        ready = self._check(frame, version, acks, topics, transactional, now_ms)
        if ready is None:
            return NotImplemented
        requests = self._requests
        requests.requests += 1
        requests.request_bytes += len(frame)
        answers = []
        failed = False
        for topic, name, parts in ready:
            written: list[Any] = []
            size = count = 0
            for partition, index, start, end, last_delta, timestamp, header in parts:
                place: int | KafkaError
                try:
                    place = partition.append_checked(frame, start, end, last_delta, timestamp, header, now_ms)
                    size += end - start
                    count += last_delta + 1
                except KafkaError as error:
                    append_failed(name, index, error)
                    place = error
                    failed = True
                written.append((index, place, partition.log.log_start_offset))
            number = len(parts)
            for metrics in (self._topics.of(name), self._topics.all):
                metrics.total_produce_requests += number
                metrics.messages_in += count
                metrics.bytes_in += size
            answers.append((topic, written))
        if failed:
            return self._tell_errors(frame, parsed, answers, ready, started_ms)
        if acks == 0:
            requests.observe(self._monotonic_ms() - started_ms, 0)
            return NO_ANSWER
        response = encode_produce(version, correlation_id, answers)
        requests.observe(self._monotonic_ms() - started_ms, len(response))
        return Answer([response])

    def _check(
        self,
        frame: Any,
        version: int,
        acks: int,
        topics: list[tuple[Any, Any]],
        transactional: bool,
        now_ms: int,
    ) -> list[tuple[Any, str, list[Ready]]] | None:
        """Everything that can be said before writing; None where something is not usual."""
        replicas = self._broker.replicas
        names = self._broker.controller.image.topic_names if version >= 13 else None
        found: list[tuple[Any, str, list[Ready]]] = []
        owner: BatchHeader | None = None
        for topic, parts in topics:
            name = topic if names is None else names.get(topic)
            here = replicas.of(name)
            if here is None or name is None or name in INTERNAL_TOPICS or not parts:
                return None
            ready: list[Ready] = []
            for index, start, end in parts:
                partition = here.get(index)
                if partition is None or not partition.takes_at_once(acks):
                    return None
                part = partition.log
                limits = part.plain_limits(now_ms)
                if limits is None:
                    return None
                checked = check_batch(frame, start, end, *limits)
                if checked is None:
                    return None
                last_delta, timestamp, producer_id = checked
                header = None
                if producer_id >= 0:
                    header = BatchHeader.parse(frame, start)
                    if header[5] & TRANSACTIONAL_BIT:
                        # It may go on with a transaction; who may begin one is asked the ordinary way.
                        owner = owner or header
                        if (
                            not transactional
                            or not part.producers.in_transaction(producer_id, header[10])
                            or owner[9] != producer_id
                            or owner[10] != header[10]
                        ):
                            return None
                    if not _may_follow(part.producers, header):
                        return None
                ready.append((partition, index, start, end, last_delta, timestamp, header))
            if len(ready) > 1 and len({one[1] for one in ready}) < len(ready):
                return None
            found.append((topic, name, ready))
        if len(found) > 1 and len({name for _, name, _ in found}) < len(found):
            return None
        return found

    def _tell_errors(
        self,
        frame: Any,
        parsed: Any,
        answers: list[Any],
        ready: list[tuple[Any, str, list[Ready]]],
        started_ms: float,
    ) -> Answer:
        """An append failed on the way, usually by the disk: say so of the partitions that it concerns."""
        version, correlation_id, acks, _, _, _ = parsed
        response = ProduceResponse(responses=[])
        for (topic, written), (_, name, parts) in zip(answers, ready, strict=True):
            told = []
            for (index, place, log_start), one in zip(written, parts, strict=True):
                if isinstance(place, KafkaError):
                    for metrics in (self._topics.of(name), self._topics.all):
                        metrics.failed_produce_requests += 1
                        metrics.bytes_rejected += one[3] - one[2]
                    told.append(
                        PartitionProduceResponse(
                            index=index,
                            error_code=int(place.code),
                            base_offset=-1,
                            error_message=place.message or None,
                        )
                    )
                else:
                    told.append(
                        PartitionProduceResponse(index=index, base_offset=place, log_start_offset=log_start)
                    )
            key = {"topic_id": topic} if version >= 13 else {"name": topic}
            response.responses.append(TopicProduceResponse(partition_responses=told, **key))
        if acks == 0:
            name, index, error = next(
                (name, index, place)
                for (_, written), (_, name, _) in zip(answers, ready, strict=True)
                for index, place, _ in written
                if isinstance(place, KafkaError)
            )
            closing_without_acks(None, None, name, index, int(error.code))
            self._requests.observe(self._monotonic_ms() - started_ms, 0)
            return Answer(None, close=True)
        buffers = encode_response(ApiKey.PRODUCE, version, correlation_id, response)
        self._requests.observe(self._monotonic_ms() - started_ms, sum(map(len, buffers)))
        return Answer(buffers)


def _may_follow(producers: Any, header: BatchHeader) -> bool:
    """Whether a batch is the next of its producer: neither a repetition nor a gap."""
    if producers.is_next(header):
        return True
    if producers.find_duplicate(header) is not None:
        return False
    try:
        producers.check(header, Origin.CLIENT)
    except KafkaError:
        return False
    return True
