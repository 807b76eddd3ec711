"""A writer's schema resolved to the columns of a reader: the steps that `decode_avro` runs.

The rules are Avro's ("Schema Resolution"): fields by name or by the reader's aliases, numbers to wider
ones, bytes and strings to each other, the reader's defaults for fields that the writer did not have. What
is resolved only when a record is there (a branch of a union, a symbol) makes that record malformed. Without
a reader's schema the columns themselves are the reader: a field that the writer has not is null, and a
number may also go into a narrower column, if it fits.
"""

from __future__ import annotations

from odradek.serdes.errors import SchemaError
from odradek.spark.formats import avro_steps as steps
from odradek.spark.formats import kinds
from odradek.spark.formats.avro_default import encode_default
from odradek.spark.formats.avro_schema import NO_DEFAULT, AvroType, union_members, widest
from odradek.spark.formats.bounds import MOST_STEPS
from odradek.spark.formats.errors import ResolutionError
from odradek.spark.formats.tree import Column, Description, numbered

Step = tuple[int, int, int, int, tuple[int, ...], tuple[bytes | None, ...]]
"""(what, column or -1, a number, another, steps below, constants): see `_pyavro.Plan`."""

# Avro's promotions: what the writer wrote → as what a reader may have it.
_WIDER = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
    "boolean": ("boolean",),
    "null": ("null",),
}
_WHOLE = (kinds.INT8, kinds.INT16, kinds.INT32, kinds.INT64, kinds.FLOAT, kinds.DOUBLE, kinds.DECIMAL)
_FITS = {
    "boolean": (kinds.BOOL,),
    "int": (*_WHOLE, kinds.DATE, kinds.TIMESTAMP),
    "long": (*_WHOLE, kinds.TIMESTAMP),
    "float": (kinds.FLOAT, kinds.DOUBLE),
    "double": (kinds.DOUBLE,),
    "bytes": (kinds.BINARY, kinds.STRING, kinds.DECIMAL),
    "string": (kinds.STRING, kinds.BINARY),
    "fixed": (kinds.BINARY, kinds.DECIMAL),
    "enum": (kinds.STRING,),
    "record": (kinds.STRUCT,),
    "array": (kinds.LIST,),
    "map": (kinds.MAP,),
}
_OPS = {
    "boolean": steps.BOOLEAN,
    "int": steps.INT,
    "long": steps.LONG,
    "float": steps.REAL32,
    "double": steps.REAL64,
    "bytes": steps.TEXT,
    "string": steps.TEXT,
}


def plan(writer: AvroType, reader: AvroType | None, description: Description) -> list[Step]:
    """The steps that decode what `writer` wrote.

    Raises:
        ResolutionError: the columns cannot hold it.
        SchemaError: they are too many steps: unions in unions' members, each resolved for each.
    """
    planner = _Planner()
    try:
        planner.resolve(writer, reader, numbered(description))
    except RecursionError:
        raise SchemaError(f"the Avro schema '{_named(writer)}' is nested too deep") from None
    # What was begun for a branch that is refused is never run.
    return [step or (steps.REFUSED, -1, 0, 0, (), ()) for step in planner.steps]


class _Planner:
    """The steps so far. The first is the whole; a step is put in its place when those below it are known."""

    def __init__(self) -> None:
        self.steps: list[Step | None] = []
        """None for a step that is reserved: its number is known to others before it is made."""
        self._skips: dict[int, int] = {}
        """The step that passes a type, by the type's `id`: a type in many places is passed by one step."""

    def _add(
        self,
        op: int,
        column: int = -1,
        a: int = 0,
        b: int = 0,
        below: tuple[int, ...] = (),
        pieces: tuple[bytes | None, ...] = (),
        at: int | None = None,
    ) -> int:
        number = self._reserve() if at is None else at
        self.steps[number] = (op, column, a, b, below, pieces)
        return number

    def _reserve(self) -> int:
        if len(self.steps) >= MOST_STEPS:
            # No `ResolutionError`, which would have the next branch tried.
            raise SchemaError(f"reading it takes more than {MOST_STEPS:,} steps, which is the most")
        self.steps.append(None)
        return len(self.steps) - 1

    def skip(self, writer: AvroType) -> int:
        """A step that passes what `writer` wrote. Types may contain themselves."""
        step = self._skips.get(id(writer))
        if step is not None:
            return step
        # Before its parts: a type that contains itself finds its own step there.
        at = self._skips[id(writer)] = self._reserve()
        if writer.type == "record":
            return self._add(
                steps.RECORD, below=tuple(self.skip(field.type) for field in writer.fields), at=at
            )
        if writer.type == "union":
            return self._add(steps.UNION, below=tuple(self.skip(branch) for branch in writer.branches), at=at)
        if writer.type == "array":
            assert writer.items is not None
            return self._add(steps.ARRAY, below=(self.skip(writer.items),), at=at)
        if writer.type == "map":
            assert writer.items is not None
            key = self._add(steps.TEXT)
            return self._add(steps.MAPPING, below=(key, self.skip(writer.items)), at=at)
        if writer.type == "fixed":
            return self._add(steps.FIXED, a=writer.size, at=at)
        if writer.type == "enum":
            return self._add(steps.ENUM, pieces=tuple(symbol.encode() for symbol in writer.symbols), at=at)
        if writer.type == "null":
            return self._add(steps.NOTHING, at=at)
        return self._add(_OPS[writer.type], at=at)

    def resolve(self, writer: AvroType, reader: AvroType | None, column: Column) -> int:
        """A step that fills `column` with what `writer` wrote.

        Raises:
            ResolutionError: the column cannot hold that.
        """
        at = self._reserve()
        # The writer's union first, as the specification has it: each of its branches meets the reader's.
        if writer.type == "union":
            return self._union(writer, reader, column, at)
        if reader is not None and reader.type == "union":
            return self._into_union(writer, reader, column, at)
        if writer.type == "null":
            if reader is not None:
                raise ResolutionError(f"null is not of the reader's type {_named(reader)}")
            return self._add(steps.NOTHING, column.number, at=at)
        _check(writer, reader, column)
        if writer.type == "record":
            return self._record(writer, reader, column, at)
        items = reader.items if reader is not None else None
        if writer.type == "array":
            assert writer.items is not None
            return self._add(
                steps.ARRAY, column.number, below=(self.resolve(writer.items, items, column.below[0]),), at=at
            )
        if writer.type == "map":
            assert writer.items is not None
            key = self._add(steps.TEXT, column.below[0].number)
            value = self.resolve(writer.items, items, column.below[1])
            return self._add(steps.MAPPING, column.number, below=(key, value), at=at)
        if writer.type == "enum":
            return self._add(steps.ENUM, column.number, pieces=_symbols(writer, reader), at=at)
        return self._scalar(writer, reader, column, at)

    def _scalar(self, writer: AvroType, reader: AvroType | None, column: Column, at: int) -> int:
        a, b = writer.size, 1
        if column.kind == kinds.TIMESTAMP:
            # The writer knows in which unit it wrote; else the reader, else the option.
            a, b = writer.unit_us or (reader.unit_us if reader is not None else None) or (column.unit_us, 1)
        elif column.kind == kinds.DECIMAL and writer.type in ("bytes", "fixed"):
            b = writer.scale if writer.is_decimal else column.scale
        return self._add(_OPS.get(writer.type, steps.FIXED), column.number, a, b, at=at)

    def _union(self, writer: AvroType, reader: AvroType | None, column: Column, at: int) -> int:
        """Resolve each branch; a branch that does not resolve makes the records malformed that have it."""
        below = []
        problems = []
        members = union_members(writer)
        # Types that have no wider one in common: the column is a struct of `member0`, `member1`, …
        apart = reader is None and column.kind == kinds.STRUCT and len(members) > 1 and not widest(members)
        for branch in writer.branches:
            try:
                if branch.type == "null" and reader is None:
                    below.append(self._add(steps.NOTHING, column.number))
                elif apart and _is_members(column):
                    below.append(self._member(branch, None, members.index(branch), column, self._reserve()))
                else:
                    below.append(self.resolve(branch, reader, column))
            except ResolutionError as problem:
                problems.append(problem)
                below.append(self._add(steps.REFUSED))
        # No record could be read then; while one branch is left, records of that branch can.
        if len(problems) == len(writer.branches):
            raise problems[0]
        return self._add(steps.UNION, column.number, below=tuple(below), at=at)

    def _into_union(self, writer: AvroType, reader: AvroType, column: Column, at: int) -> int:
        members = union_members(reader)
        if writer.type == "null":
            # `members` are the branches but null.
            if len(members) == len(reader.branches):
                raise ResolutionError("null is not in the reader's union")
            return self._add(steps.NOTHING, column.number, at=at)
        # The branch of the writer's own type first, then those to which it can be widened, in their order.
        for member in sorted(members, key=lambda branch: not _same(writer, branch)):
            try:
                if len(members) == 1 or widest(members):
                    inner = self.resolve(writer, None if widest(members) else member, column)
                    # A step of its own would do nothing.
                    self.steps[at] = self.steps[inner]
                    return at
                return self._member(writer, member, members.index(member), column, at)
            except ResolutionError:
                # The error of a record names the field that does not fit, which is what a reader looks for.
                if member.type == writer.type == "record":
                    raise
                continue
        raise ResolutionError(f"{_named(writer)} is in no branch of the reader's union")

    def _member(self, writer: AvroType, reader: AvroType | None, number: int, column: Column, at: int) -> int:
        below = {child.name: child for child in column.below}.get(f"member{number}")
        if below is None:
            raise ResolutionError(f"the column has no member{number}")
        position = column.below.index(below)
        return self._add(
            steps.MEMBER, column.number, position, below=(self.resolve(writer, reader, below),), at=at
        )

    def _record(self, writer: AvroType, reader: AvroType | None, column: Column, at: int) -> int:
        # Columns are looked for in the writer's fields, then steps made in the order of these: so they lie
        # in the bytes. What the writer lacks is filled behind them.
        of_reader = {field.name: field for field in reader.fields} if reader is not None else {}
        children: dict[str, Column] = {child.name: child for child in column.below}
        by_writer: dict[str, Column] = {}
        written = {field.name for field in writer.fields}
        for name, child in children.items():
            names = (name, *(of_reader[name].aliases if name in of_reader else ()))
            written_name = next((other for other in names if other in written), None)
            if written_name is not None:
                by_writer[written_name] = child
        below = []
        for field in writer.fields:
            into = by_writer.get(field.name)
            if into is None:
                below.append(self.skip(field.type))
                continue
            inner = of_reader[into.name].type if into.name in of_reader else None
            try:
                below.append(self.resolve(field.type, inner, into))
            except ResolutionError as problem:
                raise ResolutionError(f"field '{field.name}': {problem}") from None
        filled = {child.name for child in by_writer.values()}
        for name, child in children.items():
            if name in filled:
                continue
            reader_field = of_reader.get(name)
            if reader_field is None:
                below.append(self._add(steps.ABSENT, child.number))
            elif reader_field.default is NO_DEFAULT:
                raise ResolutionError(
                    f"field '{name}' has no default, and the writer's record '{writer.name}' lacks it"
                )
            else:
                # Encoded once, and decoded for each record like what a writer wrote.
                value = encode_default(reader_field.type, reader_field.default)
                inner_step = self.resolve(reader_field.type, reader_field.type, child)
                below.append(self._add(steps.CONSTANT, child.number, below=(inner_step,), pieces=(value,)))
        return self._add(steps.RECORD, column.number, below=tuple(below), at=at)


def _is_members(column: Column) -> bool:
    return bool(column.below) and all(child.name.startswith("member") for child in column.below)


def _named(schema: AvroType) -> str:
    return f"{schema.type} '{schema.name}'" if schema.name else schema.type


def _same(writer: AvroType, reader: AvroType) -> bool:
    return (writer.type, writer.short_name) == (reader.type, reader.short_name)


def _check(writer: AvroType, reader: AvroType | None, column: Column) -> None:
    if reader is not None:
        fits = reader.type in _WIDER.get(writer.type, (writer.type,))
        if fits and writer.type == "fixed":
            fits = writer.size == reader.size
        # By the name without its namespace, or by an alias. A record of another name is read by its fields,
        # as by Avro's `Resolver`.
        if fits and writer.type in ("record", "enum", "fixed") and writer.name and reader.name:
            fits = (
                writer.short_name
                in (
                    reader.short_name,
                    *(alias.rpartition(".")[2] for alias in reader.aliases),
                )
                or writer.type == "record"
            )
        if not fits:
            raise ResolutionError(f"{_named(writer)} cannot be read as {_named(reader)}")
    if column.kind not in _FITS[writer.type]:
        raise ResolutionError(f"{_named(writer)} cannot be read as the column's type")
    decimal = writer.is_decimal or (reader is not None and reader.is_decimal)
    if column.kind == kinds.DECIMAL and writer.type in ("bytes", "fixed") and not decimal:
        raise ResolutionError(f"{_named(writer)} is not a decimal")


def _symbols(writer: AvroType, reader: AvroType | None) -> tuple[bytes | None, ...]:
    """Return what each of the writer's symbols becomes; None for those that the reader refuses."""
    kept_symbols: list[bytes | None] = []
    for symbol in writer.symbols:
        # Without a symbol of its own the reader's default counts, since Avro 1.9.
        is_known_symbol = reader is None or reader.type != "enum" or symbol in reader.symbols
        kept = symbol if is_known_symbol or reader is None else reader.default_symbol
        kept_symbols.append(kept.encode() if kept is not None else None)
    return tuple(kept_symbols)
