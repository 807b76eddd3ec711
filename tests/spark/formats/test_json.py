"""JSON into columns: against Python's own, and the compiled decoder against its twin."""

from __future__ import annotations

import base64
import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark")

from hypothesis import example, given
from hypothesis import strategies as st

from .decoded import decoder


def one(ddl: str, text: str | bytes, **options: Any) -> Any:
    """The value of column `a`; "malformed" if the record is."""
    rows, problems = decoder(value_format="json", value_schema=f"a {ddl}", **options)(
        [text.encode() if isinstance(text, str) else text]
    )
    return "malformed" if problems else rows[0]["a"]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TYPES: dict[str, Any] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "string": TEXT,
}


def values(depth: int) -> Any:
    """(DDL, value) of a column."""
    plain = st.one_of([st.tuples(st.just(name), st.none() | some) for name, some in TYPES.items()])
    if not depth:
        return plain
    inner = values(depth - 1)

    @st.composite
    def lists(draw: Any) -> Any:
        ddl, first = draw(inner)
        return f"array<{ddl}>", [first] * draw(st.integers(0, 3))

    @st.composite
    def maps(draw: Any) -> Any:
        ddl, first = draw(inner)
        return f"map<string, {ddl}>", dict.fromkeys(draw(st.lists(TEXT, max_size=3)), first)

    @st.composite
    def structs(draw: Any) -> Any:
        names = draw(st.lists(TEXT.filter(lambda name: name), min_size=1, max_size=4, unique_by=str.lower))
        fields = [draw(inner) for _ in names]
        quoted = [name.replace("`", "``") for name in names]
        ddl = ", ".join(f"`{name}`: {kind}" for name, (kind, _) in zip(quoted, fields, strict=True))
        return f"struct<{ddl}>", dict(zip(names, [value for _, value in fields], strict=True))

    return plain | lists() | maps() | structs()


def as_read(ddl: str, value: Any) -> Any:
    """A map is a list of pairs."""
    if value is None:
        return None
    if ddl.startswith("map<string, "):
        return [(key, as_read(ddl[12:-1], inner)) for key, inner in value.items()]
    if ddl.startswith("array<"):
        return [as_read(ddl[6:-1], inner) for inner in value]
    return value


@pytest.mark.fuzz
@given(values(2), st.booleans(), st.sampled_from([None, 1]))
def test_what_json_writes_is_read(typed: tuple[str, Any], ascii_only: bool, indent: int | None) -> None:
    ddl, value = typed
    if "struct<" in ddl and ("map<" in ddl or "array<" in ddl):
        return
    text = json.dumps({"other": [1, {"x": "y"}], "a": value}, ensure_ascii=ascii_only, indent=indent)
    assert one(ddl, text) == as_read(ddl, value)


DDL = (
    "a int, b string, c double, d boolean, e array<bigint>, f map<string, string>, g timestamp, h date, "
    "i decimal(10,3), j binary, k struct<x: int, y: string>, l float, m smallint"
)
WHOLE = (
    b'{"a": -12, "b": "t\\u00e9\\n\xc3\xa9", "c": 1.5e-3, "d": true, "e": [1, null, 3], "f": {"p": "q"}, '
    b'"g": "2026-01-02T03:04:05.678901+01:30", "h": "2026-02-03", "i": "12.3456", "j": "aGk=", '
    b'"k": {"x": 7, "y": null, "z": [{}]}, "l": 1e39, "m": 3, "n": [true, false, null, "\\ud83d\\ude00", {}]}'
)


@pytest.mark.fuzz
@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=2)), max_size=3), st.integers(0, 3)
)
def test_damaged_documents(damage: list[tuple[int, bytes]], kind: int) -> None:
    """Whatever the bytes are: a row or a problem, and the twins agree (asserted by `decode`)."""
    data = WHOLE
    for at, instead in damage:
        data = data[:at] + instead + data[at + kind :]
    rows, problems = decoder(value_format="json", value_schema=DDL)([data, WHOLE, None])
    assert rows[1]["a"] == -12
    assert rows[2] is None
    assert {one.row for one in problems} <= {0}


@pytest.mark.fuzz
@given(st.binary(max_size=30))
@example(b"")
@example(b"[" * 300)
@example(b'{"b":' * 150)
def test_any_bytes(data: bytes) -> None:
    decoder(value_format="json", value_schema=DDL)([data])
    decoder(value_format="json", value_schema="array<string>")([data])


@pytest.mark.fuzz
@given(st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_numbers(text: str) -> None:
    assert one("double", f'{{"a":{text}}}') == float(text)
    found = one("decimal(38,10)", f'{{"a":{text}}}')
    digits = Decimal(text)
    if len(digits.as_tuple().digits) <= 38 and found != "malformed":
        assert abs(found - digits) <= Decimal("0.00000000005")


def test_a_document_that_is_whole() -> None:
    rows, problems = decoder(value_format="json", value_schema=DDL)([WHOLE])
    assert problems == []
    moment = datetime.datetime(2026, 1, 2, 1, 34, 5, 678901, datetime.UTC)
    assert rows == [
        {
            "a": -12,
            "b": "té\né",
            "c": 1.5e-3,
            "d": True,
            "e": [1, None, 3],
            "f": [("p", "q")],
            "g": int(moment.timestamp()) * 1_000_000 + 678901,
            "h": datetime.date(2026, 2, 3),
            "i": Decimal("12.346"),
            "j": b"hi",
            "k": {"x": 7, "y": None},
            "l": math.inf,
            "m": 3,
        }
    ]


def test_names() -> None:
    """Of one that is there twice the last counts; one may be written with escapes; others are passed."""
    assert one("int", '{"a": 1, "b": {"a": 2}, "a": 3}') == 3
    assert one("string", '{"a": "long text", "a": null}') is None
    assert one("array<int>", '{"a": [1, 2], "a": [3]}') == [3]
    assert one("int", '{"\\u0061": 4}') == 4
    assert one("int", "{}") is None
    assert one("int", '{"A": 1}') is None


def test_strings_take_anything_as_it_is_written() -> None:
    assert one("string", '{"a": {"x":  [1, 2]}}') == '{"x":  [1, 2]}'
    assert one("string", '{"a": 1.50}') == "1.50"
    assert one("string", '{"a": true}') == "true"


@pytest.mark.parametrize(
    ("ddl", "text", "found"),
    [
        ("double", '"NaN"', math.nan),
        ("double", '"-Infinity"', -math.inf),
        ("float", '"+INF"', math.inf),
        ("double", "9007199254740993", 9007199254740992.0),
        ("double", "0.1e-400", 0.0),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("decimal(5,2)", "1.005", Decimal("1.01")),
        ("decimal(5,2)", "-1.005", Decimal("-1.01")),
        ("decimal(5,2)", '"999.99"', Decimal("999.99")),
        ("decimal(38,0)", "1e37", Decimal("1" + "0" * 37)),
        ("date", '"2024-02-29"', datetime.date(2024, 2, 29)),
        ("date", '"0001-01-01"', datetime.date(1, 1, 1)),
        ("timestamp", "1.0", "malformed"),
        ("timestamp", "12", 12_000_000),
        ("timestamp", '"1969-12-31 23:59:59.9999999"', -1),
        ("timestamp", '"2026-01-01"', 1_767_225_600_000_000),
        ("timestamp", '"2026-01-01T00:00Z"', 1_767_225_600_000_000),
        ("timestamp", '"2026-01-01T00:00-0030"', 1_767_227_400_000_000),
        ("timestamp_ntz", '"2026-01-01T00:00:01"', 1_767_225_601_000_000),
        ("binary", '"AAE"', b"\x00\x01"),
        (
            "binary",
            f'"{base64.urlsafe_b64encode(bytes([255, 254, 253, 252])).decode()}"',
            bytes([255, 254, 253, 252]),
        ),
        ("map<string, array<int>>", '{"x": [1], "y": null}', [("x", [1]), ("y", None)]),
    ],
)
def test_values(ddl: str, text: str, found: Any) -> None:
    assert repr(one(ddl, f'{{"a": {text}}}')) == repr(found)


@pytest.mark.parametrize(
    ("unit", "micros"),
    [("s", 1_700_000_000_000_000_000), ("ms", 1_700_000_000_000_000), ("us", 1_700_000_000_000)],
)
def test_units_of_timestamps(unit: str, micros: int) -> None:
    assert one("timestamp", '{"a": 1700000000000}', value_timestamp_unit=unit) == micros


@pytest.mark.parametrize(
    ("ddl", "text", "reason"),
    [
        ("int", '{"a": 1.5}', "the value is not of the column's type"),
        ("int", '{"a": 2147483648}', "the number does not fit the column's type"),
        ("tinyint", '{"a": 128}', "the number does not fit the column's type"),
        ("int", '{"a": "1"}', "the value is not of the column's type"),
        ("boolean", '{"a": 1}', "the value is not of the column's type"),
        ("bigint", '{"a": 99999999999999999999}', "the number does not fit the column's type"),
        ("decimal(5,2)", '{"a": 1000}', "the number does not fit the column's type"),
        ("decimal(5,2)", '{"a": "x"}', "not a number"),
        ("date", '{"a": "2023-02-29"}', "not a date or time of ISO 8601"),
        ("timestamp", '{"a": "yesterday"}', "not a date or time of ISO 8601"),
        ("binary", '{"a": "a"}', "bytes have to be base64"),
        ("string", '{"a": "\\ud800"}', "the characters are not UTF-8"),
        ("string", b'{"a": "\xff"}', "the characters are not UTF-8"),
        ("string", '{"a": "x\n"}', "it is not JSON"),
        ("int", '{"a": 01}', "it is not JSON"),
        ("int", '{"a": 1} {', "something follows after its end"),
        ("int", '{"a": 1', "it ends too early"),
        ("int", "", "it ends too early"),
        ("int", "[1]", "the value is not of the column's type"),
        ("array<int>", '{"a": {}}', "the value is not of the column's type"),
        ("int", '{"b": ' + "[" * 200 + "]" * 200 + "}", "it is nested deeper than 100 levels"),
    ],
)
def test_malformed(ddl: str, text: str | bytes, reason: str) -> None:
    data = text.encode() if isinstance(text, str) else text
    rows, problems = decoder(value_format="json", value_schema=f"a {ddl}")([b'{"a": null}', data, b"{}"])
    assert rows == [{"a": None}, None, {"a": None}]
    assert [one.row for one in problems] == [1]
    assert problems[0].reason.endswith(reason)


def test_a_problem_names_its_field_and_place() -> None:
    _, problems = decoder(value_format="json", value_schema="a struct<b: array<struct<c: int>>>")(
        [b'{"a": {"b": [{"c": 1}, {"c": "x"}]}}']
    )
    assert problems[0].reason == "field 'a.b.element.c', at byte 32: the value is not of the column's type"


def test_what_was_begun_is_taken_back() -> None:
    """A record that fails late leaves nothing in any column."""
    ddl = "a array<string>, b map<string, struct<c: array<int>>>, d struct<e: string, f: decimal(3,1)>"
    good = b'{"a": ["x", "y"], "b": {"k": {"c": [1]}}, "d": {"e": "z", "f": 1.5}}'
    late = b'{"a": ["p", "q"], "b": {"k": {"c": [1, 2]}}, "d": {"e": "zz", "f": 1000}}'
    rows, problems = decoder(value_format="json", value_schema=ddl)([good, late, good, late, None])
    whole = {"a": ["x", "y"], "b": [("k", {"c": [1]})], "d": {"e": "z", "f": Decimal("1.5")}}
    assert rows == [whole, None, whole, None, None]
    assert [one.row for one in problems] == [1, 3]


def test_a_member_of_a_large_struct() -> None:
    names = [f"n{number}" for number in range(500)]
    ddl = ", ".join(f"{name} int" for name in names)
    document = json.dumps({name: number for number, name in enumerate(reversed(names))}).encode()
    rows, problems = decoder(value_format="json", value_schema=ddl)([document])
    assert problems == []
    assert rows[0] == {name: number for number, name in enumerate(reversed(names))}
