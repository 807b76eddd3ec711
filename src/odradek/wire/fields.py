"""The words in which a message's fields are declared.

Each function below stands on the right of an annotated attribute and says what the attribute is on the
wire, in which versions, and what it is when left out::

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    topic_data: list[TopicProduceData] = array(TopicProduceData)

What all of them take:

* `versions`: the versions in which the field exists (``"0+"``, ``"3-7"``); all of the message's if left out.
* `nullable`: the versions in which null is allowed.
* `default`: what the field is when a version lacks it or a constructor is not given it; the type's zero
  (0, False, "", b"", [], a struct of defaults) if left out.
* `ignorable`: a value other than the default may be dropped in a version without the field, instead of being
  an error.
* `tag`, `tagged`: the field stands among the tagged fields (KIP-482), under that number, in those versions
  (all of `versions`, if left out).
* `json`: the name in Kafka's JSON form, where it is not the attribute's name in camelCase.

The functions return `Any` so that type checkers take the annotation's word; the decorators of
`odradek.wire.message` collect what they made.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    #: A set of records: a memoryview of the received frame when it was decoded; when it is to be encoded,
    #: any buffer or a list of buffers. None where null is allowed.
    Records: TypeAlias = Any
else:
    Records = object

#: Stands for "no upper end" in a range.
OPEN_END = 0x7FFF


class Versions:
    """An inclusive range of versions, empty when `lowest` is above `highest`.

    As they are written in declarations: ``"0+"``, ``"3-7"``, ``"4"``, ``"none"``.
    """

    __slots__ = ("highest", "lowest")

    def __init__(self, lowest: int, highest: int) -> None:
        self.lowest = lowest
        self.highest = highest

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __repr__(self) -> str:
        if not self:
            return "none"
        if self.highest == OPEN_END:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NO_VERSIONS = Versions(0, -1)
ALL_VERSIONS = Versions(0, OPEN_END)
_parsed: dict[str, Versions] = {"none": NO_VERSIONS, "0+": ALL_VERSIONS}


def parse_versions(text: str) -> Versions:
    """Read a range.

    Args:
        text: ``"3+"``, ``"3-7"``, ``"3"`` or ``"none"``.

    Raises:
        ValueError: the text is none of these.
    """
    versions = _parsed.get(text)
    if versions is not None:
        return versions
    low, dash, high = text.partition("-")
    if dash:
        result = Versions(int(low), int(high))
    elif text.endswith("+"):
        result = Versions(int(text[:-1]), OPEN_END)
    else:
        result = Versions(int(text), int(text))
    _parsed[text] = result
    return result


#: Kinds of fixed size: the `struct` format character and the size in bytes.
FIXED: dict[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}

_ZERO: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), 0),
    "bool": False,
    "float64": 0.0,
    "uuid": bytes(16),
    "string": "",
    "bytes": b"",
    "records": None,
}


class _Unset:
    """The type of `UNSET`."""

    def __repr__(self) -> str:
        return "…"


#: "Not given": the mark for constructor arguments left out and defaults not declared.
UNSET: Any = _Unset()


class Field:
    """One declared field (or, inside an array, its element).

    Attributes:
        name: the Python attribute; `json_name`: Kafka's camelCase name.
        kind: a key of `FIXED`, or "string", "bytes", "records", "array", "struct".
        element: for arrays, what they are of; `struct`: for structs, the class.
        versions, nullable, tagged: version ranges; `tag`: the tag's number or None.
        default: the plain default; UNSET for arrays and structs, whose default is a fresh object.
    """

    __slots__ = (
        "default",
        "element",
        "ignorable",
        "json_name",
        "kind",
        "name",
        "never_compact",
        "nullable",
        "struct",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self,
        kind: str,
        versions: Versions = ALL_VERSIONS,
        *,
        nullable: Versions = NO_VERSIONS,
        default: Any = UNSET,
        ignorable: bool = False,
        tag: int | None = None,
        tagged: Versions = NO_VERSIONS,
        json_name: str = "",
        element: Field | None = None,
        struct: type[Any] | None = None,
        never_compact: bool = False,
    ) -> None:
        self.name = ""
        self.json_name = json_name
        self.kind = kind
        self.versions = versions
        self.nullable = nullable
        self.tag = tag
        self.tagged = tagged
        self.default = _ZERO.get(kind, UNSET) if default is UNSET else default
        self.ignorable = ignorable
        self.element = element
        self.struct = struct
        self.never_compact = never_compact

    def bind(self, name: str) -> None:
        """Take the attribute's name."""
        self.name = name
        if not self.json_name:
            head, *tail = name.split("_")
            self.json_name = head + "".join(word.capitalize() for word in tail)

    def is_default(self, value: Any) -> bool:
        """Return whether a value is the default, which is taken for granted."""
        if self.default is not UNSET:
            return bool(value == self.default) and (value is None) == (self.default is None)
        if self.kind == "struct":
            assert self.struct is not None
            return bool(value == self.struct())
        return value is not None and len(value) == 0

    def __repr__(self) -> str:
        return f"<field {self.name}: {self.kind} {self.versions}>"


def _declare(
    kind: str,
    versions: str,
    nullable: str,
    default: Any,
    ignorable: bool,
    tag: int | None,
    tagged: str,
    json: str,
    **extra: Any,
) -> Field:
    exists = parse_versions(versions)
    in_tags = NO_VERSIONS if tag is None else parse_versions(tagged) if tagged else exists
    return Field(
        kind,
        exists,
        nullable=parse_versions(nullable),
        default=default,
        ignorable=ignorable,
        tag=tag,
        tagged=in_tags,
        json_name=json,
        **extra,
    )


def _fixed(kind: str) -> Callable[..., Any]:
    def declare(
        versions: str = "0+",
        *,
        default: Any = UNSET,
        ignorable: bool = False,
        tag: int | None = None,
        tagged: str = "",
        json: str = "",
    ) -> Any:
        return _declare(kind, versions, "none", default, ignorable, tag, tagged, json)

    declare.__name__ = declare.__qualname__ = kind
    declare.__doc__ = f"A field of type {kind}."
    _KINDS[declare] = kind
    return declare


def _sized(kind: str) -> Callable[..., Any]:
    def declare(
        versions: str = "0+",
        *,
        nullable: str = "none",
        default: Any = UNSET,
        ignorable: bool = False,
        tag: int | None = None,
        tagged: str = "",
        json: str = "",
        never_compact: bool = False,
    ) -> Any:
        return _declare(
            kind, versions, nullable, default, ignorable, tag, tagged, json, never_compact=never_compact
        )

    declare.__name__ = declare.__qualname__ = kind
    declare.__doc__ = f"A field of type {kind}; `never_compact`: its length is never a varint."
    _KINDS[declare] = kind
    return declare


_KINDS: dict[Callable[..., Any], str] = {}

boolean = _fixed("bool")
int8 = _fixed("int8")
int16 = _fixed("int16")
uint16 = _fixed("uint16")
int32 = _fixed("int32")
uint32 = _fixed("uint32")
int64 = _fixed("int64")
float64 = _fixed("float64")
uuid = _fixed("uuid")
string = _sized("string")
blob = _sized("bytes")
records = _sized("records")


def array(
    of: Any,
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = UNSET,
    ignorable: bool = False,
    tag: int | None = None,
    tagged: str = "",
    json: str = "",
) -> Any:
    """An array.

    Args:
        of: a struct class, or one of this module's functions (`array(int32)`).
    """
    kind = _KINDS.get(of)
    element = Field(kind) if kind is not None else Field("struct", struct=of)
    return _declare("array", versions, nullable, default, ignorable, tag, tagged, json, element=element)


def nested(
    of: type[Any],
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = UNSET,
    ignorable: bool = False,
    tag: int | None = None,
    tagged: str = "",
    json: str = "",
) -> Any:
    """A single struct in place (not an array of them).

    Args:
        of: the struct's class.
    """
    return _declare("struct", versions, nullable, default, ignorable, tag, tagged, json, struct=of)
