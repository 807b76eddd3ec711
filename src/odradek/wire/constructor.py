"""From a declaration to a constructor: every field a keyword with Kafka's default, generated as source."""

from __future__ import annotations

from odradek.wire.fields import UNSET, Field
from odradek.wire.source import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from odradek.wire.structs import Struct


def compile_constructor(cls: type[Struct]) -> None:
    """Generate `__init__` and give it to the class."""
    source = Source({"UNSET": UNSET, "new": object.__new__})
    parameters = []
    source.depth = 1
    for field in cls.FIELDS:
        name = field.name
        if field.default is not UNSET:
            parameters.append(f"{name}={source.constant('default_' + name, field.default)}")
            source.emit(f"self.{name} = {name}")
            continue
        parameters.append(f"{name}=UNSET")
        with source.block(f"if {name} is UNSET:"):
            put_default(source, field, f"self.{name}")
        with source.block("else:"):
            source.emit(f"self.{name} = {name}")
    source.emit("self.unknown_tagged_fields = None")
    star = "*, " if parameters else ""
    source.lines.insert(0, f"def __init__(self, {star}{', '.join(parameters)}):")
    constructor: Any = source.function("__init__", f"<constructor of {cls.__name__}>")
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    constructor.__module__ = cls.__module__
    cls.__init__ = constructor  # type: ignore[method-assign]


def put_default(source: Source, field: Field, target: str) -> None:
    """Emit what gives a field its default: plain values and lists as such, structs built in place.

    In place, because the hot responses have several such structs in every partition, and a call for each
    would cost more than the rest of the partition.

    Args:
        target: what to assign to.
    """
    if field.default is None or isinstance(field.default, bool | int | str):
        source.emit(f"{target} = {field.default!r}")
    elif field.default is not UNSET:
        source.emit(f"{target} = {source.constant('default_' + field.name, field.default)}")
    elif field.kind == "array":
        source.emit(f"{target} = []")
    else:
        assert field.struct is not None
        inner_struct = source.local("made")
        source.emit(f"{inner_struct} = new({source.constant(field.struct.__name__, field.struct)})")
        for inner in field.struct.FIELDS:
            put_default(source, inner, f"{inner_struct}.{inner.name}")
        source.emit(f"{inner_struct}.unknown_tagged_fields = None")
        source.emit(f"{target} = {inner_struct}")
