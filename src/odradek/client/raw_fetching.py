"""The fetching of offset ranges for `RawReader`: requests to the leaders, answers walked and decoded.

It stands beside `raw_reader`, as a program that only asks where partitions begin and end (Spark's planning of
a stream) starts sooner without what unpacks records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.client.blocking import BlockingCluster, BlockingConnection, Retrying
from odradek.client.blocking_select import await_any
from odradek.client.config import ConsumerConfig
from odradek.client.core.fetch_requests import (
    EARLIEST,
    LATEST,
    FetchAt,
    fetch_ceiling,
    fetch_request,
)
from odradek.client.core.fetched import AbortedFilter, batch_too_large, end_of_fetched
from odradek.client.core.metadata import LOOKS_BEFORE_GONE
from odradek.client.errors import PartitionLostError, TopicRecreatedError
from odradek.client.raw_partitions import check_partitions, list_offsets, look_again, refresh
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError, error_for
from odradek.errors.codes import to_code
from odradek.records.batch import BatchHeader
from odradek.records.problems import TimestampRangeError
from odradek.wire.api import ApiKey
from odradek.wire.fetch_session_handler import FINAL_EPOCH, NAMES_UNTIL, FetchSessionHandler
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.records.columns import ColumnDecoder

logger = logging.getLogger(__name__)


class Reading:
    """One range being read.

    Attributes:
        fetch_offset: where the next request begins; ahead of what was decoded by one answer.
        end: the offset behind the range.
        aborted: the transactions that the answer which is being decoded names as aborted.
        decoder: makes Arrow rows of batches, and keeps those that do not fill a batch of rows yet.
        cut_short: the rest of the range is not there and has been given up (`fail_on_data_loss` is False);
            rows of it that were decoded are still to be handed out.
    """

    __slots__ = ("aborted", "cut_short", "decoder", "end", "fail_on_data_loss", "fetch_offset", "tp")

    def __init__(self, tp: TopicPartition, start: int, end: int, fail_on_data_loss: bool) -> None:
        self.tp = tp
        self.fetch_offset = start
        self.end = end
        self.fail_on_data_loss = fail_on_data_loss
        self.cut_short = False
        self.aborted = AbortedFilter(None)
        self.decoder: ColumnDecoder | None = None

    def wanted(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether a reader of committed records may see a batch. To be asked of every batch in turn,
        as markers end what is aborted.
        """
        return not (self.aborted.active and self.aborted.drops(header, batch))


class _Asked(NamedTuple):
    """A request on its way."""

    connection: BlockingConnection
    session: FetchSessionHandler
    readings: list[Reading]


class _Answer(NamedTuple):
    """The part of an answer that is about one range; `endpoints` are the whole answer's (KIP-951)."""

    reading: Reading
    data: Any
    endpoints: Any


class Fetching:
    """The loop behind `RawReader.fetch_columns_many`.

    Args:
        config, cluster: the reader's.
        readings: the ranges, by partition; taken out as they end.
        topic_ids: the ids that topics must have; topics that are not named may have any.
        wait_for_end: a range may end where nothing has been written yet.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: BlockingCluster,
        readings: dict[TopicPartition, Reading],
        topic_ids: Mapping[str, bytes],
        wait_for_end: bool,
    ) -> None:
        self._config = config
        self._wait_for_end = wait_for_end
        self._cluster = cluster
        self._left = readings
        self._topic_ids = topic_ids
        # Partitions that were fetched by their topics' names, whose ids are looked at before and after.
        self._named: set[TopicPartition] = set()
        # By leader: one request at a time to each.
        self._asked: dict[int, _Asked] = {}
        self._retrying: Retrying = cluster.retrying(f"reading {', '.join(map(str, readings))}")

    def run(self) -> Iterator[tuple[str, int, pa.RecordBatch]]:
        """Yield the rows of the ranges.

        Raises:
            KafkaError: as `RawReader.fetch_columns_many`.
        """
        check_partitions(self._cluster, self._left, self._topic_ids)
        handed_out = False
        try:
            while self._left:
                try:
                    self._ask()
                    answers = self._receive()
                except KafkaError as problem:
                    self._drop_connections()
                    self._retrying.failed(problem)
                    self._refresh()
                    continue
                # Answers are looked through first, so that the next request is on its way while rows are
                # decoded.
                ready = [self._take(*answer) for answer in answers]
                if any(reading is not None for reading in ready):
                    self._retrying.progress()
                try:
                    self._ask()
                except KafkaError:
                    # The next round meets it again, when what has come is handed out.
                    self._drop_connections()
                for answer, reading in zip(answers, ready, strict=True):
                    if reading is not None:
                        for rows in self._decode(reading, answer.data):
                            handed_out = True
                            yield rows
                for rows in self._rest_of_cut_short():
                    handed_out = True
                    yield rows
            self._check_named()
        except TopicRecreatedError as problem:
            # Rows fetched by name may be of either topic.
            problem.rows_in_doubt = handed_out and bool(self._named)
            raise
        finally:
            self._drop_connections()

    def _ask(self) -> None:
        """Send a request to every leader to which none is on its way."""
        busy = {reading.tp for fetch in self._asked.values() for reading in fetch.readings}
        metadata = self._cluster.metadata
        by_node: dict[int, list[Reading]] = {}
        epochs: dict[TopicPartition, int] = {}
        for tp, reading in self._left.items():
            # A range whose last answer is still to be decoded needs no more.
            if tp in busy or reading.fetch_offset >= reading.end:
                continue
            leader = self._cluster.leader(tp)
            if leader is None:
                raise self._cluster.leaderless(tp)
            if leader not in self._asked:
                by_node.setdefault(leader, []).append(reading)
                # Read together with the leader: `connection` may refresh the metadata, and this broker must
                # not be asked in the epoch of the next leader.
                epochs[tp] = metadata.leader_epoch(tp)
        for node, readings in by_node.items():
            # `fetch_request` lists neighbours of one topic under one heading.
            readings.sort(key=lambda reading: reading.tp.topic)
            connection = self._cluster.connection(node)
            ids = {reading.tp.topic: self._id_of(reading.tp.topic) for reading in readings}
            version = connection.pick(ApiKey.FETCH, at_most=fetch_ceiling(ids.values()))
            if version <= NAMES_UNTIL:
                self._about_to_name(readings)
            # What is asked for has been read when it is answered: a session would have nothing to leave out.
            session = FetchSessionHandler(node, FINAL_EPOCH)
            request = fetch_request(
                session,
                version,
                (
                    FetchAt(
                        r.tp,
                        r.fetch_offset,
                        epochs[r.tp],
                        self._config.max_partition_fetch_bytes,
                    )
                    for r in readings
                ),
                ids,
                max_wait_ms=self._config.fetch_max_wait_ms,
                min_bytes=self._config.fetch_min_bytes,
                max_bytes=self._config.fetch_max_bytes,
                isolation=self._config.isolation,
                # No rack: this reads from leaders alone, which send a reader that names its rack to another
                # replica (KIP-392).
            )
            connection.send(request, version)
            self._asked[node] = _Asked(connection, session, readings)

    def _id_of(self, topic: str) -> bytes:
        """Return the id that the caller wants, else the topic's; zeros with a broker that has no ids."""
        topic_id = self._cluster.metadata.topic_id(topic)
        return self._topic_ids.get(topic, topic_id) if topic_id != ZERO_UUID else topic_id

    def _about_to_name(self, readings: Iterable[Reading]) -> None:
        """Compare the topics' ids before the first Fetch that names topics: its broker does not compare them.
        `_check_named` does so after the last Fetch. If the ids are right both times, all rows are of these
        topics.
        """
        new = {r.tp for r in readings if r.tp.topic in self._topic_ids} - self._named
        if new:
            refresh(self._cluster, {tp.topic for tp in new})
            check_partitions(self._cluster, new, self._topic_ids)
            self._named |= new

    def _check_named(self) -> None:
        while self._named:
            try:
                refresh(self._cluster, {tp.topic for tp in self._named})
            except KafkaError as problem:
                self._retrying.failed(problem)
                continue
            check_partitions(self._cluster, self._named, self._topic_ids)
            return

    def _receive(self) -> list[_Answer]:
        """Wait for at least one broker. Returns what its answers say, range by range."""
        if not self._asked:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE)
        connections = {node: fetch.connection for node, fetch in self._asked.items()}
        out: list[_Answer] = []
        for node in await_any(self._cluster, connections, self._config.request_timeout_ms):
            connection, session, readings = self._asked.pop(node)
            _, response = connection.receive()
            answers = session.handle_response(response)
            # The error of the whole answer; those of partitions are for `_take`.
            if response.error_code:
                raise error_for(response.error_code)
            if answers is None:
                self._retrying.idle(f"broker {node} throttles, or leaves out what it is asked for")
                self._retrying.pause()
                continue
            endpoints = response.node_endpoints
            out += [_Answer(reading, answers[reading.tp], endpoints) for reading in readings]
        return out

    def _take(self, reading: Reading, data: Any, endpoints: Any) -> Reading | None:
        """Look at an answer without decoding it. Returns the reading if there is something to decode."""
        code = to_code(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._look_for(reading)
            return None
        if code != ErrorCode.NONE:
            if not self._knows_new_leader(reading.tp, data, endpoints):
                self._retrying.failed(error_for(code, f"{reading.tp}: {code.message}"))
                self._refresh()
            return None
        start = reading.fetch_offset
        if data.records is not None:
            reading.fetch_offset = end_of_fetched(data.records, start)
            # Records, but not one whole batch: since KIP-74 brokers send the first batch in full.
            if reading.fetch_offset == start and len(data.records):
                raise batch_too_large(reading.tp, start)
        # Nothing has come: the leader is behind what was planned, or the records are not committed yet.
        if reading.fetch_offset == start:
            self._retrying.idle(
                f"{reading.tp} has nothing at offset {start} yet; its high watermark is {data.high_watermark}"
            )
            if not self._wait_for_end and data.high_watermark <= start:
                self._look_for(reading)
            return None
        return reading

    def _knows_new_leader(self, tp: TopicPartition, data: Any, endpoints: Any) -> bool:
        """Return whether an error came with a leader that is news (KIP-951): it is asked without a pause."""
        leader = data.current_leader
        if not self._cluster.metadata.update_leader(tp, leader.leader_id, leader.leader_epoch, endpoints):
            return False
        # Bounded, in case that leaders name each other for ever.
        self._retrying.idle(f"{tp} is led by broker {leader.leader_id}, as another one says")
        return True

    def _decode(self, reading: Reading, data: Any) -> Iterator[tuple[str, int, pa.RecordBatch]]:
        decoder = reading.decoder
        assert decoder is not None
        reading.aborted = AbortedFilter(data.aborted_transactions)
        topic, partition = reading.tp
        try:
            for rows in decoder.feed(data.records):
                yield topic, partition, rows
        except TimestampRangeError as problem:
            raise TimestampRangeError(problem.offset, problem.timestamp, f"{reading.tp}: ") from problem
        if decoder.finished or reading.fetch_offset >= reading.end:
            rest = decoder.flush()
            if rest is not None:
                yield topic, partition, rest
            del self._left[reading.tp]

    def _rest_of_cut_short(self) -> Iterator[tuple[str, int, pa.RecordBatch]]:
        """Hand out the rows that were decoded of ranges whose rest was given up, and be done with them."""
        for reading in [reading for reading in self._left.values() if reading.cut_short]:
            assert reading.decoder is not None
            rest = reading.decoder.flush()
            if rest is not None:
                yield (*reading.tp, rest)
            del self._left[reading.tp]

    def _look_for(self, reading: Reading) -> None:
        """Find out what is left of a range of which the leader has nothing at `fetch_offset`.

        Records before the log's start are gone for good. That the log ends at that offset, or before it, is
        believed when several answers say so: a broker that answers may not be the leader any more, or may not
        yet have what it will lead. Else the same offset is asked for again.

        Without `fail_on_data_loss` the range then begins behind the gap, or is `cut_short`.

        Raises:
            PartitionLostError: part of the range is not there, with `fail_on_data_loss`.
        """
        tp = reading.tp
        self._drop_connections()
        for look in range(1, LOOKS_BEFORE_GONE + 1):
            first = self._bound(tp, EARLIEST)
            if reading.fetch_offset < first:
                self._skip(reading, first, self._bound(tp, LATEST))
                return
            if self._is_written(reading):
                self._retrying.idle(f"{tp} does not give out what it has at offset {reading.fetch_offset}")
                self._retrying.pause()
                return
            if look < LOOKS_BEFORE_GONE:
                self._retrying.pause()
                self._refresh()
        self._skip(reading, first, self._bound(tp, LATEST))

    def _bound(self, tp: TopicPartition, which: int) -> int:
        return list_offsets(self._cluster, self._config.isolation, {tp: which})[tp]

    def _is_written(self, reading: Reading) -> bool:
        """Return whether the leader has a record at `fetch_offset`, replicated or not.

        Brokers do not tell readers where the log ends. But a fetch from beyond the end is out of range, and a
        fetch from anywhere up to it is not: the offset after the record is asked for.
        """
        tp = reading.tp
        while True:
            try:
                leader = self._cluster.leader(tp)
                if leader is None:
                    raise self._cluster.leaderless(tp)
                connection = self._cluster.connection(leader)
                ids = {tp.topic: self._id_of(tp.topic)}
                epoch = self._cluster.metadata.leader_epoch(tp)
                version = connection.pick(ApiKey.FETCH, at_most=fetch_ceiling(ids.values()))
                session = FetchSessionHandler(leader, FINAL_EPOCH)
                request = fetch_request(
                    session,
                    version,
                    [FetchAt(tp, reading.fetch_offset + 1, epoch, 1)],
                    ids,
                    max_wait_ms=0,
                    min_bytes=0,
                    max_bytes=1,
                    isolation=self._config.isolation,
                )
                connection.send(request, version)
                _, response = connection.receive()
                answers = session.handle_response(response)
                if answers is not None:
                    code = to_code(answers[tp].error_code)
                else:  # without an error, it is throttled
                    code = to_code(response.error_code or ErrorCode.THROTTLING_QUOTA_EXCEEDED)
                if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    return False
                if code == ErrorCode.NONE:
                    return True
                if answers is not None and self._knows_new_leader(tp, answers[tp], response.node_endpoints):
                    continue
                raise error_for(code, f"{tp}: {code.message}")
            except KafkaError as problem:
                self._drop_connections()
                self._retrying.failed(problem)
                self._refresh()

    def _skip(self, reading: Reading, first: int, last: int) -> None:
        """Go on behind records that are not there, or end the range; or raise.

        Args:
            first, last: what the log holds now.
        """
        reason = f"offset {reading.fetch_offset} of the range up to {reading.end} is not in the log"
        if reading.fail_on_data_loss:
            raise PartitionLostError(
                f"{reading.tp}: {reason}, which now holds {first} to {last}: records were deleted, the topic "
                "was made anew, or the range was to end where nothing has been written"
            )
        logger.warning("%s: %s, which now holds %d to %d; it is skipped", reading.tp, reason, first, last)
        self._retrying.progress()
        assert reading.decoder is not None
        if reading.fetch_offset < first < reading.end:
            reading.fetch_offset = first
            # The batch that holds `first` comes whole, with records that count as deleted.
            reading.decoder.next_offset = first
        else:
            reading.fetch_offset = reading.end
            reading.cut_short = True

    def _refresh(self) -> None:
        self._drop_connections()
        look_again(self._cluster, self._left, self._topic_ids)

    def _drop_connections(self) -> None:
        """Forget what was asked; a connection that owes an answer cannot be used for anything else."""
        for fetch in self._asked.values():
            fetch.connection.close()
        self._asked.clear()
