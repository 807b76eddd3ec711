"""A name is a noun that says what it is: a topic, a partition, a session. A pronoun names nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

PRONOUNS = {"all_", "found", "it", "one", "ones", "thing", "things", "this", "what", "who", "whom"}

RIGHT = frozenset[str]()
"""`file: name` where there is no better name. None so far."""


def bound(tree: ast.AST) -> Iterator[str]:
    """Yield the names of variables, parameters and attributes that a tree gives a value."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name


@pytest.mark.parametrize(
    "text",
    [
        "one = 1",
        "one: int",
        "self.one = 1",
        "for one in (): pass",
        "[0 for two, one in ()]",
        "if one := 1: pass",
        "lambda one: 0",
        "def f(*one): pass",
        "def f(*, one): pass",
        "with open() as one: pass",
        "try: pass\nexcept OSError as one: pass",
        "import ones as one",
        "match 1:\n    case int() as one: pass",
        "match 1:\n    case [*one]: pass",
        "match 1:\n    case {**one}: pass",
    ],
)
def test_every_way_to_bind_a_name_is_seen(text: str) -> None:
    assert "one" in bound(ast.parse(text))


def test_no_name_is_a_pronoun() -> None:
    pronouns = {
        f"{path.relative_to(SOURCE).as_posix()}: {name}"
        for path in SOURCE.rglob("*.py")
        for name in bound(ast.parse(path.read_text(encoding="utf-8")))
        if name in PRONOUNS
    }
    assert pronouns == RIGHT
