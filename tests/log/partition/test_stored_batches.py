"""What stands in the log of a produced batch: the sender's bytes, but for what the leader says."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log import LogConfig, PartitionLog
from odradek.log.startup.loading import open_partition_log
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.records.batch import compute_crc
from odradek.records.builder import BatchBuilder
from odradek.records.compression import Codec
from odradek.records.validate import accept_batch
from odradek.util.clock import ManualClock

from ..batches import NOW_MS

TOPICS = {
    "plain": LogConfig(),
    "compacted": LogConfig(cleanup_policy=("compact",)),
    "append time": LogConfig(message_timestamp_type="LogAppendTime"),
    "small segments": LogConfig(segment_bytes=1500, index_interval_bytes=100, segment_index_bytes=60),
    "jitter": LogConfig(segment_jitter_ms=5_000),
}
SHAPES = st.tuples(
    st.sampled_from(list(Codec)),
    st.sampled_from([1, 2, 30]),
    st.sampled_from(["", "idempotent", "transaction"]),
)


def sent(codec: Codec, count: int, kind: str, sequence: int) -> bytes:
    """A batch as a client sends it."""
    fields = {}
    if kind:
        fields = {"producer_id": 5, "producer_epoch": 1, "base_sequence": sequence}
    builder = BatchBuilder(codec, **fields, transactional=kind == "transaction")
    for number in range(count):
        builder.append(NOW_MS + number, b"key", b"value %d" % number, [("h", b"x")])
    return bytes(builder.build())


def expected(data: bytes, base_offset: int, leader_epoch: int, config: LogConfig, now_ms: int) -> bytes:
    """The same in the log, laid out by hand (docs/log_format.md)."""
    stored = bytearray(data)
    struct.pack_into(">q", stored, 0, base_offset)
    struct.pack_into(">i", stored, 12, leader_epoch)
    if config.message_timestamp_type == "LogAppendTime":
        stored[22] |= 0x08
        struct.pack_into(">q", stored, 35, now_ms)
        struct.pack_into(">I", stored, 17, compute_crc(stored))
    return bytes(stored)


def stored(log: PartitionLog) -> bytes:
    return b"".join(segment.pread(segment.size, 0) for segment in log.segments)


@pytest.mark.parametrize("topic", TOPICS)
@given(shapes=st.lists(SHAPES, min_size=1, max_size=6))
def test_every_batch_is_stored_as_it_was_sent(topic: str, shapes: list[tuple[Codec, int, str]]) -> None:
    config = TOPICS[topic]
    clock = ManualClock(NOW_MS)
    log = open_partition_log(Path("/data/t-0"), "t", 0, config, MemoryFileSystem(), clock)
    written = b""
    sequence = 0
    is_open = False
    for epoch, (codec, count, kind) in enumerate(shapes):
        # A plain batch of a producer is refused while its transaction is open.
        kind = "transaction" if kind and is_open else kind
        is_open = is_open or kind == "transaction"
        data = sent(codec, count, kind, sequence)
        assert accept_batch(data, 1 << 20, -(2**63), 2**63 - 1, True, Codec.ZSTD, 1 << 20) is not None
        now_ms = NOW_MS + 7 * epoch
        offset = log.log_end_offset
        info = log.append(memoryview(data), leader_epoch=epoch, now_ms=now_ms, produce_version=9)
        assert (info.first_offset, info.last_offset) == (offset, offset + count - 1)
        is_append_time = config.message_timestamp_type == "LogAppendTime"
        assert info.log_append_time_ms == (now_ms if is_append_time else -1)
        written += expected(data, offset, epoch, config, now_ms)
        if kind:
            sequence += count
            # The same once more is not appended once more.
            again = log.append(data, leader_epoch=epoch, now_ms=now_ms, produce_version=9)
            assert again.duplicate
            assert (again.first_offset, again.last_offset) == (info.first_offset, info.last_offset)
    assert stored(log) == written


@pytest.mark.parametrize("codec", list(Codec))
def test_a_max_timestamp_that_a_sender_got_wrong_is_put_right(codec: Codec) -> None:
    log = open_partition_log(Path("/data/t-0"), "t", 0, LogConfig(), MemoryFileSystem(), ManualClock(NOW_MS))
    data = bytearray(sent(codec, 3, "", 0))
    right = expected(bytes(data), 0, 4, LogConfig(), NOW_MS)
    struct.pack_into(">q", data, 35, NOW_MS + 99)
    struct.pack_into(">I", data, 17, compute_crc(data))
    log.append(bytes(data), leader_epoch=4, now_ms=NOW_MS, produce_version=9)
    assert stored(log) == right
    assert log.max_timestamp().timestamp == NOW_MS + 2
