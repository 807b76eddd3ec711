"""Decoders for `dump-log`, of a record's key and value: text, group metadata and offsets, transactions."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from odradek.errors import ProtocolError
from odradek.records.batch import Record
from odradek.wire.schemas import schema_class

Decoded = tuple[str | None, str | None]
"""Key and value as they are printed; None is left out."""
RecordDecoder = Callable[[Record], Decoded]

# The type in front of a key of __consumer_offsets, and the schemas that belong to it.
_GROUP_SCHEMAS = {
    0: ("OffsetCommitKey", "OffsetCommitValue"),
    1: ("OffsetCommitKey", "OffsetCommitValue"),
    2: ("GroupMetadataKey", "GroupMetadataValue"),
    3: ("ConsumerGroupMetadataKey", "ConsumerGroupMetadataValue"),
    4: ("ConsumerGroupPartitionMetadataKey", "ConsumerGroupPartitionMetadataValue"),
    5: ("ConsumerGroupMemberMetadataKey", "ConsumerGroupMemberMetadataValue"),
    6: ("ConsumerGroupTargetAssignmentMetadataKey", "ConsumerGroupTargetAssignmentMetadataValue"),
    7: ("ConsumerGroupTargetAssignmentMemberKey", "ConsumerGroupTargetAssignmentMemberValue"),
    8: ("ConsumerGroupCurrentMemberAssignmentKey", "ConsumerGroupCurrentMemberAssignmentValue"),
    10: ("ShareGroupMemberMetadataKey", "ShareGroupMemberMetadataValue"),
    11: ("ShareGroupMetadataKey", "ShareGroupMetadataValue"),
    12: ("ShareGroupTargetAssignmentMetadataKey", "ShareGroupTargetAssignmentMetadataValue"),
    13: ("ShareGroupTargetAssignmentMemberKey", "ShareGroupTargetAssignmentMemberValue"),
    14: ("ShareGroupCurrentMemberAssignmentKey", "ShareGroupCurrentMemberAssignmentValue"),
    15: ("ShareGroupStatePartitionMetadataKey", "ShareGroupStatePartitionMetadataValue"),
    16: ("ConsumerGroupRegularExpressionKey", "ConsumerGroupRegularExpressionValue"),
    17: ("StreamsGroupMetadataKey", "StreamsGroupMetadataValue"),
    19: ("StreamsGroupMemberMetadataKey", "StreamsGroupMemberMetadataValue"),
    20: ("StreamsGroupTargetAssignmentMetadataKey", "StreamsGroupTargetAssignmentMetadataValue"),
    21: ("StreamsGroupTargetAssignmentMemberKey", "StreamsGroupTargetAssignmentMemberValue"),
    22: ("StreamsGroupCurrentMemberAssignmentKey", "StreamsGroupCurrentMemberAssignmentValue"),
    23: ("StreamsGroupTopologyKey", "StreamsGroupTopologyValue"),
}

_SHARE_STATE_SCHEMAS = {
    0: ("ShareSnapshotKey", "ShareSnapshotValue"),
    1: ("ShareUpdateKey", "ShareUpdateValue"),
}

_TRANSACTION_SCHEMAS = {0: ("TransactionLogKey", "TransactionLogValue")}

# Kafka's decoder classes, by the last part of their names.
_PLAIN: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": lambda data: data.decode("utf-8", "replace"),
    "DefaultDecoder": lambda data: data.hex(),
    "ByteArrayDecoder": lambda data: data.hex(),
    "IntegerDecoder": lambda data: str(int.from_bytes(data, "big", signed=True)),
    "LongDecoder": lambda data: str(int.from_bytes(data, "big", signed=True)),
}


def plain_decoder(key_class: str, value_class: str) -> RecordDecoder:
    """Keys and values by Kafka's decoder classes.

    Raises:
        click.BadParameter: a class that is none of Kafka's own.
    """
    key, value = _plain(key_class, "--key-decoder-class"), _plain(value_class, "--value-decoder-class")
    return lambda record: (
        None if record.key is None else key(record.key),
        None if record.value is None else value(record.value),
    )


def _plain(name: str, option: str) -> Callable[[bytes], str]:
    try:
        return _PLAIN[name.rpartition(".")[2]]
    except KeyError:
        raise click.BadParameter(f"{name} is not one of {', '.join(_PLAIN)}", param_hint=option) from None


def decode_group_record(record: Record) -> Decoded:
    """A record of `__consumer_offsets`: JSON as Kafka prints it."""
    return _decode(record, _GROUP_SCHEMAS, _unfold_members)


def decode_transaction_record(record: Record) -> Decoded:
    """A record of `__transaction_state`: JSON as Kafka prints it since 4.0."""
    return _decode(record, _TRANSACTION_SCHEMAS)


def decode_share_state_record(record: Record) -> Decoded:
    """A record of `__share_group_state`: JSON as Kafka 4.3 prints it."""
    return _decode(record, _SHARE_STATE_SCHEMAS)


def _decode(
    record: Record,
    schemas: Mapping[int, tuple[str, str]],
    unfold: Callable[[int, dict[str, Any]], None] = lambda record_type, data: None,
) -> Decoded:
    """A record by the type in front of its key; `unfold(type, data)` may change what is printed of it."""
    if record.key is None:
        return f"Error at offset {record.offset}, skipping. The record has no key.", None
    record_type = int.from_bytes(record.key[:2], "big", signed=True)
    if record_type not in schemas or len(record.key) < 2:
        return f"Unknown record type {record_type} at offset {record.offset}, skipping.", None
    classes: list[Any] = [schema_class(name) for name in schemas[record_type]]
    key_class, value_class = classes
    try:
        version = key_class.VERSIONS[-1]
        key, _ = key_class.decode_from(record.key, version, 2)
        key_text = _json({"type": str(record_type), "data": key.to_json(version)})
        if record.value is None:
            return key_text, "<DELETE>"
        value = value_class.decode_prefixed(record.value)
        value_version = int.from_bytes(record.value[:2], "big", signed=True)
        data = value.to_json(value_version)
    except ProtocolError as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    unfold(record_type, data)
    return key_text, _json({"version": str(value_version), "data": data})


def _unfold_members(record_type: int, data: dict[str, Any]) -> None:
    """Put what members of a group of consumers said in place of its bytes."""
    if record_type == 2 and data.get("protocolType") == "consumer":
        for member in data.get("members", []):
            _unfold(member, "subscription", "ConsumerProtocolSubscription")
            _unfold(member, "assignment", "ConsumerProtocolAssignment")


def _unfold(member: dict[str, Any], field: str, schema: str) -> None:
    """Put what a consumer said in place of its bytes, if it is what consumers say."""
    cls = schema_class(schema)
    try:
        content = base64.b64decode(member[field] or "")
        version = int.from_bytes(content[:2], "big", signed=True)
        # A newer client may say more than is known: as in Kafka the newest known version is read then.
        known_version = min(version, cls.VERSIONS[-1])
        message, _ = cls.decode_from(content, known_version, 2)
        member[field] = message.to_json(known_version)
    except (ProtocolError, binascii.Error, ValueError, KeyError):
        return


def _json(data: object) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def header_keys(names: Iterable[str]) -> str:
    """The header names as Kafka prints them."""
    return f"[{','.join(names)}]"
