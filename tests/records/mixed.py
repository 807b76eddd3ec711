"""Logs in which batches and messages of all formats stand side by side."""

from __future__ import annotations

from hypothesis import strategies as st

from odradek.records.batch import TimestampType
from odradek.records.builder import build_batch
from odradek.records.compression import Codec
from records.message_set_builder import MessageSetBuilder

FIELD = st.none() | st.binary(max_size=60)
PART = st.tuples(
    st.sampled_from([0, 1, 2]),
    st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]),
    st.booleans(),
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(-1, 2**62), FIELD, FIELD), min_size=1, max_size=5),
)


Part = tuple[int, Codec, bool, int, list[tuple[int, bytes | None, bytes | None]]]
"""Magic, codec, whether by the log's time, offsets left out before it, and rows: timestamp, key, value."""


def log_of(parts: list[Part]) -> bytes:
    """A log of these parts, from offset 1 on."""
    log = b""
    base = 1
    for magic, codec, append_time, gap, rows in parts:
        base += gap
        kind = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
        if magic == 2:
            log += build_batch(
                [(*row, ()) for row in rows],
                codec=codec,
                base_offset=base,
                timestamp_type=kind,
                append_time=base,
            )
        else:
            builder = MessageSetBuilder(magic, codec, kind, base, append_time=base)
            for row in rows:
                builder.append(*row)
            log += builder.build()
        base += len(rows)
    return log
