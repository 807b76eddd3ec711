"""The words of a request to a control port, and its refusal."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from odradek.errors import OdradekError
from odradek.util.json_text import load_json


class ControlRefusedError(OdradekError):
    """A request that is not done.

    Attributes:
        status: HTTP's.
        remedy: what to do; empty where the message says it.
        more: what else the answer has.
    """

    def __init__(self, status: int, message: str, remedy: str = "", **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.remedy = remedy
        self.more = more


class Word(NamedTuple):
    """A value that a body may have under a name.

    Attributes:
        form: of its value.
        default: where it is not said; `NEEDED` for none.
    """

    form: type
    default: Any = None


NEEDED: Any = object()
_FORMS = {str: "text", int: "a whole number", bool: "true or false", dict: "an object of text"}


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; an empty one where there is no body.

    Raises:
        ControlRefusedError: it is something else.
    """
    remedy = 'send a JSON object, such as {} or {"broker": 0}'
    if not body.strip():
        return {}
    try:
        value = load_json(body.decode())
    except ValueError as problem:
        raise ControlRefusedError(400, f"the body is no JSON: {problem}", remedy) from None
    if not isinstance(value, dict):
        raise ControlRefusedError(400, "the body is no JSON object", remedy)
    return value


def read_words(given: Mapping[str, Any], words: Mapping[str, Word]) -> dict[str, Any]:
    """Return what an object has under each of some names.

    Args:
        given: the object.
        words: what there may be.

    Raises:
        ControlRefusedError: a name that there is not, one that is missing, or a value of another form.
    """
    for name in given:
        if name not in words:
            raise ControlRefusedError(400, f"there is no {name!r} here", hint(name, words))
    return {name: _value(given, name, word) for name, word in words.items()}


def _value(given: Mapping[str, Any], name: str, word: Word) -> Any:
    value = given.get(name)
    if value is None:
        if word.default is NEEDED:
            raise ControlRefusedError(400, f"{name} is missing", f"it is {_FORMS[word.form]}")
        return word.default
    is_well = isinstance(value, word.form) and (word.form is bool or not isinstance(value, bool))
    if is_well and word.form is dict:
        is_well = all(isinstance(text, str) for text in value.values())
    if not is_well:
        raise ControlRefusedError(400, f"{name} is {value!r:.80}", f"it is {_FORMS[word.form]}")
    return value


def hint(name: str, known: Mapping[str, Any]) -> str:
    """Return the remedy for a name that there is not."""
    near = get_close_matches(name, known, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"there are {', '.join(known)}" if known else "it takes nothing"
