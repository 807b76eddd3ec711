"""Protobuf's message types as Spark's types.

A field that can tell whether it is there (`optional`, a message, a member of a `oneof`) is null where it is
absent; one that cannot has protobuf's zero value. Repeated fields are arrays, empty where absent. Unsigned
numbers go into the next wider type; enums are their names.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as spark

from odradek.serdes.errors import SchemaError
from odradek.spark.formats.bounds import ColumnCount
from odradek.util.extras import install

STAMP = "google.protobuf.Timestamp"
SPAN = "google.protobuf.Duration"
#: Numbers of `FieldDescriptor.TYPE_…`.
DOUBLE, FLOAT, INT64, UINT64, INT32, FIXED64, FIXED32, BOOL, STRING, GROUP, MESSAGE, BYTES, UINT32, ENUM = (
    range(1, 15)
)
SFIXED32, SFIXED64, SINT32, SINT64 = range(15, 19)
_PLAIN: dict[int, Any] = {
    DOUBLE: spark.DoubleType(),
    FLOAT: spark.FloatType(),
    INT64: spark.LongType(),
    UINT64: spark.DecimalType(20, 0),
    INT32: spark.IntegerType(),
    FIXED64: spark.DecimalType(20, 0),
    FIXED32: spark.LongType(),
    BOOL: spark.BooleanType(),
    STRING: spark.StringType(),
    BYTES: spark.BinaryType(),
    UINT32: spark.LongType(),
    ENUM: spark.StringType(),
    SFIXED32: spark.IntegerType(),
    SFIXED64: spark.LongType(),
    SINT32: spark.IntegerType(),
    SINT64: spark.LongType(),
}


def require_protobuf() -> None:
    """Check that the library that reads descriptors is there.

    Raises:
        SchemaError: it is missing.
    """
    try:
        import google.protobuf.descriptor_pool  # noqa: F401
    except ImportError:
        raise SchemaError(
            f"value.format and key.format 'protobuf' need the package protobuf: {install('protobuf')}"
        ) from None


def spark_type(message: Any) -> Any:
    """The struct of a message type.

    Raises:
        SchemaError: the message contains itself, or is too large.
    """
    return _message_type(message, (), ColumnCount(f"the protobuf message '{message.full_name}'"))


def _message_type(message: Any, inside: tuple[str, ...], count: ColumnCount) -> Any:
    if message.full_name in inside:
        raise SchemaError(
            f"the protobuf message '{message.full_name}' contains itself, which no column can. Leave the "
            "field out: name the ones that you want in the option columns"
        )
    within = (*inside, message.full_name)
    return spark.StructType(
        [
            spark.StructField(field.name, _field_type(field, within, count), nullable=True)
            for field in message.fields
        ]
    )


def field_type(field: Any) -> Any:
    """The type of a field's column.

    Raises:
        SchemaError: as `spark_type`.
    """
    return _field_type(field, (), ColumnCount(f"the protobuf field '{field.full_name}'"))


def _field_type(field: Any, inside: tuple[str, ...], count: ColumnCount) -> Any:
    if is_map(field):
        count.add(len(inside))
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return spark.MapType(
            _single_type(key, inside, count), _single_type(value, inside, count), valueContainsNull=False
        )
    single = _single_type(field, inside, count)
    return spark.ArrayType(single, containsNull=False) if is_repeated(field) else single


def is_repeated(field: Any) -> bool:
    """Return whether a field has any number of values; the attribute's name depends on the release."""
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def is_required(field: Any) -> bool:
    """Return whether a field has to be there (proto2)."""
    required = getattr(field, "is_required", None)
    return bool(field.label == field.LABEL_REQUIRED if required is None else required)


def is_map(field: Any) -> bool:
    """Return whether a field is a map, which is a repeated message of pairs."""
    return bool(field.type == MESSAGE and is_repeated(field) and field.message_type.GetOptions().map_entry)


def single_type(field: Any) -> Any:
    """The type of one of a field's values.

    Raises:
        SchemaError: as `spark_type`.
    """
    return _single_type(field, (), ColumnCount(f"the protobuf field '{field.full_name}'"))


def _single_type(field: Any, inside: tuple[str, ...], count: ColumnCount) -> Any:
    count.add(len(inside))
    if field.type == GROUP:
        raise SchemaError(f"the protobuf field '{field.full_name}' is a group, which has no column")
    if field.type != MESSAGE:
        return _PLAIN[field.type]
    if field.message_type.full_name == STAMP:
        return spark.TimestampType()
    if field.message_type.full_name == SPAN:
        return spark.DayTimeIntervalType(0, 3)
    return _message_type(field.message_type, inside, count)
