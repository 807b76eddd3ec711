"""From what a client sent to the format of the topic, where the two are not one batch of magic 2.

`prepare` does all the work that needs no look at the log, and may run in another thread: it is a function of
its arguments. What it made is appended by `PartitionLog.append_prepared`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from odradek.log.partition.append_rules import AppendRules
from odradek.log.segments.timestamp_offset import NO_TIMESTAMP, TimestampOffset
from odradek.log.storage.files import Buffer
from odradek.records.batch import MAGIC_V2, BatchHeader
from odradek.records.conversion.up_conversion import (
    PlacedMessages,
    batch_to_messages,
    messages_to_batch,
    place_messages,
)
from odradek.records.message_sets.message_set import is_message_set, iter_messages
from odradek.records.message_sets.message_validation import validate_message_set
from odradek.records.validate import AcceptedBatch


class Prepared(NamedTuple):
    """The bytes that an append writes.

    Attributes:
        rules, source, produce_version: what this was made of, and by which rules; it is made again where the
            topic's config has changed meanwhile, or the log's end and with it the offsets of `placed`.
        records, headers: record batches for a log of magic 2, without their offsets.
        placed: or messages with their offsets.
        entries, newest: of these the size and offset of each, and the largest timestamp.
        accepted: or nothing of these, as the source is stored as it came.
        unpacked_bytes: how many bytes of records were gone through for it; 0 where that is not known.
    """

    rules: AppendRules
    source: Buffer
    produce_version: int | None
    records: Buffer = b""
    headers: Sequence[BatchHeader] = ()
    placed: PlacedMessages | None = None
    entries: Sequence[tuple[int, int]] = ()
    newest: TimestampOffset = TimestampOffset(NO_TIMESTAMP, -1)
    accepted: AcceptedBatch | None = None
    unpacked_bytes: int = 0


def prepare(
    rules: AppendRules,
    records: Buffer,
    *,
    base_offset: int,
    from_client: bool,
    now_ms: int,
    produce_version: int | None,
) -> Prepared:
    """Validate, and convert to the format of the log.

    Args:
        rules: of the topic.
        records: what was sent; it must not change meanwhile.
        base_offset: the log's end.
        from_client, now_ms, produce_version: as in `AppendRules.validated`.

    Raises:
        KafkaError: as `validate_message_set`, `validate_batches` and the conversions do.
    """
    unpacked_bytes = 0
    old = produce_version is not None and produce_version < 3
    if old and (not len(records) or is_message_set(records)):
        messages = validate_message_set(
            records, now_ms=now_ms, produce_version=produce_version, **rules.limits
        )
        unpacked_bytes = len(messages.flat)
        if not messages.message_count:
            return Prepared(rules, records, produce_version)
        if rules.magic == MAGIC_V2:
            batch, headers = messages_to_batch(
                messages, codec=rules.codec, level=rules.level, max_message_bytes=rules.max_message_bytes
            )
            return Prepared(rules, records, produce_version, batch, headers, unpacked_bytes=unpacked_bytes)
        place = partial(place_messages, messages)
    elif rules.magic == MAGIC_V2:
        accepted = rules.accept(records, now_ms, produce_version) if from_client else None
        if accepted is not None:
            unpacked_bytes = max(accepted.unpacked_bytes, len(records))
            if rules.keeps(accepted):
                return Prepared(
                    rules, records, produce_version, accepted=accepted, unpacked_bytes=unpacked_bytes
                )
            converted, headers = rules.recoded(records, [accepted.header(records)])
            return Prepared(
                rules, records, produce_version, converted, headers, unpacked_bytes=unpacked_bytes
            )
        converted, headers = rules.validated(
            records, from_client=from_client, now_ms=now_ms, produce_version=produce_version
        )
        return Prepared(rules, records, produce_version, converted, headers)
    else:
        headers = rules.checked(
            records, from_client=from_client, now_ms=now_ms, produce_version=produce_version
        )
        place = partial(batch_to_messages, records, headers)
    placed = place(
        rules.magic,
        base_offset=base_offset,
        codec=rules.codec,
        level=rules.level,
        timestamp_type=rules.kind,
        now_ms=now_ms,
        max_message_bytes=rules.max_message_bytes,
    )
    return _placed(rules, records, produce_version, placed, unpacked_bytes)


def _placed(
    rules: AppendRules,
    source: Buffer,
    produce_version: int | None,
    placed: PlacedMessages,
    unpacked_bytes: int,
) -> Prepared:
    entries = [(header.size, header.offset) for header, _ in iter_messages(placed.records)]
    offset = placed.offset_of_max_timestamp
    newest = TimestampOffset(placed.max_timestamp, offset if offset >= 0 else placed.last_offset)
    return Prepared(
        rules,
        source,
        produce_version,
        placed=placed,
        entries=entries,
        newest=newest,
        unpacked_bytes=unpacked_bytes,
    )
