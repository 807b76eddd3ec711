"""Control records: the markers with which a transaction ends (KIP-98).

The key of a control record is (version int16, type int16); the value of an end-of-transaction marker is
(version int16, coordinator epoch int32). Later versions may add fields, so longer ones are read too.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from odradek.errors import InvalidRecordError
from odradek.records.builder import BatchBuilder

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class ControlType(IntEnum):
    """The meaning of a control record; none to this release have those that KRaft writes (2 and up)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    control_type: ControlType
    coordinator_epoch: int


def parse_control_type(key: bytes | None) -> ControlType:
    """The type in a control record's key. `KafkaError` INVALID_RECORD when there is none."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError("the key of a control record is too short")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"the key of a control record has version {version}")
    try:
        return ControlType(kind)
    except ValueError:
        return ControlType.UNKNOWN


def parse_end_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """A commit or abort marker. `KafkaError` INVALID_RECORD when the record is neither."""
    kind = parse_control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecordError(f"a control record of type {kind.name} does not end a transaction")
    if value is None or len(value) < _VALUE.size:
        raise InvalidRecordError("the value of an end-of-transaction marker is too short")
    version, epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(f"an end-of-transaction marker has version {version}")
    return EndTransactionMarker(kind, epoch)


def end_marker_batch(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    partition_leader_epoch: int = -1,
    base_offset: int = 0,
) -> bytes:
    """The batch of one marker that a coordinator has written at a transaction's end; `timestamp` in ms."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=partition_leader_epoch,
        base_offset=base_offset,
    )
    builder.append(timestamp, _KEY.pack(0, control_type), _VALUE.pack(0, coordinator_epoch))
    return builder.build()
