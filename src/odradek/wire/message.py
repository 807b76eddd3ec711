"""Structs and messages: what a declaration turns into.

A decorator collects the declared fields of a class, makes the class anew with one slot per field, and leaves
the rest for first use: the constructor, and one encoder and one decoder per version, are generated as source
and compiled when somebody asks for them (`odradek.wire.constructor`, `decoder`, `encoder`).
"""

from __future__ import annotations

from odradek.errors.base import ProtocolError
from odradek.wire.fields import Field
from odradek.wire.versions import parse_versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

    from odradek.wire.api import ApiKey
    from odradek.wire.codec import Codec
    from odradek.wire.primitives import Buffer

    T = TypeVar("T", bound="Struct")
    M = TypeVar("M", bound="Message")
    Decoder = Callable[[Buffer, int], tuple[Any, int]]
    Encoder = Callable[[Any, list[Buffer], list[Buffer] | None], None]
    SteppedDecoder = Callable[[Buffer, int], Generator[None, None, tuple[Any, int]]]
    SteppedEncoder = Callable[[Any, list[Buffer], list[Buffer]], Generator[None, None, None]]
else:  # the typing module alone would cost a fifth of this package's import time

    def dataclass_transform(**_: object) -> Callable[[T], T]:
        """See `typing.dataclass_transform`."""
        return lambda decorator: decorator


class Struct:
    """A structure inside messages: slots, a constructor with keywords and defaults, `==` and `repr`.

    `_unknown_tags` holds the tagged fields that this release does not know, number to content, or None.
    """

    __slots__ = ("_unknown_tags",)
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    _unknown_tags: dict[int, bytes] | None

    def __init__(self, **values: Any) -> None:
        from odradek.wire.codec import set_constructor

        cls = type(self)
        set_constructor(cls)
        made = cls(**values)  # by the one just set
        for field in cls.FIELDS:
            setattr(self, field.name, getattr(made, field.name))
        self._unknown_tags = None

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        for field in self.FIELDS:
            if getattr(self, field.name) != getattr(other, field.name):
                return False
        return (self._unknown_tags or None) == (other._unknown_tags or None)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{field.name}={_shorten(getattr(self, field.name))}" for field in self.FIELDS]
        if self._unknown_tags:
            shown.append(f"_unknown_tags={self._unknown_tags!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Struct):
    """A struct that stands for itself on the wire: a request, a response, a header, or stored data.

    Class attributes: `VERSIONS`, `FLEXIBLE_FROM` (the first version with compact lengths and tagged fields,
    or None), `KIND` ("request", "response", "header", "record-key", "record-value" or "data"), and
    `API_KEY` for requests and responses. `MOST_ELEMENTS` is how many elements of arrays a decoder in steps
    takes; a struct takes twenty times the memory of its bytes.
    """

    __slots__ = ()
    VERSIONS: ClassVar[range] = range(0)
    FLEXIBLE_FROM: ClassVar[int | None] = None
    KIND: ClassVar[str] = ""
    API_KEY: ClassVar[ApiKey]
    MOST_ELEMENTS: ClassVar[int] = 500_000
    _codecs: ClassVar[dict[int, Codec]]
    _decoders_in_steps: ClassVar[dict[int, SteppedDecoder]]
    _encoders_in_steps: ClassVar[dict[int, SteppedEncoder]]

    @classmethod
    def codec(cls, version: int) -> Codec:
        """What decodes and encodes one version. Raises `ValueError` if there is no such version."""
        return cls._codecs[version]

    @classmethod
    def decode(cls, buffer: Buffer, version: int) -> Self:
        """Decode a whole buffer.

        Args:
            buffer: bytes, or anything that slices and indexes like them; fields of records are views into it.
            version: the message's version.

        Raises:
            ProtocolError: the bytes are not such a message, or something is left over.
            ValueError: there is no such version.
        """
        message, end = cls._codecs[version].decode(buffer, 0)
        if end != len(buffer):
            raise ProtocolError(f"{cls.__name__} v{version}: {len(buffer) - end} bytes left over")
        return message  # type: ignore[no-any-return]

    @classmethod
    def decode_from(cls, buffer: Buffer, version: int, offset: int = 0) -> tuple[Self, int]:
        """Decode from a position on.

        Returns:
            The message and the position behind it.

        Raises:
            ProtocolError: the bytes are not such a message.
            ValueError: there is no such version.
        """
        return cls._codecs[version].decode(buffer, offset)

    @classmethod
    def decode_in_steps(
        cls, buffer: Buffer, version: int, offset: int = 0
    ) -> Generator[None, None, tuple[Self, int]]:
        """As `decode_from`, with a pause after every few hundred elements."""
        return cls._decoders_in_steps[version](buffer, offset)

    def encode(self, version: int) -> bytes:
        """Encode into one bytes object.

        Raises:
            InvalidMessageError: a value does not fit its field, or that version cannot carry it.
            ValueError: there is no such version.
        """
        return self._codecs[version].encode(self)

    def encode_parts(self, version: int) -> list[Buffer]:
        """Encode into a list of buffers, in which larger records are the caller's own, not copied.

        Raises:
            InvalidMessageError, ValueError: as `encode`.
        """
        return self._codecs[version].encode_parts(self, b"", -1)

    def encode_behind(self, head: bytes, version: int) -> list[Buffer]:
        """As `encode_parts`, behind a head whose first four bytes are to say how many follow them.

        Raises:
            InvalidMessageError, ValueError: as `encode`.
        """
        return self._codecs[version].encode_parts(self, head, 0)

    def encode_in_steps(self, version: int) -> Generator[None, None, list[Buffer]]:
        """As `encode_parts`, with a pause after every few hundred elements; nothing may change meanwhile."""
        out: list[Buffer] = []
        parts: list[Buffer] = []
        yield from self._encoders_in_steps[version](self, out, parts)
        if out:
            parts.append(b"".join(out))
        return parts

    def to_json(self, version: int) -> dict[str, Any]:
        """The message in Kafka's JSON form.

        Raises:
            InvalidMessageError: that version cannot carry a value that is set.
        """
        from odradek.wire.jsonform import to_json

        return to_json(self, version)

    @classmethod
    def from_json(cls, document: dict[str, Any], version: int) -> Self:
        """Read Kafka's JSON form.

        Raises:
            InvalidMessageError: a field is missing, unknown, or of the wrong type.
        """
        from odradek.wire.jsonform import from_json

        return from_json(cls, document, version)


class Data(Message):
    """What is stored in topics or carried inside other messages, with two bytes in front that say what it is.

    For most it is the version; for keys in the coordinators' topics it is the record's type (`RECORD_TYPE`).
    """

    __slots__ = ()
    RECORD_TYPE: ClassVar[int | None] = None

    def encode_prefixed(self, version: int) -> bytes:
        """Encode with the two bytes in front.

        Raises:
            InvalidMessageError, ValueError: as `encode`.
        """
        prefix = version if self.RECORD_TYPE is None else self.RECORD_TYPE
        return prefix.to_bytes(2, "big", signed=True) + self.encode(version)

    @classmethod
    def decode_prefixed(cls, buffer: Buffer) -> Self:
        """Decode what `encode_prefixed` made.

        Raises:
            ProtocolError: another record type, a version that this release does not know, or no such message.
        """
        if len(buffer) < 2:
            raise ProtocolError(f"{cls.__name__}: too short for its version")
        prefix = int.from_bytes(buffer[:2], "big", signed=True)
        if cls.RECORD_TYPE is not None:
            if prefix != cls.RECORD_TYPE:
                raise ProtocolError(f"{cls.__name__}: record type {prefix} instead of {cls.RECORD_TYPE}")
            prefix = cls.VERSIONS[-1]
        if prefix not in cls.VERSIONS:
            raise ProtocolError(f"{cls.__name__}: version {prefix} is not known")
        message, end = cls._codecs[prefix].decode(buffer, 2)
        if end != len(buffer):
            raise ProtocolError(f"{cls.__name__} v{prefix}: {len(buffer) - end} bytes left over")
        return message  # type: ignore[no-any-return]


class _PerVersion(dict[int, "Any"]):
    """What a message has for each version, made when first asked for."""

    __slots__ = ("_cls", "_make")

    def __init__(self, cls: type[Message], make: Callable[[type[Message], int], Any]) -> None:
        self._cls = cls
        self._make = make

    def __missing__(self, version: int) -> Any:
        cls = self._cls
        if version not in cls.VERSIONS:
            known = f"{cls.VERSIONS[0]} to {cls.VERSIONS[-1]}" if cls.VERSIONS else "none"
            raise ValueError(f"{cls.__name__} has no version {version} (known: {known})")
        made = self[version] = self._make(cls, version)
        return made


def _codec_of(cls: type[Message], version: int) -> Codec:
    from odradek.wire.codec import codec_of

    return codec_of(cls, version)


def _decoder_in_steps(cls: type[Message], version: int) -> SteppedDecoder:
    from odradek.wire.decoder import compile_decoder_in_steps

    return compile_decoder_in_steps(cls, version)


def _encoder_in_steps(cls: type[Message], version: int) -> SteppedEncoder:
    from odradek.wire.encoder import compile_encoder_in_steps

    return compile_encoder_in_steps(cls, version)


def _slotted(cls: type[T], **attributes: Any) -> type[T]:
    """Make the class again, with its declared fields as slots."""
    namespace = dict(cls.__dict__)
    fields = []
    for name in cls.__annotations__:
        field = namespace.pop(name, None)
        if isinstance(field, Field):
            field.bind(name)
            fields.append(field)
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace["__slots__"] = tuple(field.name for field in fields)
    namespace["FIELDS"] = tuple(fields)
    namespace.update(attributes)
    made: Any = type(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    result: type[T] = made
    return result


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Declare a struct: a subclass of `Struct` whose annotated attributes are fields."""
    return _slotted(cls)


def _message(cls: type[M], kind: str, versions: str, flexible: str, **attributes: Any) -> type[M]:
    valid = parse_versions(versions)
    made = _slotted(
        cls,
        VERSIONS=range(valid.lowest, valid.highest + 1),
        FLEXIBLE_FROM=parse_versions(flexible).lowest if flexible != "none" else None,
        KIND=kind,
        **attributes,
    )
    made._codecs = _PerVersion(made, _codec_of)
    made._decoders_in_steps = _PerVersion(made, _decoder_in_steps)
    made._encoders_in_steps = _PerVersion(made, _encoder_in_steps)
    return made


@dataclass_transform(kw_only_default=True)
def request(key: ApiKey, versions: str, flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Declare a request.

    Args:
        key: the API key.
        versions: those that exist (``"0-13"``).
        flexible: those with compact lengths and tagged fields (``"9+"``).
    """
    return lambda cls: _message(cls, "request", versions, flexible, API_KEY=key)


@dataclass_transform(kw_only_default=True)
def response(key: ApiKey, versions: str, flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Declare a response; as `request`."""
    return lambda cls: _message(cls, "response", versions, flexible, API_KEY=key)


@dataclass_transform(kw_only_default=True)
def header(versions: str, flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Declare a header; as `request`."""
    return lambda cls: _message(cls, "header", versions, flexible)


@dataclass_transform(kw_only_default=True)
def record_key(
    record_type: int | None, versions: str = "0", flexible: str = "none"
) -> Callable[[type[M]], type[M]]:
    """Declare the key of a record in an internal topic.

    Args:
        record_type: what stands in front of it; None if that is its version.
        versions, flexible: as `request`.
    """
    return lambda cls: _message(cls, "record-key", versions, flexible, RECORD_TYPE=record_type)


@dataclass_transform(kw_only_default=True)
def record_value(versions: str, flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Declare the value of a record in an internal topic; as `request`."""
    return lambda cls: _message(cls, "record-value", versions, flexible)


@dataclass_transform(kw_only_default=True)
def data(versions: str, flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Declare data that is carried inside records or other messages; as `request`."""
    return lambda cls: _message(cls, "data", versions, flexible)


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:180]}… ({len(text)} characters)"


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
    tagged.sort(key=lambda field: field.tag or 0)
    return inline, tagged, absent
