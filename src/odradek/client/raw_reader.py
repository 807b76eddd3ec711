"""`RawReader`: offset ranges of partitions as Arrow batches; see `odradek.client.raw`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from odradek.client.blocking import BlockingCluster, BlockingConnection, Retrying
from odradek.client.blocking_select import await_any
from odradek.client.config import ConsumerConfig, build, python_name
from odradek.client.core.fetch_requests import (
    EARLIEST,
    LATEST,
    NAMES_UNTIL,
    FetchAt,
    fetch_ceiling,
    fetch_request,
)
from odradek.client.core.fetched import AbortedFilter, batch_too_large, end_of_fetched
from odradek.client.core.metadata import LOOKS_BEFORE_GONE
from odradek.client.core.ownership import Ownership, one_at_a_time
from odradek.client.errors import (
    IllegalArgumentError,
    PartitionLostError,
    TopicRecreatedError,
)
from odradek.client.raw_partitions import (
    MAX_TIMESTAMP,
    FoundTopic,
    check_partitions,
    list_offsets,
    look_again,
    look_up_offsets,
    look_up_topics,
    refresh,
    topic_configs,
)
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError, error_for
from odradek.errors.codes import to_code
from odradek.records.batch import BatchHeader
from odradek.records.problems import TimestampRangeError
from odradek.wire.api import ApiKey
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.records.columns import ColumnDecoder

log = logging.getLogger(__name__)
T = TypeVar("T")

_DEFAULTS = {
    "max_partition_fetch_bytes": 16 * 1024 * 1024,
    "fetch_max_bytes": 64 * 1024 * 1024,
    "client_id": "odradek-raw-reader",
    "receive_buffer_bytes": -1,
}


class PartitionRange(NamedTuple):
    """Offsets `start_offset` (included) to `end_offset` (excluded) of one partition."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int


class _Reading:
    """One range being read. `fetch_offset` runs ahead of what was decoded by one request.

    Attributes:
        cut_short: the rest of it is not there and has been given up (`fail_on_data_loss` is False); what was
            decoded of it is still to be handed out.
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
        return not (self.aborted.active and self.aborted.drops(header, batch))


class RawReader:
    """Reads offset ranges.

    Args:
        bootstrap_servers: 'host:port[,host:port…]' or a list of such.
        configs: Kafka consumer configs by Kafka's or Python's names ('isolation.level', `fetch_max_bytes`).
            Fetch sizes default to larger ones than a consumer's: 16 MiB per partition, 64 MiB per request.
            `default_api_timeout_ms` (60 s) bounds how long a step may go without progress.
        first_contact_ms: how long no broker may be reachable before a first one was; after that every method
            raises `NoBrokersAvailableError`, which tells for each server why.

    Raises:
        ConfigError: a config that cannot be used. Nothing is connected to yet.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Any],
        configs: Mapping[str, Any] | None = None,
        *,
        first_contact_ms: float = math.inf,
    ) -> None:
        given = {python_name(name): value for name, value in (configs or {}).items()}
        self._config = build(ConsumerConfig, {**_DEFAULTS, **given, "bootstrap_servers": bootstrap_servers})
        self._cluster = BlockingCluster(
            self._config,
            allow_auto_create=False,
            first_contact_ms=first_contact_ms,
            may_wait_ms=self._config.fetch_max_wait_ms,
        )
        self._ownership = Ownership("this RawReader")
        self._check_usable = self._cluster.check_usable

    @one_at_a_time
    def fetch_columns(
        self,
        topic: str,
        partition: int,
        start_offset: int,
        end_offset: int,
        batch_rows: int = 20_000,
        *,
        with_headers: bool = False,
        fail_on_data_loss: bool = True,
        wait_for_end: bool = True,
        topic_id: bytes = ZERO_UUID,
        **columns: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The records with `start_offset` ≤ offset < `end_offset`, at most `batch_rows` rows at a time.

        Columns as `odradek.records.columns.ColumnDecoder` makes them: key, value (binary), offset (int64),
        timestamp, timestampType (int32), headers if asked for. Compacted-away offsets, control batches and
        (read_committed) aborted records are simply absent; the range counts as read when its end is passed.
        Waits until the end of the range has been written, at most `default_api_timeout_ms` without progress.

        Args:
            with_headers: whether there is a column for them.
            fail_on_data_loss: an offset of the range that is gone raises; if False, reading goes on at the
                first offset that is left, with a warning.
            wait_for_end: whether a range may end where nothing has been written yet. If False, a log that
                ends before the range has lost what is behind, which several answers have to say. What is
                written, but may not be read yet (not replicated, or of an open transaction), is waited for.
            topic_id: the topic must have this id (`look_up_topics`), where the broker has ids.
            columns: passed on to `ColumnDecoder` (`timestamp_unit`, `as_timestamp`, `nullable_headers`).

        Raises:
            PartitionLostError: part of the range is not in the log (`fail_on_data_loss`).
            TopicRecreatedError: the topic has another id than `topic_id`, whatever `fail_on_data_loss` says.
                Rows may be the new topic's before that (`rows_in_doubt`) where brokers have ids and are read
                by name: Kafka 2.8 and 3.0.
            TimestampRangeError: a record's time that microseconds, if they are asked for, cannot hold.
            KafkaError: what the broker says when it cannot be retried; `ClientTimeoutError` after the
                timeout.
        """
        for _, _, rows in self._fetch_columns(
            [PartitionRange(topic, partition, start_offset, end_offset)],
            batch_rows,
            with_headers,
            fail_on_data_loss,
            wait_for_end,
            {topic: topic_id},
            columns,
        ):
            yield rows

    @one_at_a_time
    def fetch_columns_many(
        self,
        ranges: Iterable[PartitionRange | tuple[str, int, int, int]],
        batch_rows: int = 20_000,
        *,
        with_headers: bool = False,
        fail_on_data_loss: bool = True,
        wait_for_end: bool = True,
        topic_ids: Mapping[str, bytes] | None = None,
        **columns: Any,
    ) -> Iterator[tuple[str, int, pa.RecordBatch]]:
        """As `fetch_columns`, several ranges at once: one connection and one request per broker at a time.

        The next request is on its way while the rows of the last answer are decoded and used.

        Args:
            ranges: topic, number, first offset, and the offset to end before.
            batch_rows, with_headers, fail_on_data_loss, wait_for_end, columns: see `fetch_columns`.
            topic_ids: the ids that topics must have, by name.

        Yields (topic, partition, rows); rows of one partition come in offset order, partitions interleave. A
        partition may occur once.

        Raises:
            IllegalArgumentError: a partition occurs twice.
        """
        yield from self._fetch_columns(
            ranges, batch_rows, with_headers, fail_on_data_loss, wait_for_end, topic_ids, columns
        )

    def _fetch_columns(
        self,
        ranges: Iterable[PartitionRange | tuple[str, int, int, int]],
        batch_rows: int,
        with_headers: bool,
        fail_on_data_loss: bool,
        wait_for_end: bool,
        topic_ids: Mapping[str, bytes] | None,
        columns: dict[str, Any],
    ) -> Iterator[tuple[str, int, pa.RecordBatch]]:
        from odradek.records.columns import ColumnDecoder

        committed = self._config.isolation_level == "read_committed"
        readings: dict[TopicPartition, _Reading] = {}
        for topic, partition, start, end in ranges:
            tp = TopicPartition(topic, partition)
            if tp in readings:
                raise IllegalArgumentError(f"{tp} is asked for twice; name it in one range, or in two calls")
            if start >= end:
                continue
            reading = readings[tp] = _Reading(tp, start, end, fail_on_data_loss)
            reading.decoder = ColumnDecoder(
                from_offset=start,
                until_offset=end,
                with_headers=with_headers,
                batch_rows=batch_rows,
                check_crcs=self._config.check_crcs,
                select=reading.wanted if committed else None,
                **columns,
            )
        if not readings:
            return
        ids = {topic: wanted for topic, wanted in (topic_ids or {}).items() if wanted != ZERO_UUID}
        yield from _Fetching(self._config, self._cluster, readings, ids, wait_for_end).run()

    @one_at_a_time
    def connect(self) -> None:
        """Reach any broker; the other methods do so by themselves."""
        self._with_retries("a first connection", self._cluster.any_connection)

    # Offsets

    @one_at_a_time
    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The first offset of each partition."""
        return list_offsets(self._cluster, self._config.isolation, dict.fromkeys(partitions, EARLIEST))

    @one_at_a_time
    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offset after the last readable record: high watermark, with read_committed last stable
        offset.
        """
        return list_offsets(self._cluster, self._config.isolation, dict.fromkeys(partitions, LATEST))

    @one_at_a_time
    def offsets_for_times(
        self, timestamps_ms: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int | None]:
        """The first offset at or after a time (epoch ms), None where no record is that new.

        Args:
            timestamps_ms: (topic, number) → time, epoch milliseconds.
        """
        found = list_offsets(self._cluster, self._config.isolation, timestamps_ms)
        return {tp: None if offset < 0 else offset for tp, offset in found.items()}

    @one_at_a_time
    def newest_timestamps(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        """The largest timestamp (epoch ms) of each partition, None where no record has one.

        Raises `UnsupportedByBrokerError` before Kafka 3.0 (KIP-734).
        """

        def newest(answer: Any) -> int | None:
            return None if answer.offset < 0 else int(answer.timestamp)

        asked = dict.fromkeys(partitions, MAX_TIMESTAMP)
        return look_up_offsets(self._cluster, self._config.isolation, asked, newest)

    @one_at_a_time
    def topic_configs(self, topics: Iterable[str], name: str) -> dict[str, str | None]:
        """The value of one config of each topic; those that a broker does not tell are left out.

        Raises `UnsupportedByBrokerError` before Kafka 0.11.
        """
        wanted = list(topics)
        return self._with_retries(
            f"configs {name}", lambda: topic_configs(self._cluster, wanted, name) if wanted else {}
        )

    @one_at_a_time
    def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic. Raises `KafkaError` UNKNOWN_TOPIC_OR_PARTITION."""
        self._with_retries(f"topic {topic!r}", lambda: refresh(self._cluster, [topic]))
        state = self._cluster.metadata.topics.get(topic)
        if state is None:
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")
        return sorted(state.partitions)

    @one_at_a_time
    def look_up_topics(
        self, topics: Iterable[str] | None = None, *, internal: bool = False
    ) -> dict[str, FoundTopic]:
        """Some topics, those that do not exist included; or all (the internal ones if asked for)."""
        names = None if topics is None else list(topics)
        return self._with_retries("topics", lambda: look_up_topics(self._cluster, names, internal=internal))

    @one_at_a_time
    def learn_topics(self, topics: Iterable[str]) -> None:
        """Ask once for those of `topics` that are not known yet, before they are read one after the other.

        What fails here, or does not exist, is no error: whoever reads such a topic asks again, and is told.
        """
        unknown = [topic for topic in topics if topic not in self._cluster.metadata.topics]
        if unknown:
            with suppress(KafkaError):
                self._cluster.refresh(unknown)

    @one_at_a_time
    def topics(self, *, internal: bool = False) -> dict[str, list[int]]:
        """All topics (the internal ones if asked for), with their partition numbers."""
        found = self._with_retries("topics", lambda: look_up_topics(self._cluster, None, internal=internal))
        return {name: list(topic.partitions) for name, topic in found.items() if not topic.error}

    def _with_retries(self, what: str, step: Callable[[], T]) -> T:
        retrying = self._cluster.retrying(what)
        while True:
            try:
                return step()
            except KafkaError as problem:
                retrying.failed(problem)

    def close(self) -> None:
        """Close the connections; may be called from anywhere. A call under way raises `ClosedError`."""
        self._cluster.close()

    def __enter__(self) -> RawReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Fetching:
    """The loop behind `fetch_columns_many`."""

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: BlockingCluster,
        readings: dict[TopicPartition, _Reading],
        topic_ids: Mapping[str, bytes],
        wait_for_end: bool,
    ) -> None:
        self._config = config
        self._wait_for_end = wait_for_end
        self._cluster = cluster
        self._left = readings
        self._topic_ids = topic_ids
        self._named: set[TopicPartition] = set()
        self._asked: dict[int, tuple[BlockingConnection, list[_Reading]]] = {}
        self._retrying: Retrying = cluster.retrying(f"reading {', '.join(map(str, readings))}")

    def run(self) -> Iterator[tuple[str, int, pa.RecordBatch]]:
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
                # What came is walked first, so that the next request is on its way while rows are decoded.
                ready = [self._take(reading, data) for reading, data in answers]
                if any(reading is not None for reading in ready):
                    self._retrying.progress()
                try:
                    self._ask()
                except KafkaError:
                    self._drop_connections()
                for (reading, data), taken in zip(answers, ready, strict=True):
                    if taken is not None:
                        for rows in self._decode(reading, data):
                            handed_out = True
                            yield rows
                for rows in self._rest_of_cut_short():
                    handed_out = True
                    yield rows
            self._check_named()
        except TopicRecreatedError as problem:
            problem.rows_in_doubt = handed_out and bool(self._named)
            raise
        finally:
            self._drop_connections()

    def _ask(self) -> None:
        """Send a request to every leader to which none is on its way."""
        busy = {reading.tp for _, readings in self._asked.values() for reading in readings}
        metadata = self._cluster.metadata
        by_node: dict[int, list[_Reading]] = {}
        epochs: dict[TopicPartition, int] = {}
        for tp, reading in self._left.items():
            if tp in busy or reading.fetch_offset >= reading.end:
                continue
            leader = self._cluster.leader(tp)
            if leader is None:
                raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp} has no leader")
            if leader not in self._asked:
                by_node.setdefault(leader, []).append(reading)
                # Another leader may be known soon: the one before must not be asked in that one's epoch.
                epochs[tp] = metadata.leader_epoch(tp)
        for node, readings in by_node.items():
            readings.sort(key=lambda reading: reading.tp.topic)
            connection = self._cluster.connection(node)
            ids = {reading.tp.topic: self._id_of(reading.tp.topic) for reading in readings}
            version = connection.pick(ApiKey.FETCH, at_most=fetch_ceiling(ids.values()))
            if version <= NAMES_UNTIL:
                self._about_to_name(readings)
            request = fetch_request(
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
                # No rack: it reads from leaders alone, which send those elsewhere that name one.
            )
            connection.send(request, version)
            self._asked[node] = (connection, readings)

    def _id_of(self, topic: str) -> bytes:
        """The id that is asked for; else the one that the topic has."""
        known = self._cluster.metadata.topic_id(topic)
        return self._topic_ids.get(topic, known) if known != ZERO_UUID else known

    def _about_to_name(self, readings: Iterable[_Reading]) -> None:
        """Ask for the topics' ids before the first Fetch that names topics, where the broker does not compare
        ids, and after the last one (`_check_named`). If they are the same, all came from the same topic.
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

    def _receive(self) -> list[tuple[_Reading, Any]]:
        """Wait for at least one broker; returns (reading, its part of the answer)."""
        if not self._asked:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE)
        asked = {node: connection for node, (connection, _) in self._asked.items()}
        out: list[tuple[_Reading, Any]] = []
        for node in await_any(self._cluster, asked, self._config.request_timeout_ms):
            connection, readings = self._asked.pop(node)
            _, response = connection.receive()
            if response.error_code:
                raise error_for(response.error_code)
            by_tp = {reading.tp: reading for reading in readings}
            names = {self._id_of(tp.topic): tp.topic for tp in by_tp}
            for topic in response.responses:
                name = topic.topic or names.get(bytes(topic.topic_id), "")
                for data in topic.partitions:
                    reading = by_tp.get(TopicPartition(name, data.partition_index))
                    if reading is not None:
                        out.append((reading, data))
        return out

    def _take(self, reading: _Reading, data: Any) -> _Reading | None:
        """Look at an answer without decoding it. Returns the reading if there is something to decode."""
        code = to_code(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._look_for(reading)
            return None
        if code != ErrorCode.NONE:
            self._retrying.failed(error_for(code, f"{reading.tp}: {code.message}"))
            self._refresh()
            return None
        start = reading.fetch_offset
        if data.records is not None:
            reading.fetch_offset = end_of_fetched(data.records, start)
            if reading.fetch_offset == start and len(data.records):
                raise batch_too_large(reading.tp, start)
        if reading.fetch_offset == start:
            self._retrying.idle(
                f"{reading.tp} has nothing at offset {start} yet; its high watermark is {data.high_watermark}"
            )
            if not self._wait_for_end and data.high_watermark <= start:
                self._look_for(reading)
            return None
        return reading

    def _decode(self, reading: _Reading, data: Any) -> Iterator[tuple[str, int, pa.RecordBatch]]:
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
        """Hand out what was decoded of ranges whose rest was given up, and be done with them."""
        for reading in [reading for reading in self._left.values() if reading.cut_short]:
            assert reading.decoder is not None
            rest = reading.decoder.flush()
            if rest is not None:
                yield (*reading.tp, rest)
            del self._left[reading.tp]

    def _look_for(self, reading: _Reading) -> None:
        """Find out what is left of a range of which the leader has nothing at the offset to read on at.

        What lies before the log's start is gone for good. That the log ends at that offset, or before, is
        believed when several answers say so, as whoever is asked may not be the leader any more, or not yet
        have what it will lead. Else the same is asked again.

        Raises `PartitionLostError` if part of the range is not there (`fail_on_data_loss`); if it shall not
        be raised, the range begins behind the gap, or is `cut_short`.
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

    def _is_written(self, reading: _Reading) -> bool:
        """Return whether the leader has anything at the offset to read on at, be it not replicated yet.

        Brokers tell readers no log end offset. But a fetch from an offset beyond it is out of range, and one
        from anywhere up to it is not.
        """
        tp = reading.tp
        while True:
            try:
                leader = self._cluster.leader(tp)
                if leader is None:
                    raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{tp} has no leader")
                connection = self._cluster.connection(leader)
                ids = {tp.topic: self._id_of(tp.topic)}
                epoch = self._cluster.metadata.leader_epoch(tp)
                response = connection.call(
                    fetch_request(
                        [FetchAt(tp, reading.fetch_offset + 1, epoch, 1)],
                        ids,
                        max_wait_ms=0,
                        min_bytes=0,
                        max_bytes=1,
                        isolation=self._config.isolation,
                    ),
                    at_most=fetch_ceiling(ids.values()),
                )
                answers = [data for topic in response.responses for data in topic.partitions]
                code = to_code(response.error_code or (answers[0].error_code if answers else 0))
                if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    return False
                if not answers:  # it is throttled
                    code = ErrorCode.REQUEST_TIMED_OUT
                if code == ErrorCode.NONE:
                    return True
                raise error_for(code, f"{tp}: {code.message}")
            except KafkaError as problem:
                self._drop_connections()
                self._retrying.failed(problem)
                self._refresh()

    def _skip(self, reading: _Reading, first: int, last: int) -> None:
        """Go on behind what is not there, or not at all; or raise. The log holds `first` to `last`."""
        what = f"offset {reading.fetch_offset} of the range up to {reading.end} is not in the log"
        if reading.fail_on_data_loss:
            raise PartitionLostError(
                f"{reading.tp}: {what}, which now holds {first} to {last}: records were deleted, the topic "
                "was made anew, or the range was to end where nothing has been written"
            )
        log.warning("%s: %s, which now holds %d to %d; it is skipped", reading.tp, what, first, last)
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
        for connection, _ in self._asked.values():
            connection.close()
        self._asked.clear()
