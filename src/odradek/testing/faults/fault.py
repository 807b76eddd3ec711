"""A fault as data: the rule that a test sets, in one form for Python and for JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from odradek.errors.codes import ErrorCode

if TYPE_CHECKING:
    from odradek.testing.faults.names import Names

_MOST_MS = 2**31 - 1
"""An answer has no room for more."""
EFFECTS = ("fail", "delay", "hang", "drop", "truncate", "throttle")


class WhichRequests(TypedDict, total=False):
    """The keywords that say which requests are meant; see `Fault`."""

    versions: range | int
    topic: str
    partition: int
    group: str
    transactional_id: str
    client_id: str
    listener: str
    between_brokers: bool


class Which(WhichRequests, total=False):
    """The keywords that say which requests a fault meets, and how often; see `Fault`.

    `broker` is a broker's id, on a cluster: the fault is set there alone.
    """

    nth: int
    times: int
    probability: float
    seed: int
    may_be_unmet: bool
    broker: int


class Asked(NamedTuple):
    """A request, as far as it is asked whether a fault meets it.

    Attributes:
        version, client_id, listener: the request's.
        parts: the names of each of its parts, see `odradek.testing.faults.names`.
        is_answered: false for a Produce with acks=0.
    """

    version: int
    client_id: str
    listener: str
    parts: tuple[Names, ...]
    is_answered: bool = True


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A rule: which requests it meets, how often, and what becomes of them.

    Attributes:
        effect: one of `EFFECTS`.
        apis: names of APIs, as "Produce".
        error: of `fail`, its name.
        delay_ms: of `delay`, in milliseconds.
        after: of `drop`: whether the work is done before the connection is closed.
        bytes_sent: of `truncate`: how many bytes of the answer, its size prefix included, are sent; None for
            half of them.
        throttle_ms: of `throttle`, in milliseconds.
        versions: first and last version; None for all.
        topic, partition, group, transactional_id: names in the request; None for any.
        client_id, listener: of whoever asks.
        between_brokers: whether it meets what brokers ask of each other, in place of what clients ask.
        nth: the first of the requests that match which it meets, counted from 1.
        times: how many it meets; None for all, or for one where `nth` is given.
        probability: with which it meets each of them; None for certain.
        seed: of the probability.
        may_be_unmet: whether it is no error that no request met it.
        anyway: whether an error may be said that Kafka would not say there.
    """

    effect: str
    apis: tuple[str, ...]
    error: str | None = None
    delay_ms: float = 0
    after: bool = False
    bytes_sent: int | None = None
    throttle_ms: int = 0
    versions: tuple[int, int] | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    listener: str | None = None
    between_brokers: bool = False
    nth: int | None = None
    times: int | None = None
    probability: float | None = None
    seed: int = 0
    may_be_unmet: bool = False
    anyway: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked without a broker.

        Raises:
            ValueError: a number is out of its range, or there is no such effect.
        """
        if self.effect not in EFFECTS:
            raise ValueError(f"effect={self.effect!r}: it is one of {', '.join(EFFECTS)}")
        for name in ("nth", "times", "bytes_sent"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ValueError(f"{name}={number}: it is counted from 1")
        if self.probability is not None and not 0 < self.probability <= 1:
            raise ValueError(f"probability={self.probability}: it is above 0 and at most 1")
        for effect, name in (("delay", "delay_ms"), ("throttle", "throttle_ms")):
            number = getattr(self, name)
            if self.effect == effect and not 0 < number <= _MOST_MS:
                raise ValueError(f"{name}={number}: it is above 0 and at most {_MOST_MS}")

    @property
    def code(self) -> ErrorCode:
        """The error that `fail` answers with."""
        assert self.error is not None
        return ErrorCode[self.error]

    @property
    def most(self) -> int | None:
        """The number of requests that it meets at most; None for any number."""
        return 1 if self.times is None and self.nth is not None else self.times

    # ------------------------------------------------------------------ matching

    def meets_part(self, names: Names) -> bool:
        """Return whether a part of a request has all the names that the fault has."""
        return all(
            wanted is None or names.get(kind) == wanted
            for kind, wanted in (
                ("topic", self.topic),
                ("partition", self.partition),
                ("group", self.group),
                ("transactional_id", self.transactional_id),
            )
        )

    def miss(self, asked: Asked, versions: tuple[int, ...]) -> str | None:
        """Return why a request is not met, None where it is.

        Args:
            asked: the request.
            versions: those that the fault may meet of its API.
        """
        if asked.version not in versions:
            return f"version {asked.version}, not {_range_text(versions)}"
        if self.client_id is not None and asked.client_id != self.client_id:
            return f"client {asked.client_id!r}, not {self.client_id!r}"
        if self.listener is not None and asked.listener != self.listener:
            return f"listener {asked.listener}, not {self.listener}"
        if self.effect == "truncate" and not asked.is_answered:
            return "acks=0, which has no answer"
        if not any(map(self.meets_part, asked.parts)):
            shown = "; ".join(sorted({_names_text(names) for names in asked.parts})[:3])
            return f"names {shown or 'nothing'}"
        return None

    # ------------------------------------------------------------------ forms

    def __str__(self) -> str:
        """The rule as a sentence."""
        effect = {
            "fail": f"fail with {self.error}",
            "delay": f"delay by {self.delay_ms:g} ms",
            "hang": "hang",
            "drop": "drop after the work" if self.after else "drop before the work",
            "truncate": "truncate" + (f" to {self.bytes_sent} bytes" if self.bytes_sent else ""),
            "throttle": f"throttle for {self.throttle_ms} ms",
        }[self.effect]
        words = [f"{effect}: {', '.join(self.apis)}"]
        words += self._shown("topic", "partition", "group", "transactional_id", "client_id", "listener")
        if self.versions is not None:
            words.append(f"versions {self.versions[0]} to {self.versions[1]}")
        if self.between_brokers:
            words.append("between brokers")
        return " ".join([*words, *self._shown("nth", "times", "probability")])

    def _shown(self, *names: str) -> list[str]:
        return [f"{name}={value!r}" for name in names if (value := getattr(self, name)) is not None]

    def to_json(self) -> dict[str, Any]:
        """Return the rule as JSON has it: what is at its default is left out."""
        shown: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is MISSING or value != field.default:
                shown[field.name] = list(value) if isinstance(value, tuple) else value
        return shown

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Fault:
        """Return the rule of `to_json`.

        Raises:
            TypeError: a key that there is not, and the message says which may have been meant; one that is
                missing; or a value of another form.
            ValueError: a value that cannot be.
        """
        check_keywords(document, [field.name for field in fields(cls)])
        for field in fields(cls):
            if field.name in document:
                _check_form(field.name, str(field.type), document[field.name])
            elif field.default is MISSING:
                raise TypeError(f"a fault needs {field.name}")
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in document.items()
        }
        return cls(**given)


def check_keywords(given: Any, known: Any, whose: str = "a fault") -> None:
    """Check the names of keywords.

    Args:
        given, known: names.
        whose: they are, for the message.

    Raises:
        TypeError: there is no such keyword.
    """
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f", did you mean {near[0]}?" if near else f": there are {', '.join(known)}"
            raise TypeError(f"{whose} has no {name!r}{hint}")


_FORMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("text", lambda value: isinstance(value, str)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "float": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "tuple[str, ...]": ("a list of text", lambda value: _is_list(value, str)),
    "tuple[int, int]": (
        "a list of the first and the last",
        lambda value: _is_list(value, int) and len(value) == 2,
    ),
}
"""By the type of a field: what its value in JSON is, in words and as a check."""


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list | tuple) and all(type(part) is kind for part in value)


def _check_form(name: str, of: str, value: Any) -> None:
    kind, _, optional = of.partition(" | ")
    words, is_well = _FORMS[kind]
    if not (is_well(value) or (value is None and optional)):
        raise TypeError(f"{name}={value!r:.80}: it is {words}")


def _range_text(versions: tuple[int, ...]) -> str:
    return f"{versions[0]} to {versions[-1]}" if len(versions) > 1 else f"{versions[0]}"


def _names_text(names: Names) -> str:
    shown = ("topic", "partition", "group", "transactional_id")
    return ", ".join(f"{kind} {names[kind]!r}" for kind in shown if kind in names)
