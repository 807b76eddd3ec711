"""Arguments of the clients' calls: how they are read, and the errors for those that cannot be.

A str is an iterable of its letters, so `delete_topics("os")` would delete the topics `o` and `s`: where names
are asked for, a str is refused. What can mean one thing only is taken: a datetime is a timestamp, and a
number of another library's is a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, SupportsInt

from odradek.client.errors import ArgumentTypeError, IllegalArgumentError, SerializationError
from odradek.client.types import ByPartition, HeadersLike, NewTopic, OffsetAndMetadata, TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

TOO_LATE_MS = 2**63 - 1
"""The first timestamp that is refused: its delta to a base timestamp of -1 would be no int64."""


def names_of(given: Iterable[str], argument: str) -> list[str]:
    """Return names that are given one by one.

    Args:
        argument: its name, for the error.

    Raises:
        ArgumentTypeError: it is one str, or no iterable, or has something else than text.
    """
    if isinstance(given, str | bytes):
        raise ArgumentTypeError(f"{argument} is {given!r}, and a list of names is asked for: [{given!r}]")
    try:
        names = list(given)
    except TypeError:
        raise ArgumentTypeError(f"{argument} is {given!r}, and a list of names is asked for") from None
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"{argument}: a name is text, not {type(name).__name__}: {name!r}")
    return names


def name_of(given: str, argument: str) -> str:
    """Return a name that is given alone.

    Args:
        argument: its name, for the error.

    Raises:
        ArgumentTypeError: it is no text.
    """
    if not isinstance(given, str):
        raise ArgumentTypeError(f"{argument} is {given!r}, and one name is asked for")
    return given


def new_topics_of(given: Iterable[NewTopic | str]) -> list[NewTopic]:
    """Return topics to be created that are given one by one, some perhaps by their names.

    Raises:
        ArgumentTypeError: it is one name or topic, or has something else.
    """
    if isinstance(given, Mapping):
        # Taken for its names, it would lose what it says of them: kafka-python takes {name: options}.
        raise ArgumentTypeError(f"topics is {given!r}, and a list of names or of NewTopics is asked for")
    if isinstance(given, NewTopic):
        raise ArgumentTypeError(f"topics is one NewTopic, and a list is asked for: [{given!r}]")
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = names_of(given, "topics")  # which raises
    topics = []
    for topic in given:
        if not isinstance(topic, NewTopic | str):
            raise ArgumentTypeError(
                f"topics: a topic is given as a NewTopic, or by its name: {topic!r} is neither"
            )
        topics.append(NewTopic(topic) if isinstance(topic, str) else topic)
    return topics


def topic_partition(given: Any) -> TopicPartition:
    """Return a partition that is given as a (topic, number) pair.

    Raises:
        ArgumentTypeError: it is no such pair.
        IllegalArgumentError: the topic's name is empty.
    """
    if isinstance(given, str | bytes):
        raise ArgumentTypeError(f"{given!r} is no partition: a (topic, number) pair is, ({given!r}, 0)")
    try:
        topic, number = given
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"{given!r} is no partition: a (topic, number) pair is, ('orders', 0)"
        ) from None
    if not isinstance(topic, str):
        raise ArgumentTypeError(f"a topic's name is text, not {type(topic).__name__}: {topic!r}")
    if not topic:
        raise IllegalArgumentError("a topic's name is text that is not empty")
    return TopicPartition(
        topic, number if type(number) is int else whole_number(number, f"partition of {topic!r}")
    )


def partitions_of(given: Iterable[Any], argument: str = "partitions") -> list[TopicPartition]:
    """Return partitions that are given as (topic, number) pairs, one by one.

    Args:
        argument: its name, for the error.

    Raises:
        ArgumentTypeError: it is a str or a single pair, or no iterable, or has something else than pairs.
        IllegalArgumentError: a topic's name is empty.
    """
    pair: Any = None
    if isinstance(given, str | bytes):
        pair = (given, 0)
    elif isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        pair = tuple(given)
    if pair is not None:
        raise ArgumentTypeError(
            f"{argument} is {given!r}, and a list of (topic, number) pairs is asked for: [{pair!r}]"
        )
    try:
        pairs = list(given)
    except TypeError:
        raise ArgumentTypeError(
            f"{argument} is {given!r}, and a list of (topic, number) pairs is asked for"
        ) from None
    return [topic_partition(pair) for pair in pairs]


def whole_number(given: Any, argument: str) -> int:
    """Return a number of any type (numpy's, a float without a fraction) as an int.

    Raises:
        ArgumentTypeError: it is none.
    """
    if isinstance(given, SupportsInt) and not isinstance(given, str | bytes):
        try:
            number = int(given)
        except (TypeError, ValueError, OverflowError):
            pass
        else:
            if number == given:
                return number
    raise ArgumentTypeError(f"{argument} is {given!r}, and a whole number is asked for")


def partition_number(given: Any) -> int:
    """Return the number of a partition that a record is to go to.

    Raises:
        IllegalArgumentError: it is no number, or negative.
    """
    number = whole_number(given, "partition")
    if number < 0:
        raise IllegalArgumentError(f"partition is {number}: it cannot be negative")
    return number


def epoch_ms(given: Any, argument: str) -> int:
    """Return a time as milliseconds since the epoch.

    Args:
        given: those, or a datetime. One without a time zone is local time, as for `datetime.timestamp`.
        argument: its name, for the error.

    Raises:
        ArgumentTypeError: it is neither.
    """
    if isinstance(given, datetime):
        # Not by `timestamp`, whose float may be a millisecond off.
        moment = given if given.tzinfo is not None else _plain(given).astimezone()
        return (moment - _EPOCH) // _MILLISECOND
    if isinstance(given, SupportsInt) and not isinstance(given, str | bytes):
        return int(given)
    raise ArgumentTypeError(
        f"{argument} is {given!r}, and milliseconds since the epoch, or a datetime, are asked for"
    )


def mapping_of(given: Mapping[Any, Any], argument: str, example: str) -> Mapping[Any, Any]:
    """Return a mapping that is given.

    Args:
        argument: its name, for the error.
        example: one that would be taken, for the error.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"{argument} is {given!r}, and a mapping is asked for: {example}")
    return given


def offsets_of(given: Mapping[Any, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets to commit by partition, some perhaps as plain numbers.

    Raises:
        ArgumentTypeError: it is no mapping, a key is no partition, or a value no offset.
    """
    return {
        tp: offset
        if isinstance(offset, OffsetAndMetadata)
        else OffsetAndMetadata(whole_number(offset, f"the offset of {tp}"))
        for tp, offset in by_partition(given, "offsets", "{('orders', 0): 7}").items()
    }


def by_partition(given: Mapping[Any, Any], argument: str, example: str) -> dict[TopicPartition, Any]:
    """Return what is given by partition; see `mapping_of`.

    Raises:
        ArgumentTypeError: it is no mapping, or a key is no partition.
    """
    return {topic_partition(key): value for key, value in mapping_of(given, argument, example).items()}


def times_of(given: ByPartition[int | datetime]) -> dict[TopicPartition, int]:
    """Return times by partition, as milliseconds since the epoch; see `epoch_ms`.

    Raises:
        IllegalArgumentError: it is no mapping, a key is no partition, or a value no time.
    """
    times = by_partition(given, "timestamps", "{('orders', 0): datetime(2026, 1, 1)}")
    return {tp: epoch_ms(time, f"the time for {tp}") for tp, time in times.items()}


def _plain(moment: datetime) -> datetime:
    """Return it as Python's own class: for pandas' a time without a zone is UTC."""
    return datetime(
        moment.year,
        moment.month,
        moment.day,
        moment.hour,
        moment.minute,
        moment.second,
        moment.microsecond,
        fold=moment.fold,
    )


def record_timestamp(given: Any) -> int:
    """Return a record's timestamp as milliseconds since the epoch; see `epoch_ms`.

    Raises:
        IllegalArgumentError: it is no time, or one that a record cannot have.
    """
    timestamp_ms = epoch_ms(given, "timestamp_ms")
    if not 0 <= timestamp_ms < TOO_LATE_MS:
        raise IllegalArgumentError(f"timestamp_ms is {timestamp_ms}: milliseconds since the epoch")
    return timestamp_ms


def header_pairs(headers: HeadersLike) -> tuple[tuple[str, bytes | None], ...]:
    """Return a record's headers as (name, value) pairs, text as UTF-8.

    Raises:
        ArgumentTypeError: they are no such pairs.
        SerializationError: a name is no text, or a value neither bytes, text nor None.
    """
    items: Iterable[Any] = headers
    if type(headers) is not list and type(headers) is not tuple and isinstance(headers, Mapping):
        items = headers.items()
    pairs: list[tuple[str, bytes | None]] = []
    try:
        for item in items:
            # One of two letters would be a pair of these.
            if type(item) is str:
                raise ValueError
            name, value = item
            if not isinstance(name, str):
                raise SerializationError(f"a header's name is {type(name).__name__}: str it must be")
            if isinstance(value, str):
                value = value.encode()
            elif not (value is None or isinstance(value, bytes)):
                if not isinstance(value, bytearray | memoryview):
                    raise SerializationError(
                        f"header {name!r} is {type(value).__name__}: bytes, str or None it must be"
                    )
                value = bytes(value)
            pairs.append((name, value))
    except (TypeError, ValueError):
        raise ArgumentTypeError(_no_headers(headers)) from None
    return tuple(pairs)


def _no_headers(headers: Any) -> str:
    return f"headers are (name, value) pairs, [('source', b'docs')], or a mapping, not {headers!r}"
