"""Compatibility levels: with which earlier schemas a new one has to get along, and which way. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.schema_registry.parsed_schema import IncomparableError, ParsedSchema

NEW, OLD = "new", "old"
DIFFERENT_TYPE = "Incompatible because of different schema type"
_MOST_SHOWN = 10 * 1024
"""Characters of an old schema that a message has."""


class _Level(NamedTuple):
    """Attributes:
    is_backward: the new schema reads what earlier ones have written.
    is_forward: earlier ones read what the new one writes.
    is_transitive: all earlier ones count, not only the newest.
    """

    is_backward: bool
    is_forward: bool
    is_transitive: bool


LEVELS = {
    "NONE": _Level(False, False, False),
    "BACKWARD": _Level(True, False, False),
    "BACKWARD_TRANSITIVE": _Level(True, False, True),
    "FORWARD": _Level(False, True, False),
    "FORWARD_TRANSITIVE": _Level(False, True, True),
    "FULL": _Level(True, True, False),
    "FULL_TRANSITIVE": _Level(True, True, True),
}
DEFAULT_LEVEL = "BACKWARD"


class Earlier(NamedTuple):
    """A version that is there already."""

    version: int
    schema_type: str
    parsed: ParsedSchema


def problems(level: str, schema_type: str, new: ParsedSchema, earlier: Sequence[Earlier]) -> list[str]:
    """Return what is wrong with a new schema, as messages; nothing if it is compatible.

    Args:
        level: of `LEVELS`.
        earlier: the versions before it, the newest last.
    """
    rule = LEVELS[level]
    if not (rule.is_backward or rule.is_forward):
        return []
    for old in reversed(earlier if rule.is_transitive else earlier[-1:]):
        try:
            messages = _between(rule, schema_type, new, old)
        except (IncomparableError, RecursionError) as problem:
            why = "they are nested too deep" if isinstance(problem, RecursionError) else str(problem)
            messages = [f"Incompatible because the schemas cannot be compared: {why}"]
        if messages:
            return [*messages, f"{{validateFields: 'false', compatibility: '{level}'}}"]
    return []


def _between(rule: _Level, schema_type: str, new: ParsedSchema, old: Earlier) -> list[str]:
    if old.schema_type != schema_type:
        return [DIFFERENT_TYPE]
    messages: list[str] = []
    if rule.is_forward:
        messages += [difference.told(OLD, NEW) for difference in old.parsed.differences(new)]
    if rule.is_backward:
        messages += [difference.told(NEW, OLD) for difference in new.differences(old.parsed)]
    if not messages:
        return []
    shown = old.parsed.text
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}..."
    return [*messages, f"{{oldSchemaVersion: {old.version}}}", f"{{oldSchema: '{shown}'}}"]
