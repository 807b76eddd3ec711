"""Messages: what a declaration turns into.

A decorator collects the declared fields of a class, makes the class anew with one slot per field, and leaves
the rest for first use: the constructor, and one encoder and one decoder per version, are generated as source
and compiled when somebody asks for them (`odradek.wire.constructor`, `decoder`, `encoder`).
"""

from __future__ import annotations

import sys

from odradek.errors.base import ProtocolError
from odradek.wire.fields import Field, parse_versions
from odradek.wire.structs import Struct, VersionedStruct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

    from odradek.wire.api import ApiKey
    from odradek.wire.codec import Codec
    from odradek.wire.decoder import SteppedDecoder
    from odradek.wire.encoder import SteppedEncoder
    from odradek.wire.primitives import Buffer

    T = TypeVar("T", bound="Struct")
    M = TypeVar("M", bound="Message")
else:  # the typing module alone would cost a fifth of this package's import time

    def dataclass_transform(**_: object) -> Callable[[T], T]:
        """See `typing.dataclass_transform`."""
        return lambda decorator: decorator


#: What declarations are written with.
__all__ = [
    "Data",
    "Message",
    "Struct",
    "data",
    "header",
    "record_key",
    "record_value",
    "request",
    "response",
    "struct",
]


class Message(VersionedStruct):
    """A struct that stands for itself on the wire: a request, a response, a header, or stored data.

    Class attributes: those of `VersionedStruct`; `KIND` ("request", "response", "header", "record-key",
    "record-value" or "data"); `API_KEY` of requests and responses.
    """

    __slots__ = ()
    KIND: ClassVar[str] = ""
    API_KEY: ClassVar[ApiKey]
    _codecs: ClassVar[dict[int, Codec]]
    _decoders_in_steps: ClassVar[dict[int, SteppedDecoder]]
    _encoders_in_steps: ClassVar[dict[int, SteppedEncoder]]

    @classmethod
    def codec(cls, version: int) -> Codec:
        """Return what decodes and encodes one version.

        Raises:
            ValueError: there is no such version.
        """
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
        # What is left over was written by somebody who means another version.
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
    def decode_received(
        cls, buffer: Buffer, version: int, offset: int = 0, most_elements: int = sys.maxsize
    ) -> tuple[Self, int]:
        """As `decode_from` for what a peer has sent: tagged fields that nobody here knows are passed over.

        Args:
            buffer, version, offset: as `decode_from`.
            most_elements: how many elements of arrays and unknown tagged fields it may have.

        Raises:
            ProtocolError: as `decode_from`, or it has more.
            ValueError: there is no such version.
        """
        decoded = cls._codecs[version].decode_within(buffer, offset, most_elements)
        if decoded is None:
            raise ProtocolError(
                f"{cls.__name__} v{version}: more than {most_elements} elements and unknown tagged fields"
            )
        return decoded

    @classmethod
    def decode_in_steps(
        cls, buffer: Buffer, version: int, offset: int = 0
    ) -> Generator[None, None, tuple[Self, int]]:
        """As `decode_received`, with a pause after every few hundred elements.

        More than `MOST_ELEMENTS` are refused.
        """
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
    """A message that is stored in topics or carried inside others, with two bytes in front that say what it
    is.

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
            # The type takes the place of a version, so such keys are of the one layout that there is.
            prefix = cls.VERSIONS[-1]
        if prefix not in cls.VERSIONS:
            raise ProtocolError(f"{cls.__name__}: version {prefix} is not known")
        message, end = cls._codecs[prefix].decode(buffer, 2)
        if end != len(buffer):
            raise ProtocolError(f"{cls.__name__} v{prefix}: {len(buffer) - end} bytes left over")
        return message  # type: ignore[no-any-return]


class _PerVersion(dict[int, "Any"]):
    """The codecs of a message for each version, made when first asked for."""

    __slots__ = ("_cls", "_make")

    def __init__(self, cls: type[Message], make: Callable[[type[Message], int], Any]) -> None:
        self._cls = cls
        self._make = make

    def __missing__(self, version: int) -> Any:
        cls = self._cls
        if version not in cls.VERSIONS:
            versions = f"{cls.VERSIONS[0]} to {cls.VERSIONS[-1]}" if cls.VERSIONS else "none"
            raise ValueError(f"{cls.__name__} has no version {version} (known: {versions})")
        # Not at import: a process uses few messages, and of these one or two versions.
        codec = self[version] = self._make(cls, version)
        return codec


def _codec_of(cls: type[Message], version: int) -> Codec:
    from odradek.wire.codec import codec_of

    return codec_of(cls, version)


def _decoder_in_steps(cls: type[Message], version: int) -> SteppedDecoder:
    from odradek.wire.decoder import compile_decoder_in_steps

    return compile_decoder_in_steps(cls, version)


def _encoder_in_steps(cls: type[Message], version: int) -> SteppedEncoder:
    from odradek.wire.encoder import compile_encoder_in_steps

    return compile_encoder_in_steps(cls, version)


def _construct_first(self: Struct, **values: Any) -> None:
    """Make the class's constructor, and construct the first object with it."""
    from odradek.wire.codec import set_constructor

    cls = type(self)
    # Made on first use: most of a program's messages are never constructed, and generating them all at import
    # would cost each start.
    set_constructor(cls)
    first = cls(**values)  # by the one just set
    for field in cls.FIELDS:
        setattr(self, field.name, getattr(first, field.name))
    self.unknown_tagged_fields = None


def _slotted(cls: type[T], **attributes: Any) -> type[T]:
    """Make the class again, with its declared fields as slots."""
    namespace = dict(cls.__dict__)
    fields = []
    for name in cls.__annotations__:
        field = namespace.pop(name, None)
        if isinstance(field, Field):
            field.bind(name)
            fields.append(field)
    # Descriptors of the class as it was: the new one, which has slots, has neither.
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace["__slots__"] = tuple(field.name for field in fields)
    namespace["FIELDS"] = tuple(fields)
    namespace["__init__"] = _construct_first
    namespace.update(attributes)
    slotted: Any = type(cls.__name__, cls.__bases__, namespace)
    slotted.__qualname__ = cls.__qualname__
    result: type[T] = slotted
    return result


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Declare a struct: a subclass of `Struct` whose annotated attributes are fields."""
    return _slotted(cls)


def _message(cls: type[M], kind: str, versions: str, flexible: str, **attributes: Any) -> type[M]:
    valid = parse_versions(versions)
    message_class = _slotted(
        cls,
        VERSIONS=range(valid.lowest, valid.highest + 1),
        FLEXIBLE_FROM=parse_versions(flexible).lowest if flexible != "none" else None,
        KIND=kind,
        **attributes,
    )
    message_class._codecs = _PerVersion(message_class, _codec_of)
    message_class._decoders_in_steps = _PerVersion(message_class, _decoder_in_steps)
    message_class._encoders_in_steps = _PerVersion(message_class, _encoder_in_steps)
    return message_class


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
