"""Keys and values to bytes and back: callables, or objects with Kafka's `serialize`/`deserialize` methods.

Without one, a producer takes bytes (any buffer), str (UTF-8) and None, and a consumer gives bytes.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from typing import Any

from odradek.client.errors import ConfigError, SerializationError

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


def resolve(value: Any, method: str, key: str) -> Serialize | None:
    """A config value as `f(topic, data)`, None for "as is".

    Args:
        value: None, a callable of one argument (data) or two (topic, data), an object with `method`, or the
            name of one of Kafka's own classes.
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
    function = getattr(value, method, value)
    if not callable(function):
        raise ConfigError(f"{key}={value!r} is neither callable nor has {method}()")
    if _takes_two(function):
        return function  # type: ignore[no-any-return]
    return lambda topic, data: function(data)


def _takes_two(function: Callable[..., Any]) -> bool:
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
    """
    if serialize is not None:
        try:
            value = serialize(topic, value)
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
