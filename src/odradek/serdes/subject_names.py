"""Subjects by topic, field and record: what Confluent calls subject name strategies. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from odradek.client.errors import ConfigError


class MessageField:
    """The two fields of a record that have schemas."""

    KEY = "key"
    VALUE = "value"


class SerializationContext(NamedTuple):
    """For what record something is serialized.

    Attributes:
        field: key or value.
    """

    topic: str
    field: str = MessageField.VALUE


SubjectNameStrategy = Callable[[SerializationContext, str | None], str | None]
"""From the context and the record's full name (of JSON Schema its title) to the subject."""


def topic_subject_name_strategy(ctx: SerializationContext, record_name: str | None) -> str | None:  # noqa: ARG001
    """Return the topic's name and `-key` or `-value`: one schema evolves in a topic (TopicNameStrategy)."""
    return f"{ctx.topic}-{ctx.field}"


def record_subject_name_strategy(ctx: SerializationContext, record_name: str | None) -> str | None:  # noqa: ARG001
    """Return the record's name, whatever the topic (RecordNameStrategy)."""
    return record_name


def topic_record_subject_name_strategy(ctx: SerializationContext, record_name: str | None) -> str | None:
    """Return the topic's and the record's name (TopicRecordNameStrategy)."""
    return None if record_name is None else f"{ctx.topic}-{record_name}"


_STRATEGIES: Mapping[str, SubjectNameStrategy] = {
    "TOPIC": topic_subject_name_strategy,
    "RECORD": record_subject_name_strategy,
    "TOPIC_RECORD": topic_record_subject_name_strategy,
    "TopicNameStrategy": topic_subject_name_strategy,
    "RecordNameStrategy": record_subject_name_strategy,
    "TopicRecordNameStrategy": topic_record_subject_name_strategy,
}


def subject_name_strategy(value: Any) -> SubjectNameStrategy:
    """Return the strategy of a config: a callable, a type of confluent-kafka's, or a class of Confluent's.

    Raises:
        ConfigError: it is none.
    """
    if callable(value):
        return value  # type: ignore[no-any-return]
    strategy = _STRATEGIES.get(str(value).rpartition(".")[2])
    if strategy is None:
        raise ConfigError(
            f"subject.name.strategy={value!r}: give a callable, or one of {', '.join(_STRATEGIES)}"
        )
    return strategy
