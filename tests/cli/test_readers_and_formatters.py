"""Lines into records, records into lines: pure parts of the console tools."""

from __future__ import annotations

import io

import click
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from odradek.cli.formatter import FormatError, Formatter
from odradek.cli.line_reader import LineError, LineReader, read_lines
from odradek.cli.offset_resets import parse_datetime, parse_duration
from odradek.client.types import ConsumerRecord


def read(line: bytes, **properties: str) -> dict[str, object]:
    reader = LineReader.from_properties({k.replace("_", "."): v for k, v in properties.items()})
    return next(iter(reader.records([line])))


@pytest.mark.parametrize(
    ("line", "properties", "expected"),
    [
        (b"hello\n", {}, (None, b"hello", [])),
        (b"hello\r\n", {}, (None, b"hello", [])),
        (b"\n", {}, (None, b"", [])),
        (b"k\tv\n", {"parse_key": "true"}, (b"k", b"v", [])),
        (b"k:v:w\n", {"parse_key": "true", "key_separator": ":"}, (b"k", b"v:w", [])),
        (b"alone\n", {"parse_key": "true", "ignore_error": "true"}, (None, b"alone", [])),
        (b"NIL\tNIL\n", {"parse_key": "true", "null_marker": "NIL"}, (None, None, [])),
        (
            b"a:1,b:\tk\tv\n",
            {"parse_key": "true", "parse_headers": "true"},
            (b"k", b"v", [("a", b"1"), ("b", b"")]),
        ),
        (b"a:NIL\tv\n", {"parse_headers": "true", "null_marker": "NIL"}, (None, b"v", [("a", None)])),
        (b"NIL\tv\n", {"parse_headers": "true", "null_marker": "NIL"}, (None, b"v", [])),
    ],
)
def test_line_reader(line: bytes, properties: dict[str, str], expected: tuple[object, ...]) -> None:
    record = read(line, **properties)
    assert (record["key"], record["value"], record["headers"]) == expected


def test_a_line_without_its_separator_names_the_line() -> None:
    with pytest.raises(LineError, match="No key separator found on line number 1: 'alone'"):
        read(b"alone\n", parse_key="true")


@pytest.mark.parametrize(
    "properties",
    [
        {"parse.keys": "true"},
        {"parse.headers": "true", "headers.delimiter": ","},
        {"parse.headers": "true", "headers.separator": ":"},
    ],
)
def test_line_reader_refuses(properties: dict[str, str]) -> None:
    with pytest.raises(click.BadParameter):
        LineReader.from_properties(properties)


RECORD = ConsumerRecord(
    topic="t", partition=3, offset=7, timestamp=1_700_000_000_000, timestamp_type=0, key=b"k", value=None,
    headers=(("a", b"1"), ("b", None)), leader_epoch=-1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({}, b"null\n"),
        ({"print.key": "true"}, b"k\tnull\n"),
        ({"print.key": "true", "key.separator": "=", "null.literal": "-"}, b"k=-\n"),
        ({"print.value": "false", "print.key": "true", "line.separator": ";"}, b"k;"),
        (
            {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "headers", "epoch")},
            b"CreateTime:1700000000000\tPartition:3\tOffset:7\tEpoch:NOT_PRESENT\ta:1,b:null\tnull\n",
        ),
    ],
)
def test_formatter(properties: dict[str, str], line: bytes) -> None:
    assert Formatter.from_properties(properties).line(RECORD) == line


def test_formatter_refuses_what_it_does_not_have() -> None:
    with pytest.raises(click.BadParameter, match=r"print\.colour"):
        Formatter.from_properties({"print.colour": "true"})


def test_reset_times() -> None:
    assert parse_duration("P1DT2H3M4.5S") == 93_784_500
    assert parse_datetime("1970-01-01T00:00:01.500") == 1_500
    assert parse_datetime("1970-01-01T01:00:01+01:00") == 1_000
    for bad in ("P", "1D", "PT"):
        with pytest.raises(click.BadParameter):
            parse_duration(bad)


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b""))),
    ends=st.sampled_from([b"\n", b"\r\n"]),
    open_end=st.booleans(),
    longest=st.integers(1, 12),
)
def test_lines_are_those_of_the_stream_and_long_ones_are_left_out(
    lines: list[bytes], ends: bytes, open_end: bool, longest: int
) -> None:
    data = b"".join(line + ends for line in lines)
    if open_end:
        data += b"tail"
        lines = [*lines, b"tail"]
    expected = [line if len(line) <= longest else None for line in lines]
    assert list(read_lines(io.BytesIO(data), longest)) == expected


def test_a_line_of_a_gigabyte_is_not_held() -> None:
    class Endless(io.RawIOBase):
        """Gives as much as is asked for, without an end of line, until a gigabyte is out."""

        left = 1 << 30
        largest = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            assert size is not None and size > 0
            self.largest = max(self.largest, size)
            size = min(size, self.left)
            self.left -= size
            return bytes(size)

    stream = Endless()
    assert list(read_lines(stream, 1 << 20)) == [None]  # type: ignore[arg-type]
    assert stream.largest <= (1 << 20) + 2


PLAIN = st.binary(max_size=8).map(lambda b: b.translate(None, b"\t\n\r,:"))


@given(
    key=st.none() | PLAIN,
    value=st.none() | PLAIN,
    headers=st.lists(st.tuples(st.text("abcü", min_size=1, max_size=3), st.none() | PLAIN), max_size=3),
)
def test_what_the_formatter_writes_the_reader_reads(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    """Both speak one language where nobody's bytes are a separator or the word for null."""
    marker = "\x00null\x00"
    assume(marker.encode() not in (key, value))
    record = RECORD._replace(key=key, value=value, headers=tuple(headers))
    formatter = Formatter.from_properties(
        {"print.key": "true", "print.headers": "true", "null.literal": marker}
    )
    reader = LineReader.from_properties({"parse.key": "true", "parse.headers": "true", "null.marker": marker})
    line = formatter.line(record)
    if not headers:
        line = marker.encode() + line.removeprefix(b"NO_HEADERS")
    assert next(reader.records([line])) == {"key": key, "value": value, "headers": headers}


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("org.apache.kafka.common.serialization.StringDeserializer", b"\xff", b"\xff"),
        ("IntegerDeserializer", b"\xff\xff\xff\xff", b"-1"),
        ("LongDeserializer", b"\x00" * 7 + b"\x07", b"7"),
        ("ShortDeserializer", b"\x01\x00", b"256"),
        ("DoubleDeserializer", b"\x3f\xf8" + bytes(6), b"1.5"),
        ("FloatDeserializer", b"\x3f\xc0\x00\x00", b"1.5"),
        ("BooleanDeserializer", b"\x01", b"true"),
        (
            "UUIDDeserializer",
            b"123e4567-e89b-12d3-a456-426614174000",
            b"123e4567-e89b-12d3-a456-426614174000",
        ),
    ],
)
def test_deserializers(name: str, data: bytes, text: bytes) -> None:
    formatter = Formatter.from_properties({"value.deserializer": name, "value.deserializer.x": "ignored"})
    assert formatter.line(RECORD._replace(value=data)) == text + b"\n"
    assert formatter.line(RECORD) == b"null\n"
    if name not in ("org.apache.kafka.common.serialization.StringDeserializer",):
        with pytest.raises(FormatError):
            formatter.line(RECORD._replace(value=b"\xfe\xff\xfe"))
