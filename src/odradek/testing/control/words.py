"""The words of a request to a control port, and its refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


class Form(NamedTuple):
    """A form of values.

    Attributes:
        words: what it is, for who has sent something else.
        is_well: whether a value of JSON has it.
        of_text: the value of a text in a path or a query, which is let alone where it has not the form.
    """

    words: str
    is_well: Callable[[Any], bool]
    of_text: Callable[[str], Any] = str


class Word(NamedTuple):
    """A value that a request may have under a name.

    Attributes:
        form: of its value.
        default: where it is not said; `NEEDED` for none.
    """

    form: Form
    default: Any = None


NEEDED: Any = object()


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole_of(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text


def _is_range(value: Any) -> bool:
    # Kafka's versions are int16.
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(_is_whole, value))
        and 0 <= value[0] <= value[1] < 2**15
    )


TEXT = Form("text", lambda value: isinstance(value, str))
WHOLE = Form("a whole number", _is_whole, _whole_of)
NUMBER = Form("a number", lambda value: _is_whole(value) or isinstance(value, float))
FLAG = Form(
    "true or false",
    lambda value: isinstance(value, bool),
    lambda text: {"true": True, "false": False}.get(text, text),
)
TEXTS = Form(
    "a list of text",
    lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
    lambda text: text.split(","),
)
RANGE = Form(
    "a list of the first and the last",
    _is_range,
    lambda text: [_whole_of(number) for number in text.split(",")],
)
LIST = Form("a list", lambda value: isinstance(value, list))
TEXT_BY_NAME = Form(
    "an object of text",
    lambda value: isinstance(value, dict) and all(isinstance(text, str) for text in value.values()),
)


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
            raise ControlRefusedError(400, f"{name} is missing", f"it is {word.form.words}")
        return word.default
    if not word.form.is_well(value):
        raise ControlRefusedError(400, f"{name} is {value!r:.80}", f"it is {word.form.words}")
    return value


def check_range(name: str, number: float, least: int, most: int, unit: str = "") -> None:
    """Check a number.

    Raises:
        ControlRefusedError: it is not among those from `least` to `most`.
    """
    if not least <= number <= most:
        raise ControlRefusedError(400, f"{name} is {number}", f"it is {least} to {most}{unit}")


def hint(name: str, known: Mapping[str, Any]) -> str:
    """Return the remedy for a name that there is not."""
    near = get_close_matches(name, known, 1)
    if near:
        return f"did you mean {near[0]}?"
    return f"there are {', '.join(known)}" if known else "it takes nothing"
