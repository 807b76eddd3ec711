"""Records through both decoders, the compiled one and its twin: they have to say the same."""

from __future__ import annotations

import datetime
import importlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from odradek.spark.formats import decoding, kernels
from odradek.spark.formats.columns import TypedSide, typed_read
from odradek.spark.formats.decoding import Problem
from odradek.spark.option_values import Given

PARTS = ("tree", "json", "avro", "protobuf")
EPOCH = datetime.date(1970, 1, 1)


def _modules(native: bool) -> dict[str, ModuleType] | None:
    found = {}
    for part in PARTS:
        name = f"odradek.spark.formats.{'_' if native else '_py'}{part}"
        try:
            found[f"{part}_kernel"] = importlib.import_module(name)
        except ImportError:
            return None
    return found


KERNELS = [one for one in (_modules(True), _modules(False)) if one is not None]


@contextmanager
def _using(modules: dict[str, ModuleType]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for where in (decoding, kernels):
            for name, module in modules.items():
                patch.setattr(where, name, module, raising=False)
        yield


def decode(side: TypedSide, records: Sequence[bytes | None]) -> tuple[list[Any], list[Problem]]:
    """What both decoders make of the records: rows, and the malformed ones."""
    answers = []
    array = pa.array([b"before", *records, b"after"], pa.binary()).slice(1, len(records))
    for modules in KERNELS:
        with _using(modules):
            rows, problems = decoding.make_decoder(side).decode(array)
        rows.validate(full=True)
        assert len(rows) == len(records)
        answers.append((_plain(rows), [(one.row, _without_place(one.reason)) for one in problems], problems))
    first = answers[0]
    for other in answers[1:]:
        assert repr(other[0]) == repr(first[0])
        assert other[1] == first[1]
    return first[0], first[2]


def _day(days: int | None) -> datetime.date | int | None:
    """A day by its number since 1970; beyond the years that Python's dates have, the number."""
    try:
        return None if days is None else EPOCH + datetime.timedelta(days=days)
    except OverflowError:
        return days


def _plain(array: pa.Array) -> list[Any]:
    """Values of Python's; a timestamp as its microseconds."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
            return pa.int64()
        return kind

    if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        return array.cast(plain(array.type)).to_pylist()
    if pa.types.is_date32(array.type):
        return [_day(days) for days in array.cast(pa.int32()).to_pylist()]
    if pa.types.is_struct(array.type):
        below = [_plain(array.field(number)) for number in range(array.type.num_fields)]
        names = [array.type.field(number).name for number in range(array.type.num_fields)]
        return [
            dict(zip(names, [column[row] for column in below], strict=True)) if array[row].is_valid else None
            for row in range(len(array))
        ]
    if pa.types.is_list(array.type) or pa.types.is_map(array.type):
        if pa.types.is_map(array.type):
            keys, values = _plain(array.keys), _plain(array.items)
            inside: list[Any] = list(zip(keys, values, strict=True))
        else:
            inside = _plain(array.flatten() if array.null_count == 0 else array.values)
        ends = array.offsets.to_pylist()
        return [
            inside[begin:end] if array[row].is_valid else None
            for row, (begin, end) in enumerate(itertools.pairwise(ends))
        ]
    return array.to_pylist()


def _without_place(reason: str) -> str:
    """The twins agree on what is wrong; on the byte where that shows they need not."""
    return reason.rpartition(": ")[2]


def side(**options: Any) -> TypedSide:
    """The value's side of a read with these options, whose dots are underscores."""
    given = {"subscribe": "t", **{name.replace("_", "."): value for name, value in options.items()}}
    read = typed_read(Given(given))
    assert read is not None
    return read.sides[0]


def decoder(**options: Any) -> Callable[[Sequence[bytes | None]], tuple[list[Any], list[Problem]]]:
    """`decode` with the options of a read."""
    made = side(**options)
    return lambda records: decode(made, records)
