"""JAAS as Kafka's operators write it: `sasl.jaas.config`, and the file that Java reads.

A config holds login modules: `org.apache.kafka.….PlainLoginModule required username="admin" password="…"
user_alice="…";`. A file holds contexts with such modules: `KafkaServer { …; };`. Java's classes are not
loaded; the name of the module says which mechanism it is for. No message shows what stands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from odradek.errors import OdradekError

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | \#[^\n]* | /\*.*?\*/ | (?P<quoted>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | (?P<mark>[;={}]) | (?P<word>[^\s;={}"']+) | (?P<wrong>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_FLAGS = {"required", "requisite", "sufficient", "optional"}


class JaasError(OdradekError):
    """A JAAS config that cannot be read; the message says where, not what stands there."""


class LoginModule(NamedTuple):
    """One login module.

    Attributes:
        name: the class, with its package.
        flag: `required` and its like; without meaning here.
        options: what is behind it.
    """

    name: str
    flag: str
    options: Mapping[str, str]

    @property
    def short_name(self) -> str:
        """The class, without its package."""
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        """Show no values."""
        return f"LoginModule({self.name}, {sorted(self.options)})"


def parse_jaas(text: str) -> list[LoginModule]:
    """Read `sasl.jaas.config`.

    Raises:
        JaasError: it is none, or is empty.
    """
    modules = _modules(_tokens(text), until=None)
    if not modules:
        raise JaasError("the JAAS config has no login module")
    return modules


def parse_jaas_file(text: str) -> dict[str, list[LoginModule]]:
    """Read a JAAS file: the login modules by context.

    Raises:
        JaasError: it is none.
    """
    tokens = _tokens(text)
    contexts: dict[str, list[LoginModule]] = {}
    for name, is_mark in tokens:
        if is_mark or next(tokens, None) != ("{", True):
            raise JaasError("a JAAS file is made of contexts: NAME { modules };")
        contexts[name] = _modules(tokens, until="}")
        if next(tokens, None) != (";", True):
            raise JaasError("there is no ; behind a context of the JAAS file")
    return contexts


def quote(value: str) -> str:
    """A value as it stands in a JAAS config."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    for token in _TOKEN.finditer(text):
        if token["wrong"] is not None:
            line = text.count("\n", 0, token.start()) + 1
            raise JaasError(f"line {line} of the JAAS config has a quote that does not end")
        if token["mark"] is not None:
            yield token["mark"], True
        elif token["word"] is not None:
            yield token["word"], False
        elif token["quoted"] is not None:
            yield _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), token["quoted"][1:-1]), False


def _modules(tokens: Iterator[tuple[str, bool]], until: str | None) -> list[LoginModule]:
    modules: list[LoginModule] = []
    for name, is_mark in tokens:
        if is_mark:
            if name == until:
                return modules
            raise JaasError("a JAAS config has something else where a login module should be")
        flag, flag_is_mark = next(tokens, ("", True))
        if flag_is_mark or flag.lower() not in _FLAGS:
            raise JaasError("a login module has no flag: required, requisite, sufficient or optional")
        modules.append(LoginModule(name, flag.lower(), _options(tokens)))
    if until is not None:
        raise JaasError("a context of the JAAS file has no end")
    return modules


def _options(tokens: Iterator[tuple[str, bool]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for key, is_mark in tokens:
        if (key, is_mark) == (";", True):
            return options
        if is_mark or next(tokens, None) != ("=", True):
            raise JaasError('the options of a login module are not of the form name="value"')
        value, value_is_mark = next(tokens, ("", True))
        if value_is_mark:
            raise JaasError("an option of a login module has no value")
        options[key] = value
    raise JaasError("the options of a login module do not end with a semicolon")
