"""From a declaration to the table by which the compiled codec works (`_codec`).

The table of a struct in one version has a row for each field, in the order in which the codec comes to them:
fields in line, tagged fields, and fields that the version does not have, which get their default.
"""

from __future__ import annotations

from odradek.wire.decoder import min_size
from odradek.wire.fields import UNSET, Field
from odradek.wire.structs import Struct, struct_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from odradek.wire.structs import VersionedStruct

#: The kinds of fields, in the order of the codec's numbers.
KINDS = (
    "bool",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "float64",
    "uuid",
    "string",
    "bytes",
    "records",
    "array",
    "struct",
)
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


def program_of(codec: Any, cls: type[VersionedStruct], version: int) -> Any:
    """Make the `Program` of a message in one version.

    Args:
        codec: the compiled module.
    """
    flexible = cls.is_flexible(version)
    return _Programs(codec, version, flexible).of(cls)


def constructor_of(codec: Any, cls: type[Struct]) -> Any:
    """Make the `Program` that has all fields of a struct, with their defaults."""
    return _Constructors(codec).of(cls)


def has_records(cls: type[Struct], version: int) -> bool:
    """Return whether a field of the struct, or of one within it, is records."""
    return any(_is_of_records(field, version) for field in cls.FIELDS if version in field.versions)


def _is_of_records(field: Field, version: int) -> bool:
    inner = field.element if field.element is not None else field
    return inner.kind == "records" or (inner.struct is not None and has_records(inner.struct, version))


class _Programs:
    """Makes the programs of a message's structs in one version."""

    def __init__(self, codec: Any, version: int, flexible: bool) -> None:
        self._codec = codec
        self._version = version
        self._flexible = flexible

    def of(self, cls: type[Struct]) -> Any:
        """The program of a struct."""
        inline, tagged, absent = struct_fields(cls, self._version, flexible=self._flexible)
        return self._codec.Program(
            cls,
            Struct.__dict__["unknown_tagged_fields"],
            self._flexible,
            tuple(self._row(cls, field, False) for field in inline),
            tuple(self._row(cls, field, True) for field in tagged),
            tuple(self._absent(cls, field) for field in absent),
        )

    def _row(self, cls: type[Struct], field: Field, checked: bool) -> tuple[Any, ...]:
        inner = field.element if field.element is not None else field
        compact = self._flexible and not field.never_compact
        smallest = min_size(inner, self._version, self._flexible) if field.element is not None else 0
        return (
            cls.__dict__[field.name],
            _NUMBERS[field.kind],
            self._version in field.nullable,
            compact,
            -1 if field.tag is None else field.tag,
            smallest,
            _NUMBERS[inner.kind],
            self._flexible and not inner.never_compact,
            None if field.default is UNSET else field.default,
            field.default is not UNSET,
            None if inner.struct is None else self.of(inner.struct),
            checked,
        )

    def _absent(self, cls: type[Struct], field: Field) -> tuple[Any, ...]:
        return _Constructors(self._codec).row(cls, field, checked=not field.ignorable, tag=field.tag)


class _Constructors:
    """Makes programs of which only the defaults are used."""

    def __init__(self, codec: Any) -> None:
        self._codec = codec

    def of(self, cls: type[Struct]) -> Any:
        """The program of a struct."""
        rows = tuple(self.row(cls, field, checked=False) for field in cls.FIELDS)
        return self._codec.Program(cls, Struct.__dict__["unknown_tagged_fields"], False, rows, (), ())

    def row(
        self, cls: type[Struct], field: Field, *, checked: bool, tag: int | None = None
    ) -> tuple[Any, ...]:
        """A field that has its default; `tag` is its number in other versions."""
        kind = _NUMBERS[field.kind]
        inner = None if field.struct is None or field.default is not UNSET else self.of(field.struct)
        has_default = field.default is not UNSET
        default = field.default if has_default else None
        return (
            getattr(cls, field.name),  # of the class itself, or of the message that it extends
            kind,
            False,
            False,
            -1 if tag is None else tag,
            0,
            0,
            False,
            default,
            has_default,
            inner,
            checked,
        )
