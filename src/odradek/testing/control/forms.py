"""Records, groups and requests of a broker in JSON. Pure.

Bytes are text where they are UTF-8: `value`. Where they are not they are base64 under another name,
`value_base64`, so that nobody takes one for the other. null is null.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, NoReturn

from odradek.testing.control.words import ControlRefusedError

if TYPE_CHECKING:
    from odradek.testing.looking.comparing import RecordLike
    from odradek.testing.looking.groups import CommittedOffset, Group, Topic
    from odradek.testing.looking.records import StoredRecord
    from odradek.testing.looking.requests import RecordedRequest
    from odradek.util.topic_partition import TopicPartition

_BASE64 = "_base64"


def shown_bytes(name: str, data: bytes | None) -> dict[str, Any]:
    """Return bytes under the name that says their form."""
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {name + _BASE64: base64.b64encode(data or b"").decode()}


def shown_record(record: StoredRecord) -> dict[str, Any]:
    """Return a record; `state` as of `StoredRecord`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **shown_bytes("key", record.key),
        **shown_bytes("value", record.value),
        "headers": [{"name": name, **shown_bytes("value", value)} for name, value in record.headers],
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "state": record.state,
    }


def shown_request(request: RecordedRequest) -> dict[str, Any]:
    """Return a request, with its body in Kafka's JSON form, where bytes are base64."""
    return {
        "api": request.api,
        "version": request.version,
        "client_id": request.client_id,
        "correlation_id": request.correlation_id,
        "broker": request.broker_id,
        "listener": request.listener,
        "user": request.user,
        "at_ms": request.at_ms,
        "body": request.body,
    }


def shown_topic(topic: Topic) -> dict[str, Any]:
    """Return a topic, without its name: `start` and `end` are those of the partition's log."""
    return {
        "partitions": [
            {"partition": index, "start": start, "end": end}
            for index, (start, end) in sorted(topic.partitions.items())
        ],
        "configs": topic.configs,
    }


def shown_group(group: Group) -> dict[str, Any]:
    """Return a group, without its name."""
    return {
        "state": group.state,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "generation": group.generation,
        "leader": group.leader,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "group_instance_id": member.group_instance_id,
                "assignment": [_shown_partition(partition) for partition in member.assignment],
            }
            for member in group.members
        ],
        "offsets": [
            _shown_partition(partition) | shown_commit(committed)
            for partition, committed in group.offsets.items()
        ],
    }


def shown_commit(committed: CommittedOffset) -> dict[str, Any]:
    """Return an offset that a group has committed."""
    return {
        "offset": committed.offset,
        "lag": committed.lag,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
    }


def _shown_partition(partition: TopicPartition) -> dict[str, Any]:
    topic, index = partition
    return {"topic": topic, "partition": index}


# ---------------------------------------------------------------------- records that are sent


def read_record(given: Any) -> RecordLike:
    """Return a record to be put into a topic: a value, a key and a value, or an object of its parts.

    Raises:
        ControlRefusedError: it is none.
        TypeError: it has a part that there is not, see `odradek.testing.looking.comparing.parts_of`.
    """
    if isinstance(given, list) and len(given) == 2:
        return (_text(given[0]), _text(given[1]))
    if not isinstance(given, dict):
        return _text(given)
    parts = {**given, **_read_bytes(given, "key"), **_read_bytes(given, "value")}
    for name in ("key", "value"):
        parts.pop(name + _BASE64, None)
    for name, most in (("partition", 2**31), ("timestamp_ms", 2**63)):
        number = parts.get(name, 0)
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < most:
            _refuse(given)
    if "headers" in parts:
        parts["headers"] = _read_headers(parts["headers"])
    return parts


def _read_headers(given: Any) -> list[tuple[str, bytes | None]]:
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        _refuse(given)
    headers = []
    for header in given:
        if not isinstance(header, dict) or set(header) - {"name", "value", "value" + _BASE64}:
            _refuse(header)
        if not isinstance(header.get("name"), str):
            _refuse(header)
        headers.append((header["name"], _read_bytes(header, "value").get("value")))
    return headers


def _read_bytes(given: dict[str, Any], name: str) -> dict[str, bytes | None]:
    """Return the bytes of a name, if there are any."""
    coded = name + _BASE64
    if coded in given:
        if name in given or not isinstance(given[coded], str):
            _refuse(given)
        try:
            return {name: base64.b64decode(given[coded], validate=True)}
        except binascii.Error as problem:
            raise ControlRefusedError(400, f"{coded} is {given[coded]!r:.80}: {problem}") from None
    if name not in given:
        return {}
    text = _text(given[name])
    return {name: None if text is None else text.encode()}


def _text(given: Any) -> str | None:
    return given if given is None or isinstance(given, str) else _refuse(given)


def _refuse(given: Any) -> NoReturn:
    raise ControlRefusedError(
        400,
        f"{given!r:.80} is no record, nor a part of one",
        "a record is text, [key, value], or an object of key, value, headers, timestamp_ms, partition; "
        "bytes that are no text have key_base64, value_base64",
    )
