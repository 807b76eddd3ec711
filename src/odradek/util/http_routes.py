"""Requests and answers of HTTP with JSON, and a table that says what answers which. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

A = TypeVar("A")


class Request(NamedTuple):
    """A request.

    Attributes:
        target: path and query, as they came.
        body: empty where there is none.
        headers: as they came.
    """

    method: str
    target: str
    body: bytes = b""
    headers: Mapping[str, str] = {}

    def header(self, name: str) -> str:
        """Return a header's text, whatever the case of its name; empty where it is not there."""
        wanted = name.lower()
        return ", ".join(text for given, text in self.headers.items() if given.lower() == wanted)


class Response(NamedTuple):
    """An answer.

    Attributes:
        content: becomes JSON, but for bytes, which are sent as they are.
        content_type: that of the server without.
        headers: further ones.
    """

    status: int
    content: Any
    content_type: str = ""
    headers: Mapping[str, str] = {}


class NoRouteError(LookupError):
    """Nothing answers a request.

    Attributes:
        methods: those that its path has; none where there is no such path.
    """

    def __init__(self, methods: Sequence[str]) -> None:
        super().__init__(*methods)
        self.methods = methods


class Route(NamedTuple, Generic[A]):
    """The action that answers a request.

    Attributes:
        action: as the table has it.
        words: of the path, what stands where the pattern has a name.
        query: the last value of each.
        all_values: of the query, all of each.
    """

    action: A
    words: Mapping[str, str]
    query: Mapping[str, str]
    all_values: Mapping[str, Sequence[str]]


class Routes(Generic[A]):
    """A table of methods, paths and actions. A path is a pattern: `/subjects/{subject}` names a word."""

    def __init__(self, table: Iterable[tuple[str, str, A]]) -> None:
        """
        Args:
            table: method, pattern, action; the first that fits is taken.
        """
        self._table = [(method, _words(pattern), action) for method, pattern, action in table]

    def find(self, request: Request) -> Route[A]:
        """Return what answers a request.

        Raises:
            NoRouteError: nothing does.
        """
        try:
            parts = urlsplit(request.target)
            queries = parse_qs(parts.query, keep_blank_values=True)
        except ValueError:
            # No address, as `//[`.
            raise NoRouteError(()) from None
        words = [unquote(word) for word in _words(parts.path)]
        methods: list[str] = []
        for method, pattern, action in self._table:
            named = _match(pattern, words)
            if named is None:
                continue
            if method == request.method:
                last = {name: values[-1] for name, values in queries.items()}
                return Route(action, named, last, queries)
            methods.append(method)
        raise NoRouteError(methods)


def _words(path: str) -> list[str]:
    return path.strip("/").split("/") if path.strip("/") else []


def _match(pattern: Sequence[str], words: Sequence[str]) -> dict[str, str] | None:
    if len(pattern) != len(words):
        return None
    named: dict[str, str] = {}
    for expected, word in zip(pattern, words, strict=True):
        if expected.startswith("{"):
            named[expected[1:-1]] = word
        elif expected != word:
            return None
    return named
