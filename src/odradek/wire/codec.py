"""One message in one version: decoded from bytes, encoded into them.

`codec_of` gives the compiled codec (`_codec`) where it is installed, else the functions that
`odradek.wire.decoder` and `encoder` generate. The compiled codec hands to these all that is not in order.
"""

from __future__ import annotations

import importlib

from odradek.wire import programs
from odradek.wire.errors import frame_size

try:
    # By name: taken out of the package, it would look like an import of all that the package exports.
    _codec: Any = importlib.import_module("odradek.wire._codec")
except ImportError:
    _codec = None

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from odradek.wire.primitives import Buffer
    from odradek.wire.structs import Struct, VersionedStruct

    class Codec(Protocol):
        """Decodes and encodes one version of a message."""

        def decode(self, buffer: Buffer, position: int) -> tuple[Any, int]:
            """The message that begins there, and the position behind it.

            Raises:
                ProtocolError: the bytes are not such a message.
            """
            ...

        def decode_within(self, buffer: Buffer, position: int, elements: int) -> tuple[Any, int] | None:
            """As `decode` for what a peer has sent: tagged fields that nobody here knows are passed over.

            Args:
                elements: how many it may have: elements of arrays, and unknown tagged fields. A message that
                    has more gives None.

            Raises:
                ProtocolError: as `decode`.
            """
            ...

        def encode(self, message: Any) -> bytes:
            """The message's bytes.

            Raises:
                InvalidMessageError: a field's value does not fit into this version.
            """
            ...

        def encode_parts(self, message: Any, head: bytes, size_at: int) -> list[Any]:
            """The message behind a head, as buffers; larger records are the caller's own, not copied.

            Args:
                message: what to encode.
                head: what stands in front, in the first buffer.
                size_at: where in the head 32 bits say how many bytes follow them; -1 for nowhere.

            Raises:
                InvalidMessageError: as `encode`.
            """
            ...


class GeneratedCodec:
    """The codec by generated functions, made when they are first needed."""

    __slots__ = ("_cls", "_decode", "_decode_within", "_encode", "_version")

    def __init__(self, cls: type[VersionedStruct], version: int) -> None:
        self._cls = cls
        self._version = version
        self._decode: Any = None
        self._decode_within: Any = None
        self._encode: Any = None

    def decode(self, buffer: Buffer, position: int) -> tuple[Any, int]:
        """See `Codec`."""
        if self._decode is None:
            from odradek.wire.decoder import compile_decoder

            self._decode = compile_decoder(self._cls, self._version)
        decoded: tuple[Any, int] = self._decode(buffer, position)
        return decoded

    def decode_within(self, buffer: Buffer, position: int, elements: int) -> tuple[Any, int] | None:
        """See `Codec`."""
        if self._decode_within is None:
            from odradek.wire.decoder import compile_decoder_within

            self._decode_within = compile_decoder_within(self._cls, self._version)
        decoded: tuple[Any, int] | None = self._decode_within(buffer, position, elements)
        return decoded

    def _encoder(self) -> Any:
        if self._encode is None:
            from odradek.wire.encoder import compile_encoder

            self._encode = compile_encoder(self._cls, self._version)
        return self._encode

    def encode(self, message: Any) -> bytes:
        """See `Codec`."""
        out: list[Buffer] = []
        self._encoder()(message, out, None)
        return b"".join(out)

    def encode_parts(self, message: Any, head: bytes, size_at: int) -> list[Any]:
        """See `Codec`."""
        out: list[Buffer] = [head]
        parts: list[Buffer] = []
        self._encoder()(message, out, parts)
        if out:
            parts.append(b"".join(out))
        if size_at >= 0:
            size = frame_size(self._cls, sum(map(len, parts)) - size_at - 4)
            first = bytearray(parts[0])
            first[size_at : size_at + 4] = size.to_bytes(4, "big")
            parts[0] = bytes(first)
        return parts


def codec_of(cls: type[VersionedStruct], version: int) -> Codec:
    """Make the codec of one version."""
    generated = GeneratedCodec(cls, version)
    if _codec is None:
        return generated
    program = programs.program_of(_codec, cls, version)
    codec: Codec = _codec.Codec(program, generated, programs.has_records(cls, version))
    return codec


def set_constructor(cls: type[Struct]) -> None:
    """Give a struct its constructor: every field a keyword, with Kafka's default."""
    if _codec is None:
        from odradek.wire.constructor import compile_constructor

        compile_constructor(cls)
    else:
        names = tuple(field.name for field in cls.FIELDS)
        _codec.set_constructor(cls, programs.constructor_of(_codec, cls), names)
