"""From a declaration to an encoder: one function per message and version, generated as source.

The function takes `(m, out, parts)`: the message, a list to which it appends buffers, and either None or
the list of finished parts. With parts, whatever `out` holds is joined into one part whenever records come,
and the caller's own buffers of records follow as parts of their own, not copied.

Fields of fixed size and fixed-size lengths that stand side by side are written by one precompiled
`struct.Struct`. Locals for lengths and encoded strings are computed ahead of the write, so that one
statement (`out += pack(…), name, pack(…)`) covers as many fields as there are between two loops.

An encoder in steps is a generator with the same body. It pauses after every `PAUSE_AFTER` elements of arrays,
and joins the buffers that are in `out` by then.

A field that the version lacks and whose value is not its default is an error, unless the declaration calls
it ignorable: Kafka's own rule.
"""

from __future__ import annotations

import struct

from odradek.wire.decoder import MAX_STRING, PAUSE_AFTER
from odradek.wire.errors import InvalidMessageError, explain
from odradek.wire.fields import FIXED, UNSET, Field
from odradek.wire.primitives import UVARINT, encode_uvarint, join_tags
from odradek.wire.source import Source
from odradek.wire.structs import struct_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, NoReturn

    from odradek.wire.primitives import Buffer
    from odradek.wire.structs import Struct, VersionedStruct

    Encoder = Callable[[Any, list[Buffer], list[Buffer] | None], None]
    SteppedEncoder = Callable[[Any, list[Buffer], list[Buffer]], Generator[None, None, None]]


def compile_encoder(cls: type[VersionedStruct], version: int) -> Encoder:
    """Make the encoder of one version."""
    flexible = cls.is_flexible(version)
    return _EncoderSource(cls, version, flexible).compile()  # type: ignore[no-any-return]


def compile_encoder_in_steps(cls: type[VersionedStruct], version: int) -> SteppedEncoder:
    """Make the encoder of one version that pauses; it takes a list of parts, never None."""
    flexible = cls.is_flexible(version)
    return _EncoderSource(cls, version, flexible, pauses=True).compile()  # type: ignore[no-any-return]


class _EncoderSource(Source):
    """Generates the source of one encoder."""

    def __init__(
        self, cls: type[VersionedStruct], version: int, flexible: bool, pauses: bool = False
    ) -> None:
        super().__init__(
            {
                "uvarint": encode_uvarint,
                "UVARINT": UVARINT,
                "string_length": string_length,
                "join_tags": join_tags,
                "pack": struct.pack,
                "join": join,
                "put_records": put_records,
                "records_size": records_size,
                "not_carried": not_carried,
                "failed": _failed,
                "ValueError": ValueError,
            }
        )
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.pauses = pauses
        self.out = "out"
        """The local that the source appends to: "out"; while a tagged field is written, a list of its own."""
        self.writes: list[tuple[str, str]] = []
        """The next writes: a format character, or "" for a buffer, and the expression. `flush` makes a single
        statement of them, so it comes before every loop and branch of the source."""

    def compile(self) -> Any:
        """Generate, compile and return the function."""
        self.emit("def encode(m, out, parts):")
        self.depth = 1
        if self.pauses:
            self.emit("count = 0")
            with self.block("if False:"):
                self.emit("yield")  # a message without arrays is a generator, too
        self.emit("try:")
        self.depth = 2
        self.struct(self.cls, "m")
        self.flush()
        self.emit("pass")  # a message without fields leaves the `try` empty
        self.depth = 1
        # Nothing is checked ahead: what goes wrong is explained afterwards, by a walk through the message.
        self.emit("except Exception as error:")
        self.emit(f" failed(m, {self.version}, error)")
        kind = "pausing encoder" if self.pauses else "encoder"
        return self.function("encode", f"<{kind} of {self.cls.__name__} v{self.version}>")

    # -- writes

    def fixed(self, code: str, expression: str) -> None:
        self.writes.append((code, expression))

    def buffer(self, expression: str) -> None:
        self.writes.append(("", expression))

    def flush(self) -> None:
        """Emit the writes that were collected as a single statement."""
        writes, self.writes = self.writes, []
        items: list[str] = []
        while writes:
            if not writes[0][0]:
                items.append(writes.pop(0)[1])
                continue
            codes, values = "", []
            while writes and writes[0][0]:
                code, value = writes.pop(0)
                codes += code
                values.append(value)
            packer = self.constant("pack_" + codes.replace("?", "o"), _packer(codes))
            items.append(f"{packer}({', '.join(values)})")
        if len(items) == 1:
            self.emit(f"{self.out}.append({items[0]})")
        elif items:
            self.emit(f"{self.out} += {', '.join(items)}")

    # -- structs

    def struct(self, cls: type[Struct], name: str) -> None:
        """Write the struct in the local `name`."""
        inline, tagged, absent = struct_fields(cls, self.version, flexible=self.flexible)
        # Kafka's writers refuse as well: the peer would take the field's default for what was meant.
        for field in absent:
            if not field.ignorable:
                if field.kind == "struct" and field.default is UNSET:
                    value = self.local("v")
                    self.emit(f"{value} = {name}.{field.name}")
                    condition = self.struct_differs(field, value)
                else:
                    condition = self.differs(field, f"{name}.{field.name}")
                with self.block(f"if {condition}:"):
                    self.emit(f"not_carried({name}, {field.name!r}, {self.version})")
        for field in inline:
            self.value(field, f"{name}.{field.name}", nullable=self.version in field.nullable)
        if not self.flexible:
            # They came with a flexible version, and would be lost without a word.
            with self.block(f"if {name}.unknown_tagged_fields:"):
                self.emit(f"not_carried({name}, 'unknown_tagged_fields', {self.version})")
            return
        tags = self.local("tags")
        declared = tuple(field.tag for field in cls.FIELDS if field.tag is not None)
        if tagged:
            self.tags(name, tagged, tags, declared)
        else:
            self.emit(f"{tags} = {name}.unknown_tagged_fields")
            self.emit(f"{tags} = join_tags((), {tags}, {declared}) if {tags} else b'\\0'")
        self.buffer(tags)

    def differs(self, field: Field, expression: str) -> str:
        """A condition: the value is not the field's default."""
        if field.default is None:
            return f"{expression} is not None"
        if field.default is UNSET:
            # Null is no default either, and cannot be carried where even the empty array has no place.
            if field.kind == "array":
                return f"{expression} is None or {expression}"
            assert field.struct is not None
            default = self.constant(f"default_{field.struct.__name__}", field.struct())
            return f"{expression} != {default}"
        if isinstance(field.default, bool):
            return f"not {expression}" if field.default else expression
        if isinstance(field.default, int | str):
            return f"{expression} != {field.default!r}"
        return f"{expression} != {self.constant(f'default_{field.name}', field.default)}"

    def tags(self, name: str, tagged: list[Field], result: str, declared: tuple[int, ...]) -> None:
        """Compute the bytes of a struct's tagged fields into the local `result`."""
        # Tagged fields carry their size in front, so each is written into a list of its own first. What was
        # collected before waits: it is to stand in front of the tags in the outer list.
        held, self.writes = self.writes, []
        outer = self.out
        pairs = self.local("pairs")
        self.emit(f"{pairs} = []")
        for field in tagged:
            value = self.local("v")
            self.emit(f"{value} = {name}.{field.name}")
            # A default takes no bytes: the reader puts it where the tag is missing (KIP-482).
            if field.kind == "struct" and field.default is UNSET:
                condition = self.struct_differs(field, value)
            else:
                condition = self.differs(field, value)
            with self.block(f"if {condition}:"):
                self.out = self.local("sub")
                self.emit(f"{self.out} = []")
                nullable = self.version in field.nullable
                if field.kind == "struct":
                    self.nested(field, value, nullable, in_tag=True)
                else:
                    self.value(field, value, nullable=nullable)
                self.flush()
                self.emit(f"{pairs}.append(({field.tag}, b''.join({self.out})))")
                self.out = outer
        self.emit(f"{result} = {name}.unknown_tagged_fields")
        self.emit(f"{result} = join_tags({pairs}, {result}, {declared}) if {pairs} or {result} else b'\\0'")
        self.writes = held

    def struct_differs(self, field: Field, value: str) -> str:
        """As `differs`, for a struct, field by field: no call per struct in the responses that are many."""
        assert field.struct is not None
        conditions = [f"({self.differs(inner, f'{value}.{inner.name}')})" for inner in field.struct.FIELDS]
        if self.version in field.nullable:
            conditions.insert(0, f"{value} is None")
        return " or ".join([*conditions, f"{value}.unknown_tagged_fields"])

    # -- values

    def value(self, field: Field, expression: str, *, nullable: bool) -> None:
        """Write one value."""
        fixed = FIXED.get(field.kind)
        if field.kind == "uuid":
            self.uuid(expression)
        elif fixed is not None:
            self.fixed(fixed[0], expression)
        elif field.kind == "array":
            self.array(field, expression, nullable)
        elif field.kind == "struct":
            self.nested(field, expression, nullable)
        elif field.kind == "string":
            self.string(field, expression, nullable)
        else:
            self.sized(field, expression, nullable)

    def uuid(self, expression: str) -> None:
        """Write a uuid. Its length is looked at first, as `struct` would silently pad or cut it by "16s"."""
        local = self.local("u")
        self.emit(f"{local} = {expression}")
        with self.block(f"if len({local}) != 16:"):
            self.emit("raise ValueError('a uuid has 16 bytes')")
        self.buffer(local)

    def compact(self, field: Field) -> bool:
        return self.flexible and not field.never_compact

    def string(self, field: Field, expression: str, nullable: bool) -> None:
        text, n = self.local("text"), ""
        if nullable:
            n = self.local("n")
            self.emit(f"{text} = {expression}")
            with self.block(f"if {text} is None:"):
                self.emit(f"{text} = b''")
                self.emit(f"{n} = {0 if self.compact(field) else -1}")
            with self.block("else:"):
                self.emit(f"{text} = {text}.encode()")
                self.emit(f"{n} = len({text})" + (" + 1" if self.compact(field) else ""))
        else:
            self.emit(f"{text} = {expression}.encode()")
            if self.compact(field):
                # Compact lengths are written plus one, so that 0 is left for null (KIP-482).
                n = self.local("n")
                self.emit(f"{n} = len({text}) + 1")
            else:
                n = f"len({text})"
        if self.compact(field):
            # Nearly all strings are short: their length is one byte, from a table.
            self.buffer(f"(UVARINT[{n}] if {n} < 128 else string_length({n}))")
        else:
            self.fixed("h", n)
        self.buffer(text)

    def length(self, field: Field, n: str) -> None:
        """Write a length or count held in the local `n` (-1 for null)."""
        if self.compact(field):
            self.buffer(f"(UVARINT[{n} + 1] if {n} < 127 else uvarint({n} + 1))")
        else:
            self.fixed("i", n)

    def sized(self, field: Field, expression: str, nullable: bool) -> None:
        """Write bytes or records."""
        content, n = self.local("content"), self.local("n")
        is_records = field.kind == "records"
        measure = f"len({content})"
        if is_records:
            measure += f" if {content}.__class__ is not list else records_size({content})"
        self.emit(f"{content} = {expression}")
        if nullable:
            with self.block(f"if {content} is None:"):
                self.emit(f"{n} = -1")
                # `put_records` takes None as it is.
                if not is_records:
                    self.emit(f"{content} = b''")
            with self.block("else:"):
                self.emit(f"{n} = {measure}")
        else:
            self.emit(f"{n} = {measure}")
        self.length(field, n)
        if is_records:
            self.flush()
            # A fetch answers with a list of buffers, which go to the socket as they are.
            with self.block(f"if {content}.__class__ is bytes and parts is None:"):
                self.emit(f"{self.out}.append({content})")
            with self.block("else:"):
                self.emit(f"put_records({content}, {self.out}, parts)")
        else:
            self.buffer(content)

    def nested(self, field: Field, expression: str, nullable: bool, in_tag: bool = False) -> None:
        """Write a struct in place, with the mark in front if it may be null (see the decoder)."""
        assert field.struct is not None
        name = self.local("s")
        if not nullable:
            self.emit(f"{name} = {expression}")
            self.struct(field.struct, name)
            return
        self.flush()
        # As Kafka's generated writers do it: a varint in a tag, -1 as a byte in line.
        null = b"\0" if in_tag else b"\xff"
        self.emit(f"{name} = {expression}")
        with self.block(f"if {name} is None:"):
            self.emit(f"{self.out}.append({null!r})")
        with self.block("else:"):
            self.buffer("b'\\x01'")
            self.struct(field.struct, name)
            self.flush()

    def array(self, field: Field, expression: str, nullable: bool) -> None:
        element = field.element
        assert element is not None
        items, n = self.local("items"), self.local("n")
        self.emit(f"{items} = {expression}")
        if nullable:
            with self.block(f"if {items} is None:"):
                self.emit(f"{n} = -1")
                self.emit(f"{items} = ()")
            with self.block("else:"):
                self.emit(f"{n} = len({items})")
        else:
            self.emit(f"{n} = len({items})")
        self.length(field, n)
        if element.kind in FIXED and element.kind != "uuid":
            code = FIXED[element.kind][0]
            # One call for all elements; the format tells how many there are, so it is not compiled ahead.
            self.buffer(f"pack(f'>{{len({items})}}{code}', *{items})")
            return
        self.flush()
        item = self.local("item")
        with self.block(f"for {item} in {items}:"):
            if element.kind == "struct":
                assert element.struct is not None
                self.struct(element.struct, item)
            else:
                self.value(element, item, nullable=False)
            self.flush()
            if self.pauses:
                # After the flush: what a pause joins has to be all that belongs in front of the next element.
                self.pause()

    def pause(self) -> None:
        """Pause now and then. The output so far is joined then, unless it is the content of a tag."""
        self.emit("count += 1")
        with self.block(f"if not count & {PAUSE_AFTER - 1}:"):
            # The content of a tag is needed whole: its size stands in front of it.
            if self.out == "out":
                self.emit("join(out, parts)")
            self.emit("yield")


_packers: dict[str, Any] = {}
"""By format: messages and versions share most of them."""


def _packer(codes: str) -> Any:
    packer = _packers.get(codes)
    if packer is None:
        packer = _packers[codes] = struct.Struct(">" + codes).pack
    return packer


def string_length(n: int) -> bytes:
    """The compact length of a longer string.

    Args:
        n: its bytes plus one.
    """
    if n > MAX_STRING + 1:
        raise ValueError(f"a string of {n - 1} bytes: the most is {MAX_STRING}")
    return encode_uvarint(n)


def records_size(content: Any) -> int:
    """The bytes in a list of buffers."""
    return sum(map(len, content))


def join(out: list[Buffer], parts: list[Buffer]) -> None:
    """Make one part of the output so far."""
    if out:
        parts.append(b"".join(out))
        out.clear()


def put_records(content: Any, out: list[Buffer], parts: list[Buffer] | None) -> None:
    """Add records (a buffer, a list of buffers, None) to the output without copying them."""
    # An empty part would be a write of nothing to the socket.
    if not content:
        return
    buffers = content if isinstance(content, list) else (content,)
    if parts is None:
        out += buffers
    else:
        join(out, parts)
        parts += buffers


def not_carried(holder: Struct, name: str, version: int) -> NoReturn:
    """Raise the error for a value that a version has no field for."""
    raise InvalidMessageError(
        f"{type(holder).__name__}.{name} is {getattr(holder, name)!r}, which version {version} cannot carry"
    )


def _failed(message: VersionedStruct, version: int, error: Exception) -> NoReturn:
    """Turn whatever an encoder ran into into an error that names the field."""
    if isinstance(error, InvalidMessageError):
        raise error
    where = explain(message, version)
    raise InvalidMessageError(f"{type(message).__name__} v{version}: {where or error}") from error
