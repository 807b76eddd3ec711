"""Protocol buffers into columns: against protobuf's own library, and the compiled decoder with its twin."""

# ruff: noqa: E402 (what is absent skips the file first)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf")
protoc = pytest.importorskip("grpc_tools.protoc")

from google.protobuf import message_factory
from hypothesis import given
from hypothesis import strategies as st

from odradek.serdes.errors import SchemaError
from odradek.serdes.protobuf_files import Messages, files_of_set

from .decoded import decode, side

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
enum Colour { NONE = 0; RED = 1; BLUE = 7; }
message Inner { int32 x = 1; optional string y = 2; }
message Order {
  int32 a = 1; int64 b = 2; uint32 c = 3; uint64 d = 4; sint32 e = 5; sint64 f = 6; bool g = 7; Colour h = 8;
  fixed32 i = 9; sfixed32 j = 10; float k = 11; fixed64 l = 12; sfixed64 m = 13; double n = 14;
  string o = 15; bytes p = 16; Inner q = 17; google.protobuf.Timestamp r = 18; google.protobuf.Duration s =
  19; repeated int32 t = 20; repeated string u = 21; repeated Inner v = 22; map<string, int64> w = 23;
  map<int32, Inner> x = 24; optional int32 y = 25; oneof choice { string z1 = 26; Inner z2 = 27; int32 z3 =
  28; } repeated Colour colours = 29; repeated double reals = 30 [packed = false];
}
message Second { message Nested { string only = 1; } int32 a = 1; }
"""
OLD = """
syntax = "proto2";
package old;
enum Kind { FIRST = 3; OTHER = 4; }
message Old { required int32 a = 1; optional Kind k = 2 [default = OTHER]; repeated Kind ks = 3; optional
int32 d = 4 [default = 9]; } message Loop { optional Loop next = 1; optional int32 v = 2; }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("proto")
    include = Path(protoc.__file__).parent / "_proto"
    for name, text in (("shop", PROTO), ("old", OLD)):
        (path / f"{name}.proto").write_text(text, encoding="utf-8")
        assert not protoc.main(
            [
                "protoc",
                f"-I{path}",
                f"-I{include}",
                "--include_imports",
                f"--descriptor_set_out={path}/{name}.desc",
                f"{name}.proto",
            ]
        )
    return path


class Type:
    """A message type: its class, and the decoders of its records."""

    def __init__(self, folder: Path, file: str, name: str, columns: str | None = None) -> None:
        path = folder / f"{file}.desc"
        self.make = message_factory.GetMessageClass(Messages(files_of_set(path.read_bytes())).named(name))
        chosen = {} if columns is None else {"columns": columns}
        self._side = side(
            value_format="protobuf", value_schema=str(path), value_schema_message=name, **chosen
        )

    def read(self, *data: bytes) -> tuple[list[Any], list[Any]]:
        return decode(self._side, data)


@pytest.fixture(scope="module")
def order(folder: Path) -> Type:
    return Type(folder, "shop", "Order")


INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT32 = st.integers(0, 2**32 - 1)
UINT64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
INNER = st.fixed_dictionaries({}, optional={"x": INT32, "y": TEXT})
FIELDS = {
    "a": INT32, "b": INT64, "c": UINT32, "d": UINT64, "e": INT32, "f": INT64, "g": st.booleans(),
    "h": st.sampled_from([0, 1, 7, 12, -4]), "i": UINT32, "j": INT32,
    "k": st.floats(width=32, allow_nan=False),
    "l": UINT64, "m": INT64, "n": st.floats(allow_nan=False), "o": TEXT, "p": st.binary(max_size=10),
    "q": INNER,
    "t": st.lists(INT32, max_size=4), "u": st.lists(TEXT, max_size=3), "v": st.lists(INNER, max_size=3),
    "w": st.dictionaries(TEXT, INT64, max_size=1), "x": st.dictionaries(INT32, INNER, max_size=1), "y": INT32,
    "colours": st.lists(st.sampled_from([0, 1, 7, 99]), max_size=3),
    "reals": st.lists(st.floats(allow_nan=False), max_size=3),
}  # fmt: skip
NAMES = {0: "NONE", 1: "RED", 7: "BLUE"}


def inner(value: dict[str, Any]) -> dict[str, Any]:
    return {"x": value.get("x", 0), "y": value.get("y")}


def expected(value: dict[str, Any]) -> dict[str, Any]:
    zero: dict[str, Any] = dict.fromkeys("abcdefijlm", 0)
    found = {**zero, "g": False, "k": 0.0, "n": 0.0, "o": "", "p": b"", "y": None, **value}
    found["h"] = NAMES.get(value.get("h", 0), str(value.get("h", 0)))
    found["q"] = inner(value["q"]) if "q" in value else None
    for name in ("t", "u", "reals"):
        found[name] = value.get(name, [])
    found["v"] = [inner(one) for one in value.get("v", [])]
    found["w"] = list(value.get("w", {}).items())
    found["x"] = [(key, inner(one)) for key, one in value.get("x", {}).items()]
    found["colours"] = [NAMES.get(one, str(one)) for one in value.get("colours", [])]
    return found


@pytest.mark.fuzz
@given(value=st.fixed_dictionaries({}, optional=FIELDS))
def test_what_protobuf_writes_is_read(order: Type, value: dict[str, Any]) -> None:
    message = order.make(**{name: one for name, one in value.items() if name not in ("x", "q")})
    if "q" in value:
        message.q.SetInParent()
        message.q.MergeFrom(type(message.q)(**value["q"]))
    for key, one in value.get("x", {}).items():
        message.x[key].MergeFrom(type(message.x[key])(**one))
    rows, problems = order.read(message.SerializeToString())
    assert problems == []
    found = expected(value)
    assert {name: rows[0][name] for name in found} == found


def test_times_and_choices(order: Type) -> None:
    message = order.make(z3=5)
    message.r.FromMicroseconds(-1_500_001)
    message.s.FromMicroseconds(-1_500_001)
    rows, problems = order.read(message.SerializeToString(), order.make(z2={"x": 1}).SerializeToString())
    assert problems == []
    assert {name: rows[0][name] for name in ("r", "s", "z1", "z2", "z3")} == {
        "r": -1_500_001, "s": -1_500_001, "z1": None, "z2": None, "z3": 5
    }  # fmt: skip
    assert (rows[1]["z2"], rows[1]["z3"]) == ({"x": 1, "y": None}, None)


@pytest.mark.fuzz
@given(st.lists(st.fixed_dictionaries({}, optional=FIELDS), min_size=2, max_size=3), st.data())
def test_messages_one_behind_the_other_are_merged(order: Type, values: list[Any], data: Any) -> None:
    """Protobuf's own library says what two messages in a row are."""
    choices = [{"z1": "one"}, {"z2": {"x": 3}}, {"z2": {"y": "t"}}, {"z3": 8}, {}]
    parts = []
    for value in values:
        value = {name: one for name, one in value.items() if name not in ("x", "w")}
        parts.append(order.make(**value, **data.draw(st.sampled_from(choices))).SerializeToString())
    together = b"".join(parts)
    # The same in one piece: the library has merged it.
    once = order.make.FromString(together).SerializeToString()
    assert order.read(together) == order.read(once)


@pytest.mark.fuzz
@given(data=st.binary(max_size=40))
def test_any_bytes(order: Type, data: bytes) -> None:
    """A row or a problem, and the twins agree; what is a row the library reads too."""
    rows, problems = order.read(data)
    if not problems:
        order.make.FromString(data)
    assert (rows[0] is None) == bool(problems)


@pytest.mark.fuzz
@given(at=st.integers(0, 200), instead=st.binary(max_size=3), width=st.integers(0, 3))
def test_damaged_messages(order: Type, at: int, instead: bytes, width: int) -> None:
    good = order.make(
        a=1, o="text", q={"x": 2}, t=[1, 2, 300], u=["p", "q"], v=[{"y": "z"}], w={"k": 1}, colours=[1, 7]
    ).SerializeToString()
    at %= len(good)
    rows, problems = order.read(good[:at] + instead + good[at + width :], good)
    assert rows[1]["o"] == "text"
    assert {one.row for one in problems} <= {0}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x08", "it ends too early"),
        (b"\x7a\x05ab", "it ends too early"),
        (b"\x7a\x01\xff", "the characters are not UTF-8"),
        (b"\x00", "a field's number or wire type is wrong"),
        (b"\x0f", "a field's number or wire type is wrong"),
        (b"\x08" + b"\xff" * 10, "it has another length than the type"),
        (b"\xfb\x01" * 200, "it is nested deeper than 100 levels"),
    ],
)
def test_malformed(order: Type, data: bytes, reason: str) -> None:
    rows, problems = order.read(data)
    assert rows == [None]
    assert problems[0].reason.endswith(reason)


def test_proto2(folder: Path) -> None:
    old = Type(folder, "old", "Old")
    rows, problems = old.read(
        b"\x08\x05",
        b"",
        old.make(a=1, k=3, ks=[3, 4]).SerializeToString(),
        b"\x08\x01\x10\x63\x18\x63\x18\x03\x10\x04\x10\x62",
    )
    assert rows == [
        {"a": 5, "k": None, "ks": [], "d": None},
        None,
        {"a": 1, "k": "FIRST", "ks": ["FIRST", "OTHER"], "d": None},
        {"a": 1, "k": "OTHER", "ks": ["FIRST"], "d": None},
    ]
    assert [one.reason for one in problems] == ["field 'a', at byte 0: a required field is missing"]


def test_a_message_that_contains_itself(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"'old.Loop' contains itself, .* name the ones that you want"):
        Type(folder, "old", "Loop")
    loop = Type(folder, "old", "old.Loop", columns="value.v")
    data = loop.make(v=3, next=loop.make(v=4)).SerializeToString()
    assert loop.read(data) == ([{"v": 3}], [])


@pytest.mark.parametrize("indexes", [[-1], [0, -1], [99], [0, 2**70]])
def test_indexes_that_no_message_has(folder: Path, indexes: list[int]) -> None:
    messages = Messages(files_of_set((folder / "shop.desc").read_bytes()))
    with pytest.raises(SchemaError, match="no message at the indexes"):
        messages.at(indexes)


def test_wrong_names_and_files(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no message type 'Nothing'; there are: shop.Inner, shop.Order"):
        Type(folder, "shop", "Nothing")
    (tmp_path / "bad.desc").write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match=r"value.schema: not a protobuf descriptor set"):
        side(value_format="protobuf", value_schema=str(tmp_path / "bad.desc"), value_schema_message="x")
    with pytest.raises(ValueError, match=r"value.schema must be the path of a protobuf descriptor file"):
        side(value_format="protobuf", value_schema="/no/such/file", value_schema_message="x")
    with pytest.raises(ValueError, match=r"value.schema.message must name the message type"):
        side(value_format="protobuf", value_schema=str(folder / "shop.desc"))
