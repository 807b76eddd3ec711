"""From a declaration to a decoder: one function per message and version, generated as source.

The function takes `(buf, pos)` and returns the message and the position behind it. It is one flat function:
nested structs are decoded in place, arrays are loops. It comes twice, for bytes and for memoryviews, which
slice and turn into text differently; the second is made when the first meets such a buffer. Neighbouring
fields of fixed size, with the fixed-size length of what follows them, are read by one precompiled
`struct.Struct`.

There are two more decoders for what a peer has sent. Both pass over tagged fields that nobody here knows, and
count them like elements of arrays. One decodes only a message of no more than so many elements. The other is
a generator that pauses after every `PAUSE_AFTER` elements, so that a large message need not be decoded in one
go.

What keeps it bounded:

* a length is compared with the bytes that are left before anything is made of it;
* an array's count times the smallest possible size of its element must fit into the bytes that are left;
* whatever runs off the end of the buffer raises IndexError or struct.error, which one handler around the
  whole function turns into ProtocolError;
* the schema fixes the nesting.
"""

from __future__ import annotations

import struct

from odradek.errors.base import ProtocolError
from odradek.wire.constructor import put_default
from odradek.wire.fields import FIXED, Field
from odradek.wire.primitives import read_tag_header, read_unknown_tags, read_uvarint
from odradek.wire.source import Source
from odradek.wire.structs import struct_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from odradek.wire.primitives import Buffer
    from odradek.wire.structs import Struct, VersionedStruct

    Decoder = Callable[[Buffer, int], tuple[Any, int]]
    DecoderWithin = Callable[[Buffer, int, int], tuple[Any, int] | None]
    SteppedDecoder = Callable[[Buffer, int], Generator[None, None, tuple[Any, int]]]

#: Kafka's readers refuse longer strings in every encoding: what is compact could be longer, what is not could
#: not (KIP-482).
MAX_STRING = 0x7FFF

#: Elements between two pauses of a decoder or an encoder in steps; a power of two.
PAUSE_AFTER = 128

#: Numbers that a decoder in steps takes out of an array in one go.
NUMBERS_AT_ONCE = 4096


def compile_decoder(cls: type[VersionedStruct], version: int) -> Decoder:
    """Make the decoder of one version."""
    return _compile(cls, version, KEEPING)  # type: ignore[no-any-return]


def compile_decoder_within(cls: type[VersionedStruct], version: int) -> DecoderWithin:
    """Make the decoder of one version that counts elements: it returns None when there are more than its
    third argument allows."""
    return _compile(cls, version, COUNTING)  # type: ignore[no-any-return]


def _compile(cls: type[VersionedStruct], version: int, manner: str) -> Any:
    flexible = cls.is_flexible(version)
    source = _DecoderSource(cls, version, flexible, of_views=False, manner=manner)

    # Made upon the first view that comes: most decoders never meet a view, and to compile takes long.
    def decode_view(*arguments: Any) -> Any:
        decoder = _DecoderSource(cls, version, flexible, of_views=True, manner=manner).compile()
        source.namespace["decode_view"] = decoder  # the global that the decoder of bytes looks up
        return decoder(*arguments)

    source.namespace["decode_view"] = decode_view
    return source.compile()


def compile_decoder_in_steps(cls: type[VersionedStruct], version: int) -> SteppedDecoder:
    """Make the decoder of one version that pauses: a generator that returns what `compile_decoder`'s does."""
    flexible = cls.is_flexible(version)
    decoders: dict[bool, SteppedDecoder] = {}

    def decode(buffer: Buffer, position: int) -> Any:
        of_views = buffer.__class__ is not bytes
        if of_views not in decoders:
            source = _DecoderSource(cls, version, flexible, of_views=of_views, manner=PAUSING)
            decoders[of_views] = source.compile()
        return decoders[of_views](buffer, position)

    return decode


def min_size(field: Field, version: int, flexible: bool) -> int:
    """The smallest number of bytes that a field can take."""
    fixed = FIXED.get(field.kind)
    if fixed is not None:
        return fixed[1]
    if field.kind == "struct":
        assert field.struct is not None
        # The mark in front, which says that it is null.
        if version in field.nullable:
            return 1
        return min_struct_size(field.struct, version, flexible)
    # The length alone: of a string two bytes, of bytes, records and arrays four; one where it is compact.
    if flexible and not field.never_compact:
        return 1
    return 2 if field.kind == "string" else 4


def min_struct_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """The smallest number of bytes that a struct can take."""
    inline, _, _ = struct_fields(cls, version, flexible=flexible)
    # In a flexible version the count of its tagged fields, a byte, is always there.
    return sum(min_size(field, version, flexible) for field in inline) + flexible


#: The manners of a decoder: it keeps unknown tagged fields; it passes over them, and counts them and all
#: elements; and it does so with pauses.
KEEPING, COUNTING, PAUSING = "", "counting", "pausing"


class _DecoderSource(Source):
    """Generates the source of one decoder, for bytes or for all other buffers (as views)."""

    def __init__(
        self, cls: type[VersionedStruct], version: int, flexible: bool, of_views: bool, manner: str
    ) -> None:
        super().__init__(
            {
                "ProtocolError": ProtocolError,
                "struct_error": struct.error,
                "read_uvarint": read_uvarint,
                "read_tag_header": read_tag_header,
                "read_unknown_tags": read_unknown_tags,
                "unpack_from": struct.unpack_from,
                "new": object.__new__,
                "refuse": refuse,
            }
        )
        self.cls = cls
        self.version = version
        self.flexible = flexible
        # Format character and assignment target, not yet emitted. Empty whenever anything else that moves the
        # position is emitted: the order of the source is the order of the bytes.
        self.run: list[tuple[str, str]] = []
        # Whether `buf` is a memoryview in this function; else it is bytes, whose slices are copies.
        self.of_views = of_views
        self.manner = manner
        self.pauses = manner == PAUSING
        self.arguments = "buf, pos, left" if manner == COUNTING else "buf, pos"
        self.to_bytes = ".tobytes()" if of_views else ""
        # Set while the body is generated, which is therefore done before the head.
        self.has_records = False

    def compile(self) -> Any:
        """Generate, compile and return the function."""
        self.depth = 2
        self.struct(self.cls, "m")
        self.flush()
        body = self.lines
        self.lines = []
        self.depth = 0
        self.emit(f"def decode({self.arguments}):")
        self.depth = 1
        if self.of_views:
            with self.block("if buf.__class__ is not memoryview:"):
                self.emit("buf = memoryview(buf)")
        elif not self.pauses:
            with self.block("if buf.__class__ is not bytes:"):
                self.emit(f"return decode_view({self.arguments})")
        self.emit("end = len(buf)")
        if self.pauses:
            self.emit("count = 0")
            with self.block("if False:"):
                self.emit("yield")  # a message without arrays is a generator, too
        if self.has_records and not self.of_views:
            self.emit("view = memoryview(buf)")
        self.emit("try:")
        self.lines += body
        # These say that bytes were missing, or were no UTF-8. Anything else is a mistake of ours and passes.
        self.emit("except (struct_error, IndexError, UnicodeDecodeError) as error:")
        self.emit(f" raise ProtocolError(f'{self.cls.__name__} v{self.version}: {{error}}') from None")
        self.emit("return m, pos")
        kind = "views" if self.of_views else "bytes"
        kind += f" {self.manner}" if self.manner else ""
        return self.function("decode", f"<{kind} decoder of {self.cls.__name__} v{self.version}>")

    # -- runs of fixed size

    def fixed(self, code: str, target: str) -> None:
        self.run.append((code, target))

    def flush(self) -> None:
        """Emit the collected run of fixed-size fields."""
        if not self.run:
            return
        run, self.run = self.run, []
        # A byte that stands alone costs no call; any that is not 0 is true, as in Kafka's readers.
        if len(run) == 1 and run[0][0] == "?":
            self.emit(f"{run[0][1]} = buf[pos] != 0")
            self.emit("pos += 1")
            return
        layout = struct.Struct(">" + "".join(code for code, _ in run))
        unpack = self.constant("unpack", layout.unpack_from)
        targets = ", ".join(target for _, target in run)
        comma = "," if len(run) == 1 else ""
        self.emit(f"{targets}{comma} = {unpack}(buf, pos)")
        self.emit(f"pos += {layout.size}")

    # -- structs

    def struct(self, cls: type[Struct], name: str) -> None:
        """Decode a struct into the local `name`."""
        # Without its constructor: each field is set below, and a default would be made in vain.
        self.emit(f"{name} = new({self.constant(cls.__name__, cls)})")
        inline, tagged, absent = struct_fields(cls, self.version, flexible=self.flexible)
        for field in inline:
            self.value(field, f"{name}.{field.name}", nullable=self.version in field.nullable)
        for field in absent:
            put_default(self, field, f"{name}.{field.name}")
        if not self.flexible:
            self.emit(f"{name}.unknown_tagged_fields = None")
            return
        self.flush()
        known_tags = [field for field in cls.FIELDS if field.tag is not None]
        # First of all: a tagged field that is not there has its default (KIP-482).
        for field in tagged:
            put_default(self, field, f"{name}.{field.name}")
        if known_tags:
            self.tags(name, tagged, known_tags)
        else:
            self.unknown_tags(name)

    def unknown_tags(self, name: str) -> None:
        """Decode the tagged fields of a struct that declares none."""
        if self.manner == KEEPING:
            with self.block("if buf[pos]:"):
                self.emit(f"{name}.unknown_tagged_fields, pos = read_unknown_tags(buf, pos, end)")
            with self.block("else:"):
                self.emit(f"{name}.unknown_tagged_fields = None")
                self.emit("pos += 1")
            return
        self.emit(f"{name}.unknown_tagged_fields = None")
        with self.block("if buf[pos]:"):
            count, tag = self.local("count"), self.local("tag")
            self.emit(f"{count}, pos = read_uvarint(buf, pos)")
            self.emit(f"{tag} = -1")
            with self.block(f"for _ in range({count}):"):
                self.emit(f"{tag}, _, pos = read_tag_header(buf, pos, end, {tag})")
                self.count_one()
        with self.block("else:"):
            self.emit("pos += 1")

    def count_one(self) -> None:
        """Count an element, or an unknown tagged field: there may be too many, or it may be time to pause."""
        if self.manner == COUNTING:
            self.emit("left -= 1")
            with self.block("if left < 0:"):
                self.emit("return None")
        elif self.manner == PAUSING:
            self.emit("count += 1")
            with self.block(f"if not count & {PAUSE_AFTER - 1}:"):
                with self.block(f"if count > {self.cls.MOST_ELEMENTS}:"):
                    self.emit("refuse(f'more than {count - 1} elements', pos)")
                self.emit("yield")

    def tags(self, name: str, tagged: list[Field], known_fields: list[Field]) -> None:
        """Decode the tagged fields of a struct that declares some."""
        count, tag, limit, unknown = (self.local(part) for part in ("count", "tag", "limit", "unknown"))
        self.emit(f"{unknown} = None")
        self.emit(f"{count} = buf[pos]")
        self.emit("pos += 1")
        with self.block(f"if {count}:"):
            # Nearly every varint is one byte, which costs no call.
            with self.block(f"if {count} > 127:"):
                self.emit(f"{count}, pos = read_uvarint(buf, pos - 1)")
            self.emit(f"{tag} = -1")
            with self.block(f"for _ in range({count}):"):
                self.emit(f"{tag}, pos, {limit} = read_tag_header(buf, pos, end, {tag})")
                word = "if"
                for field in tagged:
                    with self.block(f"{word} {tag} == {field.tag}:"):
                        nullable = self.version in field.nullable
                        if field.kind == "struct":
                            self.nested(field, f"{name}.{field.name}", nullable, in_tag=True)
                        else:
                            self.value(field, f"{name}.{field.name}", nullable=nullable)
                        self.flush()
                        # A reader that does not know the tag skips by its size, and would go on elsewhere.
                        with self.block(f"if pos != {limit}:"):
                            self.emit(f"refuse('{field.name}: tag {field.tag} claims another size', pos)")
                    word = "elif"
                # A declared tag that this version does not have is refused, as by Kafka's generated readers.
                elsewhere = tuple(field.tag for field in known_fields if field not in tagged)
                if elsewhere:
                    with self.block(f"{word} {tag} in {elsewhere!r}:"):
                        self.emit(f"refuse(f'tag {{{tag}}} is not known to version {self.version}', pos)")
                    word = "elif"
                with self.block("else:" if word == "elif" else "if True:"):
                    if self.manner == KEEPING:
                        with self.block(f"if {unknown} is None:"):
                            self.emit(f"{unknown} = {{}}")
                        self.emit(f"{unknown}[{tag}] = buf[pos:{limit}]{self.to_bytes}")
                    self.emit(f"pos = {limit}")
                    self.count_one()
        self.emit(f"{name}.unknown_tagged_fields = {unknown}")

    # -- values

    def value(self, field: Field, target: str, *, nullable: bool) -> None:
        """Decode one value into `target`, an assignment target."""
        fixed = FIXED.get(field.kind)
        if fixed is not None:
            self.fixed(fixed[0], target)
        elif field.kind == "array":
            self.array(field, target, nullable)
        elif field.kind == "struct":
            self.nested(field, target, nullable)
        else:
            self.sized(field, target, nullable)

    def length(self, field: Field, target: str, nullable: bool) -> str:
        """Read a length or count into a local; -1 for null. Leaves the run flushed."""
        local = self.local("n")
        if self.flexible and not field.never_compact:
            self.flush()
            self.emit(f"{local} = buf[pos]")
            self.emit("pos += 1")
            with self.block(f"if {local} > 127:"):
                self.emit(f"{local}, pos = read_uvarint(buf, pos - 1)")
            # Compact lengths are written plus one, so that 0 is left for null (KIP-482).
            self.emit(f"{local} -= 1")
        else:
            self.fixed("h" if field.kind == "string" else "i", local)
            self.flush()
        if not nullable:
            with self.block(f"if {local} < 0:"):
                self.emit(f"refuse('{self.label(target)} may not be null', pos)")
        return local

    @staticmethod
    def label(target: str) -> str:
        return target.rpartition(".")[2]

    def sized(self, field: Field, target: str, nullable: bool) -> None:
        """Decode a string, bytes or records."""
        n = self.length(field, target, nullable)
        stop = self.local("stop")
        if nullable:
            with self.block(f"if {n} < 0:"):
                self.emit(f"{target} = None")
            with self.block("else:"):
                self.content(field, target, n, stop)
        else:
            self.content(field, target, n, stop)

    def content(self, field: Field, target: str, n: str, stop: str) -> None:
        if field.kind == "string" and self.flexible and not field.never_compact:
            with self.block(f"if {n} > {MAX_STRING}:"):
                self.emit(f"refuse(f'{self.label(target)}: a string of {{{n}}} bytes', pos)")
        self.emit(f"{stop} = pos + {n}")
        # A slice beyond the end would come out shorter, without an error.
        with self.block(f"if {stop} > end:"):
            self.emit(f"refuse(f'{self.label(target)} claims {{{n}}} bytes, {{end - pos}} are left', pos)")
        if field.kind == "string":
            self.emit(f"{target} = buf[pos:{stop}]{self.to_bytes}.decode()")
        elif field.kind == "bytes":
            self.emit(f"{target} = buf[pos:{stop}]{self.to_bytes}")
        else:
            # Records are the bulk of a message, and are not copied: the view keeps the frame alive.
            self.has_records = True
            self.emit(f"{target} = {'buf' if self.of_views else 'view'}[pos:{stop}]")
        self.emit(f"pos = {stop}")

    def nested(self, field: Field, target: str, nullable: bool, in_tag: bool = False) -> None:
        """Decode a struct in place.

        A struct that may be null has a mark in front: in line a byte, negative for null; in a tag a varint, 0
        for null.
        """
        assert field.struct is not None
        name = self.local("s")
        if nullable:
            mark = self.local("mark")
            if in_tag:
                self.emit(f"{mark}, pos = read_uvarint(buf, pos)")
            else:
                self.fixed("b", mark)
                self.flush()
            with self.block(f"if {mark} {'== 0' if in_tag else '< 0'}:"):
                self.emit(f"{target} = None")
            with self.block("else:"):
                self.struct(field.struct, name)
                self.flush()
                self.emit(f"{target} = {name}")
        else:
            self.struct(field.struct, name)
            self.flush()
            self.emit(f"{target} = {name}")

    def array(self, field: Field, target: str, nullable: bool) -> None:
        n = self.length(field, target, nullable)
        if nullable:
            with self.block(f"if {n} < 0:"):
                self.emit(f"{target} = None")
            with self.block("else:"):
                self.elements(field, target, n)
        else:
            self.elements(field, target, n)

    def elements(self, field: Field, target: str, n: str) -> None:
        element = field.element
        assert element is not None
        smallest = min_size(element, self.version, self.flexible)
        # Of our own declarations: such an array would have no bound by its bytes.
        if smallest < 1:
            raise AssertionError(
                f"{self.cls.__name__} v{self.version}: elements of {field.name} take no bytes"
            )
        scaled = f"{n} * {smallest}" if smallest > 1 else n
        with self.block(f"if {scaled} > end - pos:"):
            self.emit(
                f"refuse(f'{self.label(target)} claims {{{n}}} elements, {{end - pos}} bytes are left', pos)"
            )
        if self.manner == COUNTING:
            # Before any is made: a decoder in steps begins the message again from its start.
            self.emit(f"left -= {n}")
            with self.block("if left < 0:"):
                self.emit("return None")
        # All at once, but for uuids, of which `struct` would make one string.
        if element.kind in FIXED and element.kind != "uuid":
            code, size = FIXED[element.kind]
            if self.pauses:
                self.numbers(target, n, code, size)
                return
            self.emit(f"{target} = list(unpack_from(f'>{{{n}}}{code}', buf, pos))")
            self.emit(f"pos += {n} * {size}" if size > 1 else f"pos += {n}")
            return
        items, item = self.local("items"), self.local("item")
        self.emit(f"{items} = []")
        with self.block(f"for _ in range({n}):"):
            if element.kind == "struct":
                assert element.struct is not None
                self.struct(element.struct, item)
            else:
                self.value(element, item, nullable=False)
            self.flush()
            self.emit(f"{items}.append({item})")
            if self.pauses:
                self.count_one()
        self.emit(f"{target} = {items}")

    def numbers(self, target: str, n: str, code: str, size: int) -> None:
        """Decode an array of numbers, piece by piece."""
        items, left = self.local("items"), self.local("left")
        self.emit(f"{items} = []")
        self.emit(f"{left} = {n}")
        with self.block(f"while {left} > {NUMBERS_AT_ONCE}:"):
            self.emit(f"{items} += unpack_from('>{NUMBERS_AT_ONCE}{code}', buf, pos)")
            self.emit(f"pos += {NUMBERS_AT_ONCE * size}")
            self.emit(f"{left} -= {NUMBERS_AT_ONCE}")
            self.emit(f"count += {NUMBERS_AT_ONCE}")
            with self.block(f"if count > {self.cls.MOST_ELEMENTS}:"):
                self.emit("refuse(f'more than {count - 1} elements', pos)")
            self.emit("yield")
        self.emit(f"{items} += unpack_from(f'>{{{left}}}{code}', buf, pos)")
        self.emit(f"pos += {left} * {size}")
        self.emit(f"{target} = {items}")


def refuse(reason: str, position: int) -> Any:
    """Raise the error of a decoder."""
    raise ProtocolError(f"{reason} (at byte {position})")
