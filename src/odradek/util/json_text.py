"""JSON as registries write it: without blanks, names in the order in which they were given. Pure."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def load_json(text: str) -> Any:
    """Return what a text says.

    Raises:
        ValueError: it is no JSON, has a number that is too large, or is nested too deep.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None


def compact(value: Any, *, is_sorted: bool = False) -> str:
    """Return the JSON of a value, without blanks; in letters as they are, unless there is half a one."""
    text = _dump(value, is_sorted, in_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _dump(value, is_sorted, in_ascii=True)
    return text


def _dump(value: Any, is_sorted: bool, *, in_ascii: bool) -> str:
    return json.dumps(
        value, separators=(",", ":"), ensure_ascii=in_ascii, allow_nan=False, sort_keys=is_sorted
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    return value
