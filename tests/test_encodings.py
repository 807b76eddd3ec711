"""Text files are read and written as UTF-8 by name: what a machine's locale says else is no part of a test.

Ruff's PLW1514 holds this where it knows the type of a path; here calls are known by their names.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("src", "tests", "benchmarks", "examples", "packaging", "setup.py")
_LETTERS = set("rwxabt+")
_DEFAULT_MODES = {"TemporaryFile": "w+b", "NamedTemporaryFile": "w+b", "fdopen": "r"}
"""Modes of what opens a file and is named none; `open` alone may be another's method, such as a store's."""


def _modes(call: ast.Call) -> list[str]:
    values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    words = [one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return [word for word in words if 0 < len(word) <= 3 and set(word) <= _LETTERS]


def _is_text_without_encoding(call: ast.Call) -> bool:
    function = call.func
    if any(keyword.arg in ("encoding", None) for keyword in call.keywords):
        return False
    if isinstance(function, ast.Name):
        name, of = function.id, None
    elif isinstance(function, ast.Attribute):
        name, of = function.attr, ast.unparse(function.value)
    else:
        return False
    if name in ("read_text", "write_text") and of is not None:
        return len(call.args) < (1 if name == "read_text" else 2)
    if name == "open" and of == "gzip":
        return any("t" in mode for mode in _modes(call))
    if name == "open" and of is None:
        return not any("b" in mode for mode in _modes(call))
    if name == "open" and of not in ("os", "tarfile", "zipfile"):
        # A path's: without a mode it looks like a store's, and is left to Ruff.
        return any("b" not in mode for mode in _modes(call))
    if name in _DEFAULT_MODES:
        return "b" not in "".join(_modes(call) or [_DEFAULT_MODES[name]])
    return False


def _found(source: str) -> list[int]:
    """Return the lines of the calls that leave the encoding of a text file to the locale."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return sorted(call.lineno for call in calls if _is_text_without_encoding(call))


@pytest.mark.parametrize("place", PLACES)
def test_text_files_have_an_encoding(place: str) -> None:
    path = ROOT / place
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    found = {str(file.relative_to(ROOT)): _found(file.read_text(encoding="utf-8")) for file in files}
    assert found
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "call",
    [
        "(folder / 'a').read_text()",
        "path.read_text(errors='replace')",
        "path.write_text('a')",
        "open(path)",
        "open(path, 'w')",
        "path.open('a')",
        "path.open(mode='w')",
        "gzip.open(path, 'rt')",
        "os.fdopen(1)",
        "os.fdopen(1, 'w')",
        "tempfile.NamedTemporaryFile('w', suffix='.txt')",
        "NamedTemporaryFile(mode='r')",
    ],
)
def test_a_call_without_an_encoding_is_found(call: str) -> None:
    assert _found(f"def f():\n    return {call}\n") == [2]


@pytest.mark.parametrize(
    "call",
    [
        "path.read_text('utf-8')",
        "path.read_text(encoding='utf-8', errors='replace')",
        "path.write_text('a', encoding='utf-8')",
        "path.write_text('a', **how)",
        "path.open('rb')",
        "open(path, 'wb')",
        "os.open(path, os.O_RDONLY)",
        "gzip.open(path)",
        "tarfile.open(path, 'r')",
        "os.fdopen(1, 'rb')",
        "NamedTemporaryFile(suffix='.txt')",
        "store.open()",
        "client.open(session, 1)",
    ],
)
def test_other_calls_are_left_alone(call: str) -> None:
    assert _found(f"def f():\n    return {call}\n") == []
