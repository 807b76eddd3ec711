"""Records into lines: Kafka's DefaultMessageFormatter."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek import ConsumerRecord

Deserialize = Callable[[bytes], bytes]


class FormatError(OdradekError):
    """A record whose bytes are not what the deserializer reads."""


def _numbers(code: str) -> Deserialize:
    reader = struct.Struct(">" + code)

    def deserialize(data: bytes) -> bytes:
        if len(data) != reader.size:
            raise FormatError(f"{len(data)} bytes where {reader.size} are a number")
        return str(reader.unpack(data)[0]).encode()

    return deserialize


def _boolean(data: bytes) -> bytes:
    if data not in (b"\x00", b"\x01"):
        raise FormatError("not one byte of 0 or 1")
    return b"true" if data == b"\x01" else b"false"


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode())).encode()
    except ValueError as error:
        raise FormatError(f"not a UUID: {error}") from error


#: Kafka's deserializers, by the last word of their class names without "Deserializer".
DESERIALIZERS: dict[str, Deserialize] = {
    "ByteArray": lambda data: data,
    "Bytes": lambda data: data,
    "String": lambda data: data,
    "Short": _numbers("h"),
    "Integer": _numbers("i"),
    "Long": _numbers("q"),
    "Float": _numbers("f"),
    "Double": _numbers("d"),
    "Boolean": _boolean,
    "UUID": _uuid,
}
SLOTS = ("key.deserializer", "value.deserializer", "headers.deserializer")


def deserializer(name: str, option: str) -> Deserialize:
    """Return what Kafka's class of that name does, to the text that is printed.

    Raises:
        click.BadParameter: it is not one of Kafka's own.
    """
    try:
        return DESERIALIZERS[name.rpartition(".")[2].removesuffix("Deserializer")]
    except KeyError:
        names = ", ".join(word + "Deserializer" for word in DESERIALIZERS)
        raise click.BadParameter(
            f"{name!r}: Java classes cannot be loaded; built in are {names}", param_hint=option
        ) from None


@dataclass(frozen=True)
class Formatter:
    """Records into lines, by the properties of Kafka's formatter, `print.key` being `print_key`."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_delivery: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    key_deserializer: Deserialize = DESERIALIZERS["ByteArray"]
    value_deserializer: Deserialize = DESERIALIZERS["ByteArray"]
    headers_deserializer: Deserialize = DESERIALIZERS["ByteArray"]

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> Formatter:
        """From `print.key=true` and the like.

        Raises:
            click.BadParameter: a property that the formatter does not have, or a class that is not built in.
        """
        settings: dict[str, Any] = {}
        for name, text in properties.items():
            attribute = name.replace(".", "_")
            if name in SLOTS:
                settings[attribute] = deserializer(text.strip(), "--formatter-property")
            elif name.startswith(tuple(slot + "." for slot in SLOTS)):
                continue  # a config of the deserializer; those here have none
            elif attribute not in cls.__dataclass_fields__:
                names = ", ".join(f.replace("_", ".") for f in cls.__dataclass_fields__)
                raise click.BadParameter(f"{name!r} is not one of {names}", param_hint="--formatter-property")
            elif attribute.startswith("print_"):
                settings[attribute] = text.strip().lower() == "true"
            else:
                settings[attribute] = text.encode()
        return cls(**settings)

    def line(self, record: ConsumerRecord) -> bytes:
        """The record as Kafka's console consumer prints it, with its line separator.

        Raises:
            FormatError: bytes that a deserializer does not read.
        """
        parts: list[bytes] = []
        if self.print_timestamp:
            kind = "LogAppendTime" if record.timestamp_type == 1 else "CreateTime"
            parts.append(f"{kind}:{record.timestamp}".encode() if record.timestamp >= 0 else b"NO_TIMESTAMP")
        if self.print_partition:
            parts.append(b"Partition:%d" % record.partition)
        if self.print_offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.print_delivery:
            parts.append(b"Delivery:NOT_PRESENT")
        if self.print_epoch:
            has_epoch = record.leader_epoch >= 0
            parts.append(b"Epoch:%d" % record.leader_epoch if has_epoch else b"Epoch:NOT_PRESENT")
        if self.print_headers:
            pairs = [
                b"%s:%s" % (k.encode(), self._text(v, self.headers_deserializer)) for k, v in record.headers
            ]
            parts.append(self.headers_separator.join(pairs) if pairs else b"NO_HEADERS")
        if self.print_key:
            parts.append(self._text(record.key, self.key_deserializer))
        if self.print_value:
            parts.append(self._text(record.value, self.value_deserializer))
        return self.key_separator.join(parts) + self.line_separator if parts else b""

    def _text(self, data: bytes | None, deserialize: Deserialize) -> bytes:
        return self.null_literal if data is None else deserialize(data)


class NoFormatter(Formatter):
    """Prints nothing, as Kafka's NoOpMessageFormatter: records are only counted."""

    def line(self, record: ConsumerRecord) -> bytes:  # noqa: ARG002
        """Nothing."""
        return b""


#: The last word of the names that Kafka's formatters have had, with or without their class around them.
FORMATTERS: dict[str, type[Formatter]] = {
    "DefaultMessageFormatter": Formatter,
    "NoOpMessageFormatter": NoFormatter,
}


def formatter_class(name: str) -> type[Formatter]:
    """The formatter of a `--formatter` class name.

    Raises:
        click.BadParameter: it is not built in.
    """
    try:
        return FORMATTERS[name.rpartition(".")[2].rpartition("$")[2]]
    except KeyError:
        raise click.BadParameter(
            f"{name!r}: Java classes cannot be loaded; built in are {', '.join(FORMATTERS)}",
            param_hint="--formatter",
        ) from None
