"""Lines into records, records into lines: pure parts of the console tools."""

from __future__ import annotations

import click
import pytest

from odradek.cli.formatter import Formatter
from odradek.cli.line_reader import LineError, LineReader
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
