# compiled: mypyc
"""The checks of a broker before it appends what a client sent.

The order of the checks is Kafka's (ProduceRequest, UnifiedLog, LogValidator): the shape of what was sent
(one batch, magic 2, no zstd before its time), its size, its CRC, its header, then each record's structure,
key and timestamp, without copying any. Nothing is changed here; `patch` and `convert` do that afterwards.

Accept quickly, explain slowly: a single call (`accept_batch`) takes a batch that is in order. Whatever that
call does not take is walked through again, check by check, to raise the error of the first check that fails.
Batches that only coordinators write go the second way, too.

Stricter than Kafka, on purpose: bytes after the batch, sizes below -1, offset deltas that are not 0, 1, 2 …
and delete horizons are refused, where Kafka trims, reads null, rewrites and believes. Each of them is a
client's bug that would lose or move records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn, final

from mypy_extensions import mypyc_attr

from odradek.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)
from odradek.records._pyscan import INT64_MAX, INT64_MIN
from odradek.records.batch import (
    HEADER_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    BatchHeader,
    TimestampType,
    check_crc,
    records_section,
)
from odradek.records.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec
from odradek.records.kernel import kernel
from odradek.records.problems import MISSING_KEY, raise_for_problem
from odradek.util.compiled import choose

_accepting, _ = choose("odradek.records._validate", "odradek.records._pyvalidate")
accept_batch: Final[Callable[..., Any]] = _accepting.accept_batch

UNLIMITED_MS = 0x7FFF_FFFF_FFFF_FFFF
"""The default of `message.timestamp.before.max.ms`: any age is taken."""

_NO_BOUND_MS: Final = 2**61
"""A time that nobody configures in earnest, 73 million years. With the broker's time it fits 64 bits."""

MAX_RECORD_ERRORS = 1000
"""How many refused records an error names at most; a response must not outgrow its request."""

FIRST_VERSION_WITH_ZSTD: Final = 7
"""Of Produce requests (KIP-110)."""

_EARLIEST: Final = INT64_MIN
_LATEST: Final = INT64_MAX
_LZ4: Final = int(Codec.LZ4)
_ZSTD: Final = int(Codec.ZSTD)


class RecordError(NamedTuple):
    """One record that was refused: its index in the batch, and why (Produce response, `record_errors`)."""

    batch_index: int
    message: str


class _RefusedRecords(KafkaError):
    """Records that are well-formed but not acceptable to the topic; `record_errors` names them."""

    def __init__(self, message: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class RefusedRecordsError(_RefusedRecords, InvalidRecordError):
    """INVALID_RECORD with the records that caused it."""


class RefusedTimestampsError(_RefusedRecords, InvalidTimestampError):
    """INVALID_TIMESTAMP with the records that caused it."""


class InvalidProduceRequestError(InvalidRecordError):
    """INVALID_RECORD of a request that no log is asked about (Kafka's `ProduceRequest.validateRecords`)."""


def record_errors(error: KafkaError) -> tuple[RecordError, ...]:
    """The refused records that an error names; none for most errors."""
    return error.record_errors if isinstance(error, _RefusedRecords) else ()


# A free list of one object: batches are accepted in turn, and each reuses the memory of the last
# (docs/decisions/the-walk-compiled.md). Acyclic: it holds numbers alone, which the collector need not look
# at.
@mypyc_attr(acyclic=True, free_list_len=1)
@final
class AcceptedBatch:
    """The header of a batch that is in order, as clients send them, as far as an append needs it.

    Attributes:
        last_offset_delta, attributes, producer_id, producer_epoch, base_sequence: as its header has them.
        max_timestamp: the largest timestamp as the records have it.
        says_so: whether the header has the same; else the bytes cannot be stored as they came.
        unpacked_bytes: how many bytes its records unpacked to; 0 where they were not packed.
    """

    __slots__ = (
        "attributes",
        "base_sequence",
        "last_offset_delta",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "says_so",
        "unpacked_bytes",
    )

    def __init__(
        self,
        last_offset_delta: int,
        max_timestamp: int,
        says_so: bool,
        attributes: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        unpacked_bytes: int,
    ) -> None:
        self.last_offset_delta = last_offset_delta
        self.max_timestamp = max_timestamp
        self.says_so = says_so
        self.attributes = attributes
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.unpacked_bytes = unpacked_bytes

    def header(self, buffer: Buffer) -> BatchHeader:
        """The whole header, with `max_timestamp` as the records have it; `buffer` is the batch."""
        header = BatchHeader.parse(buffer)
        return header if self.says_so else header._replace(max_timestamp=self.max_timestamp)


UNPACKS_TO_MORE: Final = AcceptedBatch(-1, -1, False, 0, -1, -1, -1, 0)
"""Stands for a batch that unpacks to more than was allowed: see `BatchLimits.accept_within`."""


class BatchLimits:
    """The limits of the batches that a topic takes.

    Args:
        max_message_bytes: The largest batch (`max.message.bytes`).
        timestamp_type: `message.timestamp.type`.
        timestamp_before_max_ms, timestamp_after_max_ms: `message.timestamp.before.max.ms` and `.after.`:
            how far a CreateTime may be from the broker's time, milliseconds.
        compacted: Whether the topic is compacted, so that each record must have a key.
        max_decompressed_bytes: How far one batch may unpack.
    """

    __slots__ = (
        "_after_ms",
        "_before_ms",
        "_bounds_after",
        "_bounds_before",
        "_compacted",
        "_max_decompressed_bytes",
        "_max_message_bytes",
    )

    def __init__(
        self,
        *,
        max_message_bytes: int,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        timestamp_before_max_ms: int = UNLIMITED_MS,
        timestamp_after_max_ms: int = UNLIMITED_MS,
        compacted: bool = False,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self._max_message_bytes = max_message_bytes
        # With LogAppendTime the sender's timestamps are replaced, so none of them is refused (KIP-32).
        is_create_time = timestamp_type is TimestampType.CREATE_TIME
        # What goes beyond any timestamp is no bound, and 64 bits could not hold it.
        self._bounds_before = is_create_time and timestamp_before_max_ms < _NO_BOUND_MS
        self._bounds_after = is_create_time and timestamp_after_max_ms < _NO_BOUND_MS
        self._before_ms = min(timestamp_before_max_ms, _NO_BOUND_MS)
        self._after_ms = min(timestamp_after_max_ms, _NO_BOUND_MS)
        self._compacted = compacted
        self._max_decompressed_bytes = max_decompressed_bytes

    def validate_batches(
        self, buffer: Buffer, now_ms: int, from_client: bool, produce_version: int | None
    ) -> list[BatchHeader]:
        """Check everything in `buffer` for an append by a leader.

        Args:
            buffer: What stands in a produce request for one partition, or what a coordinator wrote.
            now_ms: The broker's time, milliseconds since the epoch.
            from_client: False for a coordinator's own writes: control batches, several batches, and batches
                that do not start at offset 0 are then taken.
            produce_version: Of the request; from 3 on it must hold exactly one batch of magic 2, and zstd
                only from 7 on. None: not part of a request.

        Returns:
            The batches' headers, with `max_timestamp` as the records really have it: hand them to
            `patch.assign_offsets`, which corrects the batches' own.

        Raises:
            KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
                UNSUPPORTED_COMPRESSION_TYPE, UNSUPPORTED_FOR_MESSAGE_FORMAT. `record_errors` tells which
                records are meant, where it is not the whole batch.
        """
        batch = self.accept(buffer, now_ms, produce_version)
        if batch is not None:
            return [batch.header(buffer)]
        return self.explain(buffer, now_ms, from_client, produce_version)

    def accept(self, buffer: Buffer, now_ms: int, produce_version: int | None) -> AcceptedBatch | None:
        """A batch that is in order, as clients send them; None for everything else: see `explain`."""
        batch = self.accept_within(buffer, now_ms, produce_version, self._max_decompressed_bytes)
        return None if batch is UNPACKS_TO_MORE else batch

    def accept_within(
        self, buffer: Buffer, now_ms: int, produce_version: int | None, most_unpacked: int
    ) -> AcceptedBatch | None:
        """Do what `accept` does, for a batch that unpacks to so many bytes at most; returns `UNPACKS_TO_MORE`
        for any other.
        """
        has_zstd = produce_version is None or produce_version >= FIRST_VERSION_WITH_ZSTD
        answer = accept_batch(
            buffer,
            self._max_message_bytes,
            now_ms - self._before_ms if self._bounds_before else _EARLIEST,
            now_ms + self._after_ms if self._bounds_after else _LATEST,
            self._compacted,
            _ZSTD if has_zstd else _LZ4,
            most_unpacked,
        )
        if answer is None:
            return None
        if answer is False:
            return UNPACKS_TO_MORE
        # With its type said, mypyc takes numbers out of the tuple, not objects.
        facts: tuple[int, int, bool, int, int, int, int, int] = answer
        delta, max_timestamp, says_so, attributes, producer_id, producer_epoch, sequence, unpacked = facts
        return AcceptedBatch(
            delta, max_timestamp, says_so, attributes, producer_id, producer_epoch, sequence, unpacked
        )

    def explain(
        self, buffer: Buffer, now_ms: int, from_client: bool, produce_version: int | None
    ) -> list[BatchHeader]:
        """Do what `validate_batches` does, for a buffer that `accept` does not take."""
        return _explain(
            memoryview(buffer),
            _Limits(
                self._max_message_bytes,
                now_ms - self._before_ms if self._bounds_before else _EARLIEST,
                now_ms + self._after_ms if self._bounds_after else _LATEST,
                self._compacted,
                from_client,
                produce_version,
                self._max_decompressed_bytes,
            ),
        )


class _Limits(NamedTuple):
    """The limits of the batches of one append; `earliest` and `latest` are the timestamps taken."""

    max_message_bytes: int
    earliest: int
    latest: int
    compacted: bool
    from_client: bool
    produce_version: int | None
    max_decompressed_bytes: int


def _explain(view: memoryview, limits: _Limits) -> list[BatchHeader]:
    """Walk through a buffer that `accept` did not take: raise what is wrong, or return the headers."""
    headers: list[BatchHeader] = []
    position = 0
    while position < len(view):
        header = _parse(view, position, limits.produce_version)
        # As in `ProduceRequest.validateRecords`.
        if headers and limits.from_client:
            raise InvalidProduceRequestError("a produce request holds exactly one record batch per partition")
        _check_header(header, len(view) - position, limits)
        batch = view[position : position + header.size]
        check_crc(header, batch)
        _check_counts(header)
        if limits.from_client:
            _check_fields_of_client(header)
        max_timestamp = _check_records(header, batch, limits)
        # Not refused: `assign_offsets` writes the right timestamp, as Kafka's LogValidator does.
        if header.max_timestamp != max_timestamp:
            header = header._replace(max_timestamp=max_timestamp)
        headers.append(header)
        position += header.size
    if not headers:
        raise InvalidProduceRequestError("a produce request holds at least one record batch per partition")
    return headers


def _parse(view: memoryview, position: int, produce_version: int | None) -> BatchHeader:
    left = len(view) - position
    # Before the header is parsed, which would call a short message a damaged batch.
    if produce_version is not None and produce_version >= 3 and left > MAGIC_AT:
        magic = view[position + MAGIC_AT]
        if magic in (0, 1):
            raise InvalidProduceRequestError(
                f"produce requests of version {produce_version} hold record batches of magic 2, not {magic}"
            )
    # Kafka cuts it off and answers as if all was written (docs/record_format.md).
    if left < HEADER_BYTES and position and (left <= MAGIC_AT or view[position + MAGIC_AT] == MAGIC_V2):
        raise CorruptRecordError(f"{left} bytes stand after the record batch")
    return BatchHeader.parse(view, position)


def _check_header(header: BatchHeader, left: int, limits: _Limits) -> None:
    """Raise what is wrong with a header, before the bytes behind it are looked at. There are `left` bytes."""
    if header.codec_id >= Codec.ZSTD:
        _check_codec(header.codec_id, limits.produce_version)
    # Offsets are the leader's to give (`UnifiedLog.analyzeAndValidateRecords`).
    if limits.from_client and header.base_offset:
        raise InvalidRecordError(
            f"the base offset of a client's record batch must be 0, but it is {header.base_offset}"
        )
    if header.size > limits.max_message_bytes:
        raise RecordTooLargeError(
            f"the record batch has {header.size} bytes, which exceeds the maximum of "
            f"{limits.max_message_bytes}"
        )
    if header.size > left:
        raise CorruptRecordError(
            f"the record batch says that it has {header.size} bytes, but {left} were sent"
        )


def _check_codec(codec: int, produce_version: int | None) -> None:
    Codec.of(codec)
    if produce_version is not None and produce_version < FIRST_VERSION_WITH_ZSTD:
        raise UnsupportedCompressionTypeError(
            f"produce requests of version {produce_version} may not use zstd, only those from version 7 on"
        )


def _check_counts(header: BatchHeader) -> None:
    count, delta = header.record_count, header.last_offset_delta
    if count == delta + 1 and count > 0:
        return
    if count == 0:
        raise InvalidRecordError("a record batch without records")
    if count < 0 or delta < 0:
        raise InvalidRecordError(f"a record batch of {count} records, the last offset delta {delta}")
    raise InvalidRecordError(
        f"a record batch of {count} records whose last offset delta is {delta}, not {count - 1}"
    )


def _check_fields_of_client(header: BatchHeader) -> None:
    # A marker that a client wrote would end transactions that are not its own.
    if header.is_control:
        raise InvalidRecordError("clients are not allowed to write control records")
    # Its base timestamp would count as the horizon (KIP-534): the cleaner would take tombstones for old
    # before consumers have seen them. Kafka does not look at the bit here.
    if header.delete_horizon_ms is not None:
        raise InvalidRecordError("clients are not allowed to set a delete horizon")
    # Without a sequence nobody could tell that it was sent twice.
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidRecordError(
            f"invalid sequence number {header.base_sequence} in a batch of producer id {header.producer_id}"
        )


def _check_records(header: BatchHeader, batch: memoryview, limits: _Limits) -> int:
    """Return the largest timestamp of the records."""
    max_timestamp: int
    problem, index, max_timestamp, refused = kernel.walk(
        records_section(header, batch, limits.max_decompressed_bytes),
        header.record_count,
        header.base_timestamp,
        limits.earliest,
        limits.latest,
        limits.compacted and not header.is_control,
        MAX_RECORD_ERRORS,
    )
    if problem:
        raise_for_problem(problem, index, header.base_offset)
    # After the walk: of a batch that does not parse, that is the error.
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        message = "producers may not set the timestamp type LogAppendTime"
        raise RefusedTimestampsError(message, (RecordError(0, message),))
    if refused:
        _raise_refused(refused, limits.earliest, limits.latest)
    return max_timestamp


def _raise_refused(refused: list[tuple[int, int, int]], earliest: int, latest: int) -> None:
    errors = []
    # If one of them is a timestamp, that is the code for the whole batch, as in LogValidator's
    # `processRecordErrors`.
    timestamps = False
    for index, why, timestamp in refused:
        if why == MISSING_KEY:
            message = "a compacted topic does not take a record without a key"
        else:
            timestamps = True
            message = f"timestamp {timestamp} is not within [{earliest}, {latest}]"
        errors.append(RecordError(index, message))
    raise_refused(errors, timestamps=timestamps)


def raise_refused(errors: Sequence[RecordError], *, timestamps: bool) -> NoReturn:
    """Raise for records that were refused.

    Args:
        errors: not empty.
        timestamps: a timestamp is the reason of one of them at least.
    """
    if timestamps:
        raise RefusedTimestampsError("one or more records have an invalid timestamp", tuple(errors))
    raise RefusedRecordsError(
        f"{len(errors)} records were refused, first record {errors[0].batch_index}: {errors[0].message}",
        tuple(errors),
    )
