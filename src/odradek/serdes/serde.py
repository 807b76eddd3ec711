"""The common part of serializers and deserializers: how they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.client.errors import SerializationError
from odradek.client.serialization import LookupNeeded, Serialize, after_lookups, takes_two
from odradek.serdes.schemas import Schema
from odradek.serdes.subject_names import SerializationContext

Convert = Callable[[Any, SerializationContext], Any]


class Serde:
    """A function of a value and its context, as clients and applications call it.

    Args:
        work: the function; it may need lookups.
        done: serialized or deserialized, for messages.
    """

    def __init__(self, work: Convert, done: str) -> None:
        self._work = work
        self._done = done

    def called(self, value: Any, ctx: Any) -> Any:
        """Return what the function makes of a value, after the lookups that it needs.

        Args:
            ctx: a `SerializationContext`, of ours or confluent-kafka's.

        Raises:
            SerializationError: it cannot be made.
        """
        if value is None:
            return None
        if ctx is None:
            raise SerializationError("it needs a SerializationContext, which says of what topic the value is")
        context = SerializationContext(str(ctx.topic), getattr(ctx.field, "value", ctx.field))

        def work() -> Any:
            try:
                return self._work(value, context)
            except LookupNeeded as needed:
                needed.about = f"the {context.field} for topic {context.topic!r} cannot be {self._done}"
                raise

        return after_lookups(work)

    def for_field(self, field: str) -> Serialize:
        """Return the function for the keys or the values of a client, to which it says what it needs."""
        work = self._work

        def apply(topic: str, value: Any) -> Any:
            # Null stays null: a tombstone has no schema.
            return None if value is None else work(value, SerializationContext(topic, field))

        return apply


def schema_of(given: str | Schema | None, schema_type: str) -> Schema | None:
    """Return a schema that is given as text, or with its references."""
    return Schema(given, schema_type) if isinstance(given, str) else given


def with_context(convert: Callable[..., Any] | None) -> Convert | None:
    """Return a hook of the application's that takes a value, or a value and its context, as one of both."""
    if convert is None or takes_two(convert):
        return convert
    return lambda value, ctx: convert(value)
