"""Retention, the segments that a log drops: before its start, beyond `retention.bytes`, older than
`retention.ms`.

Segments go from the oldest on, whole, and only below the high watermark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.log.partition.truncation import TruncatableLog
from odradek.log.segments.segment import Segment

logger = logging.getLogger(__name__)

Breach = Callable[[Segment, Segment | None], bool]
"""Whether a segment, followed by another or by none, is to go."""


def apply(log: TruncatableLog, now_ms: int) -> int:
    """Drop what is due; how many segments.

    Raises:
        OSError: a file cannot be renamed.
    """
    dropped = _drop(log, now_ms, _before_start(log), "they are before the log's start")
    if log.config.delete:
        dropped += _drop(log, now_ms, _too_many(log), "the log is larger than retention.bytes")
        dropped += _drop(log, now_ms, _too_old(log, now_ms), "they are older than retention.ms")
    return dropped


def _before_start(log: TruncatableLog) -> Breach:
    return lambda segment, following: following is not None and following.base_offset <= log.log_start_offset


def _too_many(log: TruncatableLog) -> Breach:
    limit = log.config.retention_bytes
    excess = log.size_bytes - limit

    def breach(segment: Segment, _following: Segment | None) -> bool:
        nonlocal excess
        if limit < 0 or excess < segment.size:
            return False
        excess -= segment.size
        return True

    return breach


def _too_old(log: TruncatableLog, now_ms: int) -> Breach:
    limit = log.config.retention_ms

    def breach(segment: Segment, _following: Segment | None) -> bool:
        if limit < 0:
            return False
        newest = segment.known_max_timestamp().timestamp
        return now_ms - (newest if newest >= 0 else segment.modified_ms()) > limit

    return breach


def _drop(log: TruncatableLog, now_ms: int, breach: Breach, why: str) -> int:
    segments = list(log.segments)
    due: list[Segment] = []
    for number, segment in enumerate(segments):
        following = segments[number + 1] if number + 1 < len(segments) else None
        end = following.base_offset if following else log.log_end_offset
        if following is None and segment.size == 0:
            break
        if log.high_watermark < end or not breach(segment, following):
            break
        due.append(segment)
    if not due:
        return 0
    if len(due) == len(segments):
        log.roll(now_ms)
    logger.info("%r: dropping %d segments up to %d: %s", log, len(due), due[-1].base_offset, why)
    end = log.segments[len(due)].base_offset
    if end > log.log_start_offset:
        log.move_log_start(end)
    for segment in due:
        log.drop_segment(segment)
    return len(due)
