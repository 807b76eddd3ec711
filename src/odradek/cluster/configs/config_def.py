"""Typed configs: what a table of configs is made of, and how a value in text becomes one in Python.

Types, the reading of text and the wording of complaints follow Kafka's `ConfigDef`, since tools show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from odradek.errors import OdradekError
from odradek.util.java_text import java_double, java_trim

ConfigValue = bool | int | float | str | list[str] | None

HIDDEN = "[hidden]"
"""Shown in place of a password."""


class ConfigError(OdradekError):
    """A config that cannot be: an unknown name, or a value of the wrong kind. The message names both."""

    @staticmethod
    def invalid(name: str, value: object, why: str | None = None) -> ConfigError:
        """The complaint about a value."""
        return ConfigValueError(
            f"Invalid value {value} for configuration {name}" + (f": {why}" if why else "")
        )


class ConfigValueError(ConfigError):
    """A value that is not of its config's kind."""


class ConfigType(Enum):
    """Kafka's config types; the values are those of DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_LIMITS = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}

HIGH, MEDIUM, LOW = "high", "medium", "low"


class Validator(NamedTuple):
    """The values that a config may have: `text` says it, `why_not` complains (None: the value is fine)."""

    text: str
    why_not: Callable[[ConfigValue], str | None]


class ConfigKey(NamedTuple):
    """One config of a table.

    Attributes:
        name: Kafka's.
        type: of its values.
        default: in text; None for no value.
        importance: `high`, `medium` or `low`.
        validator: None when every value of the type will do.
    """

    name: str
    type: ConfigType
    default: str | None
    importance: str = MEDIUM
    validator: Validator | None = None

    @property
    def is_sensitive(self) -> bool:
        """Return whether its value must never be shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str | None) -> ConfigValue:
        """Read and check a value.

        Raises:
            ConfigError: it is not of the type, or not one that the validator admits.
        """
        if text is None:
            return None
        value = parse_value(self.name, text, self.type)
        if self.validator is not None:
            why = self.validator.why_not(value)
            if why is not None:
                shown = HIDDEN if self.is_sensitive else _shown(value, why)
                raise ConfigError.invalid(self.name, shown, why.replace("{name}", self.name))
        return value


def _shown(value: ConfigValue, why: str) -> str | None:
    """The value in a complaint: as Java prints it; of a list that has a wrong entry, that one."""
    if isinstance(value, list):
        if isinstance(why, _WrongEntry):
            return why.entry
        return f"[{', '.join(value)}]"
    return to_text(value)


class _WrongEntry(str):
    """A complaint about one entry of a list."""

    __slots__ = ("entry",)
    entry: str


def parse_value(name: str, text: str, kind: ConfigType) -> ConfigValue:
    """Read a value as `ConfigDef` does.

    Raises:
        ConfigError: it is not of the type.
    """
    value = java_trim(text)
    if kind is ConfigType.BOOLEAN:
        lowered = value.lower()
        if lowered not in ("true", "false"):
            raise ConfigError.invalid(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if kind in _LIMITS:
        low, high = _LIMITS[kind]
        # More than `int` checks: it also takes underscores, blanks and a text of any length.
        digits = value[1:] if value[:1] in ("-", "+") else value
        if not (digits.isdecimal() and len(digits) <= 20 and low <= int(value) <= high):
            raise ConfigError.invalid(name, text, f"Not a number of type {kind.name}")
        return int(value)
    if kind is ConfigType.DOUBLE:
        try:
            # `float` takes both, Java does not.
            if "_" in value or not value.isascii():
                raise ValueError(value)
            return float(value)
        except ValueError:
            raise ConfigError.invalid(name, text, "Not a number of type DOUBLE") from None
    if kind is ConfigType.LIST:
        return [part.strip() for part in value.split(",")] if value else []
    return value


def to_text(value: ConfigValue) -> str | None:
    """A value as DescribeConfigs shows it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, float):
        return java_double(value)
    return str(value)


def at_least(minimum: float) -> Validator:
    """A number from `minimum`."""
    return between(minimum, None)


def between(minimum: float, maximum: float | None) -> Validator:
    """A number from `minimum` to `maximum`, both included."""

    def why_not(value: ConfigValue) -> str | None:
        if not isinstance(value, int | float):
            return "Value must be non-null"
        if value < minimum:
            return f"Value must be at least {minimum}"
        if maximum is not None and value > maximum:
            return f"Value must be no more than {maximum}"
        return None

    return Validator(f"[{minimum},...]" if maximum is None else f"[{minimum},...,{maximum}]", why_not)


def one_of(*choices: str) -> Validator:
    """One of `choices`; of a list, each entry."""
    listed = ", ".join(choices)

    def why_not(value: ConfigValue) -> str | None:
        for entry in value if isinstance(value, list) else [value]:
            if entry not in choices:
                why = _WrongEntry(f"String must be one of: {listed}")
                why.entry = str(entry)
                return why
        return None

    return Validator(f"[{listed}]", why_not)


def one_of_ignoring_case(*choices: str) -> Validator:
    """One of `choices`, in whatever case."""
    listed = ", ".join(choices)
    lowered = {choice.lower() for choice in choices}

    def why_not(value: ConfigValue) -> str | None:
        if not isinstance(value, str) or value.lower() not in lowered:
            return f"String must be one of (case insensitive): {listed}"
        return None

    return Validator(f"(case insensitive) [{listed}]", why_not)


def _empty(value: ConfigValue) -> str | None:
    return "String must be non-empty" if value in ("", []) else None


non_empty = Validator("non-empty string", _empty)


def _gzip_level(value: ConfigValue) -> str | None:
    if value == -1 or (isinstance(value, int) and 1 <= value <= 9):
        return None
    return "Value must be between 1 and 9 or equal to -1"


gzip_level = Validator("[1,...,9] or -1", _gzip_level)

_RELEASES = (
    "0.8.0 0.8.1 0.8.2 0.9.0 0.10.0-IV0 0.10.0-IV1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV0 "
    "0.11.0-IV1 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV0 2.0-IV1 2.1-IV0 2.1-IV1 2.1-IV2 2.2-IV0 2.2-IV1 2.3-IV0 "
    "2.3-IV1 2.4-IV0 2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV0 2.7-IV1 2.7-IV2 2.8-IV0 2.8-IV1 3.0-IV0 3.0-IV1 3.1-IV0 "
    "3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 "
    "3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1"
)


def _release(value: ConfigValue) -> str | None:
    text = str(value)
    key = ".".join(text.split(".")[: 3 if text.startswith("0.") else 2])
    for release in _RELEASES.split():
        if key in (release, release.partition("-")[0]):
            return None
    return f"Version {text} is not a valid version"


release = Validator("a release such as 2.8 or 3.0-IV1", _release)


def _throttled(value: ConfigValue) -> str | None:
    entries = value if isinstance(value, list) else []
    if entries == ["*"]:
        return None
    for entry in entries:
        partition, _, broker = entry.partition(":")
        if entry and not (partition.isdigit() and broker.isdigit()):
            return (
                "{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
    return None


throttled_replicas = Validator("[partitionId]:[brokerId],[partitionId]:[brokerId],...", _throttled)


def incremental(
    current: Mapping[str, str],
    operations: Iterable[tuple[str, int, str | None]],
    keys: Mapping[str, ConfigKey],
) -> dict[str, str]:
    """Apply the operations of IncrementalAlterConfigs (KIP-339) to an entity's configs.

    Args:
        current: the configs now.
        operations: `(name, operation, value)`; 0 sets, 1 deletes, 2 appends to and 3 subtracts from a list.
        keys: the table of the configs.

    Raises:
        ConfigError: append or subtract for what is no list or unknown, or an unknown operation.
    """
    configs = dict(current)
    for name, operation, value in operations:
        if operation == SET:
            configs[name] = value or ""
        elif operation == DELETE:
            configs.pop(name, None)
        elif operation in (APPEND, SUBTRACT):
            verb = "append" if operation == APPEND else "subtract"
            key = keys.get(name)
            if key is None:
                raise ConfigError(f"Unknown config name: {name}")
            if key.type is not ConfigType.LIST:
                raise ConfigError(f"Config value {verb} is not allowed for config key: {name}")
            old = [entry for entry in configs.get(name, key.default or "").split(",") if entry]
            entries = (value or "").split(",")
            if operation == APPEND:
                new = old + [entry for entry in entries if entry not in old]
            else:
                new = [entry for entry in old if entry not in entries]
            configs[name] = ",".join(new)
        else:
            raise ConfigError(f"Unknown operations type {operation}")
    return configs


SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
