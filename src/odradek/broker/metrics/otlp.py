"""Metrics in OpenTelemetry's format, as clients push them (KIP-714): read without its library. Pure.

Of `opentelemetry/proto/metrics/v1/metrics.proto` that is read which Kafka's clients write: gauges and sums
of numbers, with their attributes. Everything else is passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_DELTA = 1


class MalformedMetricsError(ValueError):
    """These bytes are no metrics."""


class DataPoint(NamedTuple):
    """One number.

    Attributes:
        name: the metric's, such as `org.apache.kafka.producer.record.send.total`.
        attributes: names and values, in the order of the names.
        value: the number.
        is_monotonic: whether the metric only rises, as a counter does.
        is_delta: whether the number is what has come since the last push.
    """

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    is_monotonic: bool
    is_delta: bool


_Field = tuple[int, int, "int | memoryview"]


def read_points(data: memoryview) -> Iterator[DataPoint]:
    """Yield all numbers of a `MetricsData` message.

    Raises:
        MalformedMetricsError: the bytes are none; points may have come before.
    """
    try:
        for resource_metrics in _messages(data, 1):
            for scope_metrics in _messages(resource_metrics, 2):
                for metric in _messages(scope_metrics, 2):
                    yield from _points(metric)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise MalformedMetricsError("these bytes are no OTLP metrics") from error


def _points(metric: memoryview) -> Iterator[DataPoint]:
    name = ""
    data: memoryview | None = None
    is_sum = False
    for number, _, content in _fields(metric):
        if isinstance(content, memoryview):
            if number == 1:
                name = _text(content)
            elif number in (5, 7):
                data, is_sum = content, number == 7
    if data is None:
        return
    is_monotonic = is_delta = False
    if is_sum:
        for number, _, content in _fields(data):
            if number == 2:
                is_delta = content == _DELTA
            elif number == 3:
                is_monotonic = content == 1
    for point in _messages(data, 1):
        value: float | None = None
        attributes: dict[str, str] = {}
        for number, wire_type, content in _fields(point):
            if wire_type == _FIXED64 and isinstance(content, memoryview) and number in (4, 6):
                (value,) = struct.unpack("<d" if number == 4 else "<q", content)
            elif number == 7 and isinstance(content, memoryview):
                key, text = _attribute(content)
                attributes[key] = text
        if value is not None:
            yield DataPoint(name, tuple(sorted(attributes.items())), value, is_monotonic, is_delta)


def _attribute(key_value: memoryview) -> tuple[str, str]:
    key = text = ""
    for number, _, content in _fields(key_value):
        if not isinstance(content, memoryview):
            continue
        if number == 1:
            key = _text(content)
        elif number == 2:
            text = _any_value(content)
    return key, text


def _any_value(value: memoryview) -> str:
    for number, _, content in _fields(value):
        if number == 1 and isinstance(content, memoryview):
            return _text(content)
        if number == 2:
            return "true" if content == 1 else "false"
        if number == 3 and isinstance(content, int):
            return str(content - 2**64 if content >= 2**63 else content)
        if number == 4 and isinstance(content, memoryview):
            return str(struct.unpack("<d", content)[0])
    return ""


def _messages(data: memoryview, number: int) -> Iterator[memoryview]:
    for field, wire_type, content in _fields(data):
        if field == number and wire_type == _BYTES and isinstance(content, memoryview):
            yield content


def _fields(data: memoryview) -> Iterator[_Field]:
    """Yield number, wire type and content of each field of a message."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        wire_type = tag & 7
        if wire_type == _VARINT:
            number, at = _varint(data, at)
            yield tag >> 3, wire_type, number
            continue
        if wire_type == _BYTES:
            size, at = _varint(data, at)
        elif wire_type == _FIXED64:
            size = 8
        elif wire_type == _FIXED32:
            size = 4
        else:
            raise MalformedMetricsError(f"wire type {wire_type} is none of protobuf's")
        if at + size > end:
            raise MalformedMetricsError("a field is longer than its message")
        yield tag >> 3, wire_type, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise MalformedMetricsError("a number is too long")


def _text(content: memoryview) -> str:
    return str(content, "utf-8")
