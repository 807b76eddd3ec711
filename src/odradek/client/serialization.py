"""Keys and values to bytes and back: callables, or objects with Kafka's `serialize`/`deserialize` methods.

Without one, a producer takes bytes (any buffer), str (UTF-8) and None, and a consumer gives bytes.

Those of `odradek.serdes` have a method `for_field` instead, which is told "key" or "value" and gives a
callable of topic and data. It raises `LookupNeeded` rather than wait: the shells around the core do that.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from odradek.client.errors import ConfigError, SerializationError

T = TypeVar("T")
Serialize = Callable[[str, Any], Any]

_PREFIX = "org.apache.kafka.common.serialization."
_LONG, _INT, _DOUBLE = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">d")

#: Kafka's own classes by name, for configs that come from properties files.
_SERIALIZERS: dict[str, Callable[[Any], Any] | None] = {
    "ByteArraySerializer": None,
    "BytesSerializer": None,
    "StringSerializer": lambda value: value if value is None else str(value).encode(),
    "LongSerializer": lambda value: value if value is None else _LONG.pack(value),
    "IntegerSerializer": lambda value: value if value is None else _INT.pack(value),
    "DoubleSerializer": lambda value: value if value is None else _DOUBLE.pack(value),
}
_DESERIALIZERS: dict[str, Callable[[Any], Any] | None] = {
    "ByteArrayDeserializer": None,
    "BytesDeserializer": None,
    "StringDeserializer": lambda data: None if data is None else data.decode(),
    "LongDeserializer": lambda data: None if data is None else _LONG.unpack(data)[0],
    "IntegerDeserializer": lambda data: None if data is None else _INT.unpack(data)[0],
    "DoubleDeserializer": lambda data: None if data is None else _DOUBLE.unpack(data)[0],
}


class LookupNeeded(Exception):
    """A serializer or deserializer lacks what has to be asked for, such as a schema of a registry.

    Who meets it calls `load`, which may take long, and then does again what has raised it.

    Args:
        look_up: asks for it.

    Attributes:
        about: the start of a sentence about what cannot be done without it.
    """

    def __init__(self, look_up: Callable[[], object]) -> None:
        super().__init__("a lookup is needed")
        self._look_up = look_up
        self.about = "a lookup failed"

    def load(self) -> None:
        """Look it up.

        Raises:
            SerializationError: it cannot be had.
        """
        try:
            self._look_up()
        except Exception as problem:
            raise SerializationError(f"{self.about}: {problem}") from problem


def after_lookups(work: Callable[[], T]) -> T:
    """Return what `work` does, after the lookups that it needs, which the calling thread makes.

    Raises:
        SerializationError: a lookup failed.
        Exception: what `work` raises.
    """
    while True:
        try:
            return work()
        except LookupNeeded as needed:
            needed.load()


def resolve(value: Any, method: str, key: str) -> Serialize | None:
    """A config value as `f(topic, data)`, None for "as is".

    Args:
        value: None, a callable of one argument (data) or two (topic, data), an object with `method`, or the
            name of one of Kafka's own classes; or one with `for_field`.
        method: 'serialize' or 'deserialize'.
        key: the config's name for the error.
    """
    if value is None:
        return None
    if isinstance(value, str):
        classes = _SERIALIZERS if method == "serialize" else _DESERIALIZERS
        name = value.removeprefix(_PREFIX)
        if name not in classes:
            raise ConfigError(f"{key}={value!r}: give a callable, or one of {', '.join(classes)}")
        value = classes[name]
        if value is None:
            return None
    if isinstance(value, type):
        value = value()
    bind = getattr(value, "for_field", None)
    if bind is not None:
        return bind(key.partition(".")[0])  # type: ignore[no-any-return]
    function = getattr(value, method, value)
    if not callable(function):
        raise ConfigError(f"{key}={value!r} is neither callable nor has {method}()")
    if takes_two(function):
        return function  # type: ignore[no-any-return]
    return lambda topic, data: function(data)


def takes_two(function: Callable[..., Any]) -> bool:
    """Return whether a function needs two arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [
        p
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    return len(required) == 2


def to_bytes(serialize: Serialize | None, topic: str, value: Any, part: str) -> Any:
    """Serialize a key or value.

    Raises:
        SerializationError: the serializer refuses it; or there is none, and it is no bytes or text.
        LookupNeeded: the serializer needs one.
    """
    if serialize is not None:
        try:
            value = serialize(topic, value)
        except LookupNeeded as needed:
            needed.about = f"the {part} for topic {topic!r} cannot be serialized"
            raise
        except Exception as problem:
            raise SerializationError(
                f"the {part} for topic {topic!r} cannot be serialized: {problem}"
            ) from problem
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise SerializationError(
        f"the {part} for topic {topic!r} is {type(value).__name__}: bytes, str or None it must be, "
        f"or configure {part}.serializer"
    )
