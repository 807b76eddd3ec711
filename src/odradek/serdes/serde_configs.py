"""The configs of serializers and deserializers, under confluent-kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from odradek.client.config import python_name
from odradek.client.errors import ConfigError
from odradek.serdes.subject_names import (
    SubjectNameStrategy,
    subject_name_strategy,
    topic_subject_name_strategy,
)


@dataclass(frozen=True)
class SerdeConfigs:
    """The configs of one serializer or deserializer.

    Attributes:
        auto_register_schemas: whether a schema is registered that the subject does not have.
        normalize_schemas: whether the registry normalizes it for that, or to find it.
        use_schema_id: the schema of this id is taken, whatever the subject has.
        use_latest_version: the newest version of the subject is taken.
        use_latest_with_metadata: the newest version with these properties is taken.
        subject_name_strategy: the subject of a topic's records.
        validate: whether JSON has to be what its schema says.
        validate_strict, validate_strict_allow_default: fastavro's `strict` and `strict_allow_default`.
        skip_known_types: whether files that come with protobuf are left out of the references.
    """

    auto_register_schemas: bool = True
    normalize_schemas: bool = False
    use_schema_id: int | None = None
    use_latest_version: bool = False
    use_latest_with_metadata: Mapping[str, str] | None = None
    subject_name_strategy: SubjectNameStrategy = topic_subject_name_strategy
    validate: bool = True
    validate_strict: bool = False
    validate_strict_allow_default: bool = False
    skip_known_types: bool = True

    @property
    def takes_registered(self) -> bool:
        """Return whether what the registry has is taken, not what the application has."""
        return (
            self.use_latest_version
            or self.use_latest_with_metadata is not None
            or self.use_schema_id is not None
        )


_SUBJECTS = ("use.latest.version", "use.latest.with.metadata", "subject.name.strategy")
_SERIALIZERS = ("auto.register.schemas", "normalize.schemas", "use.schema.id", *_SUBJECTS)
NAMES = {
    "AvroSerializer": (*_SERIALIZERS, "validate.strict", "validate.strict.allow.default"),
    "AvroDeserializer": _SUBJECTS,
    "JSONSerializer": (*_SERIALIZERS, "validate"),
    "JSONDeserializer": (*_SUBJECTS, "validate"),
    "ProtobufSerializer": (*_SERIALIZERS, "skip.known.types"),
    "ProtobufDeserializer": (),
}
"""The configs of each class."""


def serde_configs(class_name: str, conf: Mapping[str, Any] | None) -> SerdeConfigs:
    """Make the configs of what an application gives.

    Args:
        class_name: whose they are, as in `NAMES`.
        conf: by names in Kafka's spelling or in Python's.

    Raises:
        ConfigError: one cannot be used, or is not known, or two exclude each other.
    """
    values: dict[str, Any] = {}
    for given_name, value in (conf or {}).items():
        name = python_name(given_name).replace("_", ".")
        # Programs for confluent-kafka have to say that they do not want it.
        if name == "use.deprecated.format" and class_name.startswith("Protobuf") and value is False:
            continue
        if name == "subject.name.strategy.type":
            name = "subject.name.strategy"
        if name not in NAMES[class_name]:
            near = next(iter(get_close_matches(name, NAMES[class_name], n=1)), "")
            hint = f"; did you mean {near}?" if near else f"; there are {', '.join(NAMES[class_name])}"
            raise ConfigError(f"{given_name}: {class_name} has no such config{hint}")
        if value is not None:
            convert: Callable[[str, Any], Any] = _CONVERTERS.get(name, _to_bool)
            values[name.replace(".", "_")] = convert(name, value)
    configs = SerdeConfigs(**values)
    taken = [name for name in NAMES["AvroSerializer"] if name.startswith("use.") and _is_set(configs, name)]
    if len(taken) > 1:
        raise ConfigError(f"{' and '.join(taken)} exclude each other")
    if taken and values.get("auto_register_schemas"):
        raise ConfigError(f"{taken[0]} and auto.register.schemas exclude each other")
    return configs


def _is_set(configs: SerdeConfigs, name: str) -> bool:
    return getattr(configs, name.replace(".", "_")) not in (None, False)


def _to_bool(name: str, value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ConfigError(f"{name}={value!r}: neither true nor false")
    return value


def _to_id(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{name}={value!r}: not the id of a schema")
    return value


def _to_properties(name: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}={value!r}: give a mapping of properties")
    return dict(value)


def _to_strategy(name: str, value: Any) -> SubjectNameStrategy:  # noqa: ARG001
    return subject_name_strategy(value)


_CONVERTERS: dict[str, Callable[[str, Any], Any]] = {
    "use.schema.id": _to_id,
    "use.latest.with.metadata": _to_properties,
    "subject.name.strategy": _to_strategy,
}
