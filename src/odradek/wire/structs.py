"""Structs: what encoders, decoders and constructors are made for.

`odradek.wire.message` declares them and gives a message its codecs.
"""

from __future__ import annotations

from odradek.wire.fields import Field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class Struct:
    """A structure: slots, a constructor with keywords and defaults, `==` and `repr`.

    `unknown_tagged_fields` holds tagged fields that this release does not know, number to content, or None.
    """

    __slots__ = ("unknown_tagged_fields",)
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    unknown_tagged_fields: dict[int, bytes] | None

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        for field in self.FIELDS:
            if getattr(self, field.name) != getattr(other, field.name):
                return False
        return (self.unknown_tagged_fields or None) == (other.unknown_tagged_fields or None)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{field.name}={_shorten(getattr(self, field.name))}" for field in self.FIELDS]
        if self.unknown_tagged_fields:
            shown.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


class VersionedStruct(Struct):
    """A struct that stands for itself on the wire, in versions of its own; all of them are `Message`s.

    Class attributes: `VERSIONS`; `FLEXIBLE_FROM`: the first version with compact lengths and tagged fields
    (KIP-482), or None; `MOST_ELEMENTS`: how many elements of arrays a decoder in steps takes, as a struct
    takes twenty times the memory of its bytes.
    """

    __slots__ = ()
    VERSIONS: ClassVar[range] = range(0)
    FLEXIBLE_FROM: ClassVar[int | None] = None
    MOST_ELEMENTS: ClassVar[int] = 500_000

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Return whether a version has compact lengths and tagged fields."""
        return cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM


def struct_fields(
    cls: type[Struct], version: int, *, flexible: bool
) -> tuple[list[Field], list[Field], list[Field]]:
    """Sort a struct's fields for one version.

    Returns:
        The fields in line, the tagged ones (by tag), and those that the version does not have.
    """
    inline, tagged, absent = [], [], []
    for field in cls.FIELDS:
        if version not in field.versions:
            absent.append(field)
        elif flexible and version in field.tagged:
            tagged.append(field)
        else:
            inline.append(field)
    # In line they stand as they are declared, tagged ones in the order of their numbers (KIP-482).
    tagged.sort(key=lambda field: field.tag or 0)
    return inline, tagged, absent


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:180]}… ({len(text)} characters)"
