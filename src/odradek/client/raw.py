"""Partitions by offset range, without a group: blocking reads into Arrow, blocking writes from Arrow.

For engines that plan their own work (Spark tasks, tools, tests). No thread and no event loop is started: a
reader or writer may be made in a forked worker and used there. One object is used by one thread at a time.

    with RawReader("127.0.0.1:9092") as reader:
        for rows in reader.fetch_columns("events", 0, start_offset=0, end_offset=1_000_000):
            ...                                     # pyarrow.RecordBatch

    with RawWriter("127.0.0.1:9092", {"compression.type": "lz4"}) as writer:
        writer.write_columns(record_batch, topic="copies")
        writer.flush()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


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
        configs: Kafka consumer configs by Kafka's or Python's names ('isolation.level', `fetch_max_bytes`, …).
            Fetch sizes default to larger ones than a consumer's: 16 MiB per partition, 64 MiB per request.
            `default_api_timeout_ms` (60 s) bounds how long one step may find no broker that answers.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str], configs: Mapping[str, Any] | None = None
    ) -> None:
        raise NotImplementedError

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
    ) -> Iterator[pa.RecordBatch]:
        """The records with `start_offset` ≤ offset < `end_offset`, at most `batch_rows` rows at a time.

        Columns as `odradek.records.columns.decode_columns` gives them: key, value (binary), offset (int64),
        timestamp (timestamp[ms, UTC] or int64 as there), timestampType (int32), headers if asked for.
        Compacted-away offsets, control batches and (read_committed) aborted records are simply absent; the
        range counts as read when its end is passed. Waits until the end of the range has been written, at
        most `default_api_timeout_ms` without progress.

        Args:
            fail_on_data_loss: an offset of the range that is gone raises; if False, reading goes on at the
                first offset that is left.

        Raises:
            PartitionLostError: part of the range is no longer in the log (`fail_on_data_loss`).
            KafkaError: what the broker says, when it cannot be retried; `ClientTimeoutError` after the timeout.
        """
        raise NotImplementedError

    def fetch_columns_many(
        self,
        ranges: Iterable[PartitionRange | tuple[str, int, int, int]],
        batch_rows: int = 20_000,
        *,
        with_headers: bool = False,
        fail_on_data_loss: bool = True,
    ) -> Iterator[tuple[str, int, pa.RecordBatch]]:
        """As `fetch_columns`, several ranges at once: one connection and one request per broker at a time.

        Yields (topic, partition, rows); rows of one partition come in offset order, partitions interleave.
        """
        raise NotImplementedError

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The first offset of each partition."""
        raise NotImplementedError

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offset after the last readable record (high watermark; last stable offset if read_committed)."""
        raise NotImplementedError

    def offsets_for_times(
        self, timestamps_ms: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int | None]:
        """The first offset at or after a time (epoch ms), None where no record is that new."""
        raise NotImplementedError

    def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        raise NotImplementedError

    def topics(self) -> dict[str, list[int]]:
        """All topics but the internal ones, with their partition numbers."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError


class RawWriter:
    """Writes Arrow batches, with acks and retries but without a thread.

    Args:
        bootstrap_servers: as for `RawReader`.
        configs: Kafka producer configs: acks, compression_type, max_request_size, batch_size (of one record
            batch on the wire; default here 1 MiB less overhead), enable_idempotence, delivery_timeout_ms, …
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str], configs: Mapping[str, Any] | None = None
    ) -> None:
        raise NotImplementedError

    def write_columns(self, batch: pa.RecordBatch | pa.Table, topic: str | None = None) -> int:
        """Queue the rows and send whatever is full; answers that have come are checked.

        Columns: value (binary or string; required), key, topic (if `topic` is None), partition (int32, null:
        by key, as `odradek.records.partitioner`), headers (list of struct<key, value>), timestamp
        (timestamp or int64 ms). Rows without key and partition go round the partitions, a batch each.

        Returns: the number of rows taken.

        Raises:
            KafkaError: a write that could not be done; nothing of this writer is retried after that.
            ValueError: columns of the wrong type, or no topic.
        """
        raise NotImplementedError

    def flush(self) -> None:
        """Send everything and wait for all acknowledgements. Raises as `write_columns`."""
        raise NotImplementedError

    def close(self) -> None:
        """`flush` and close the connections."""
        raise NotImplementedError
