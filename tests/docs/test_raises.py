"""A docstring tells of what is raised in a section `Raises:` at its end: `Name: when`, an entry for each.

What somebody else raises, such as a callback, stays where it is told: in the entry of its argument. That
something is never raised is a sentence, too, as no section can say it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

from .blocks import ROOT

SOURCE = ROOT / "src" / "odradek"
_DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_HEADING = "\nRaises:\n"
_ENTRY = re.compile(r"    ([\w.]+(?:, [\w.]+)*): (?=\S)")
_ARGUMENTS = re.compile(r"^(?:Args|Attributes):\n(?:    .*\n|\n(?=    ))*", re.MULTILINE)
_SENTENCE = re.compile(r"(?<!\w)Raises\b|:raises?\b")
_OF_A_NAME = re.compile(r"(?<![Nn]ever )\b[Rr]aises? (?:as\b|(?:(?:an?|the) )?`?(?:\w+\.)*[A-Z]\w*[a-z])")
"""A name in camel case, which `CORRUPT_MESSAGE` is not; or a reference to what another function raises."""


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    documented = (node for node in ast.walk(tree) if isinstance(node, _DOCUMENTED))
    return ((node.name, docstring) for node in documented if (docstring := ast.get_docstring(node)))


def _exceptions(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of Python's exceptions and of those that the trees define."""
    known = {name for name in vars(builtins) if _is_exception_of(builtins, name)}
    bases = defaultdict(set)
    for node in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        bases[node.name] |= {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    while more := {name for name, of in bases.items() if of & known} - known:
        known |= more
    return known


def _is_exception_of(module: object, name: str) -> bool:
    value = getattr(module, name, None)
    return isinstance(value, type) and issubclass(value, BaseException)


def _is_exception(name: str, known: set[str]) -> bool:
    module, _, attribute = name.rpartition(".")
    return _is_exception_of(importlib.import_module(module), attribute) if module else name in known


def _faults(docstring: str, known: set[str]) -> Iterator[str]:
    """Yield the sentences that tell of raising, and the lines of the section that are no entry."""
    prose, _, section = f"\n{docstring}\n".partition(_HEADING)
    for form, text in ((_SENTENCE, prose), (_OF_A_NAME, _ARGUMENTS.sub("", prose))):
        sentence = " ".join(text.split())
        yield from (sentence[match.start() :][:80] for match in form.finditer(sentence))
    for line in section.splitlines():
        entry = _ENTRY.match(line)
        names, text = (entry[1].split(", "), line[entry.end() :]) if entry else ([], line)
        is_entry = bool(names) and all(_is_exception(name, known) for name in names)
        holds_another = not known.isdisjoint(re.findall(r"(\w+): ", text))
        if holds_another or not (is_entry or line.startswith(" " * 8)):
            yield line


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    paths = sorted(SOURCE.rglob("*.py"))
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@pytest.fixture(scope="module")
def known(trees: dict[str, ast.Module]) -> set[str]:
    return _exceptions(trees.values())


def test_what_is_raised_stands_in_a_section(trees: dict[str, ast.Module], known: set[str]) -> None:
    faults = {
        f"{path}: {name}": lines
        for path, tree in trees.items()
        for name, docstring in _docstrings(tree)
        if (lines := list(_faults(docstring, known)))
    }
    assert len(trees) > 100
    assert faults == {}


@pytest.mark.parametrize(
    "docstring",
    [
        "Read it. Raises `OSError`.",
        "Raises OSError if it cannot be read.",
        "Read it.\n\nRaises as `load`.",
        "Raise the `OSError` of a file.",
        "The file; raises\n`click.UsageError` for none.",
        "Read it; raises as `load` does.",
        "Read it.\n\n:raises OSError: it cannot be read.",
        "Read it.\n\nArgs:\n    within_ms: milliseconds. Raises `TimeoutError` after that.",
        "Read it.\n\nReturns: a line; raises `EOFError` without one.",
        "Read it.\n\nRaises: OSError.",
        "Read it.\n\nRaises:\n    OSError.",
        "Read it.\n\nRaises:\n    OsError: it cannot be read.",
        "Read it.\n\nRaises:\n    OSError, OsError: it cannot be read.",
        "Read it.\n\nRaises:\n    os.OsError: it cannot be read.",
        "Read it.\n\nRaises:\n    OSError: it cannot be read. ValueError: it is none.",
        "Read it.\n\nRaises:\n    OSError: it cannot be read.\n        ValueError: it is none.",
        "Read it.\n\nRaises:\n    OSError: it cannot be read.\n\nIt may be empty.",
    ],
)
def test_another_form_is_found(docstring: str, known: set[str]) -> None:
    assert list(_faults(docstring, known)) != []


@pytest.mark.parametrize(
    "docstring",
    [
        "Read it.",
        "Read it. Never raises `OSError`.",
        "Raise what is wrong with it.",
        "Read it, which raises the epoch.",
        "Read it.\n\nArgs:\n    load: reads it; raises `OSError`.\n\nReturns: a line.",
        "Read it.\n\nArgs:\n    load: reads it; raises `OSError`.",
        "Read it.\n\nRaises:\n    OSError: it cannot be read or\n        written.\n    re.error: it is none.",
        "Read it.\n\nRaises:\n    KafkaError, ValueError: as `load`.",
    ],
)
def test_other_docstrings_are_left_alone(docstring: str, known: set[str]) -> None:
    assert list(_faults(docstring, known)) == []
