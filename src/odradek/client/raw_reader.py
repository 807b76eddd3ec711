"""`RawReader`: offset ranges of partitions as Arrow batches; see `odradek.client.raw`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack

from odradek.client.arguments import names_of, partitions_of, times_of
from odradek.client.blocking import BlockingCluster
from odradek.client.config import ConsumerConfig, build, python_name
from odradek.client.core.fetch_requests import EARLIEST, LATEST
from odradek.client.core.ownership import Ownership, one_at_a_time
from odradek.client.errors import IllegalArgumentError
from odradek.client.raw_partitions import (
    MAX_TIMESTAMP,
    FoundTopic,
    list_offsets,
    look_up_offsets,
    look_up_topics,
    refresh,
    topic_configs,
)
from odradek.client.types import (
    FetchedColumns,
    Servers,
    TopicPartition,
)
from odradek.errors import ErrorCode, KafkaError, error_for
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.client.config_dicts import ReadConfigs

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


class RawReader:
    """Reads offset ranges.

    Args:
        bootstrap_servers: 'host:port[,host:port…]' or a list of such.
        configs, more: Kafka consumer configs: a mapping under Kafka's or Python's names ('isolation.level',
            `fetch_max_bytes`), or keywords.
            Fetch sizes default to larger ones than a consumer's: 16 MiB per partition, 64 MiB per request.
            `default_api_timeout_ms` (60 s) bounds how long a step may go without progress.
        first_contact_ms: how long no broker may be reachable before a first one was.

    Raises:
        ConfigError: a config that cannot be used. Nothing is connected to yet.
        NoBrokersAvailableError: by every method, after `first_contact_ms`; tells for each server why.
    """

    def __init__(
        self,
        bootstrap_servers: Servers,
        configs: Mapping[str, object] | None = None,
        *,
        first_contact_ms: float = math.inf,
        **more: Unpack[ReadConfigs],
    ) -> None:
        given = {python_name(name): value for name, value in {**(configs or {}), **more}.items()}
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
        **columns: Unpack[FetchedColumns],
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
        **columns: Unpack[FetchedColumns],
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
        columns: FetchedColumns,
    ) -> Iterator[tuple[str, int, pa.RecordBatch]]:
        from odradek.client.raw_fetching import Fetching, Reading
        from odradek.records.columns import ColumnDecoder

        committed = self._config.isolation_level == "read_committed"
        readings: dict[TopicPartition, Reading] = {}
        for topic, partition, start, end in ranges:
            tp = TopicPartition(topic, partition)
            if tp in readings:
                raise IllegalArgumentError(f"{tp} is asked for twice; name it in one range, or in two calls")
            if start >= end:
                continue
            reading = readings[tp] = Reading(tp, start, end, fail_on_data_loss)
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
        ids = {topic: topic_id for topic, topic_id in (topic_ids or {}).items() if topic_id != ZERO_UUID}
        yield from Fetching(self._config, self._cluster, readings, ids, wait_for_end).run()

    @one_at_a_time
    def connect(self) -> None:
        """Reach any broker; the other methods do so by themselves."""
        self._with_retries("a first connection", self._cluster.any_connection)

    # Offsets

    @one_at_a_time
    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The first offset of each partition."""
        return list_offsets(
            self._cluster, self._config.isolation, dict.fromkeys(partitions_of(partitions), EARLIEST)
        )

    @one_at_a_time
    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offset after the last readable record: high watermark, with read_committed last stable
        offset.
        """
        return list_offsets(
            self._cluster, self._config.isolation, dict.fromkeys(partitions_of(partitions), LATEST)
        )

    @one_at_a_time
    def offsets_for_times(
        self, timestamps_ms: Mapping[tuple[str, int], int | datetime]
    ) -> dict[tuple[str, int], int | None]:
        """The first offset at or after a time (epoch ms), None where no record is that new.

        Args:
            timestamps_ms: (topic, number) → epoch milliseconds, or a datetime (without a time zone: local).
        """
        offsets = list_offsets(self._cluster, self._config.isolation, times_of(timestamps_ms))
        return {tp: None if offset < 0 else offset for tp, offset in offsets.items()}

    @one_at_a_time
    def newest_timestamps(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        """The largest timestamp (epoch ms) of each partition, None where no record has one.

        Raises:
            UnsupportedByBrokerError: the broker is older than Kafka 3.0 (KIP-734).
        """

        def newest(answer: Any) -> int | None:
            return None if answer.offset < 0 else int(answer.timestamp)

        timestamps = dict.fromkeys(partitions_of(partitions), MAX_TIMESTAMP)
        return look_up_offsets(self._cluster, self._config.isolation, timestamps, newest)

    @one_at_a_time
    def topic_configs(self, topics: Iterable[str], name: str) -> dict[str, str | None]:
        """The value of one config of each topic; those that a broker does not tell are left out.

        Raises:
            UnsupportedByBrokerError: the broker is older than Kafka 0.11.
        """
        names = names_of(topics, "topics")
        return self._with_retries(
            f"configs {name}", lambda: topic_configs(self._cluster, names, name) if names else {}
        )

    @one_at_a_time
    def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic.
        """
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
        names = None if topics is None else names_of(topics, "topics")
        return self._with_retries("topics", lambda: look_up_topics(self._cluster, names, internal=internal))

    @one_at_a_time
    def learn_topics(self, topics: Iterable[str]) -> None:
        """Ask once for those of `topics` that are not known yet, before they are read one after the other.

        What fails here, or does not exist, is no error: whoever reads such a topic asks again, and is told.
        """
        known = self._cluster.metadata.topics
        unknown = [topic for topic in names_of(topics, "topics") if topic not in known]
        if unknown:
            with suppress(KafkaError):
                self._cluster.refresh(unknown)

    @one_at_a_time
    def topics(self, *, internal: bool = False) -> dict[str, list[int]]:
        """All topics (the internal ones if asked for), with their partition numbers."""
        topics = self._with_retries("topics", lambda: look_up_topics(self._cluster, None, internal=internal))
        return {name: list(topic.partitions) for name, topic in topics.items() if not topic.error}

    def _with_retries(self, action: str, step: Callable[[], T]) -> T:
        retrying = self._cluster.retrying(action)
        while True:
            try:
                return step()
            except KafkaError as problem:
                retrying.failed(problem)

    def close(self) -> None:
        """Close the connections; may be called from anywhere. A call under way ends with `ClosedError`."""
        self._cluster.close()

    def __enter__(self) -> RawReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
