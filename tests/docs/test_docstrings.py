"""A docstring opens with a verb or noun ("Return …", "The log of …"), not with "Whether …" or "Have …"."""

from __future__ import annotations

import ast
import re

import pytest

from .blocks import ROOT

SOURCE = ROOT / "src" / "odradek"
_CLAUSE = re.compile(r"(What|Whether|Where|Which|Who|Whom|Whose|When|How|Why|Have)\b")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _clauses(source: str) -> list[str]:
    """Return the first lines of the docstrings that open with a clause."""
    documented = [node for node in ast.walk(ast.parse(source)) if isinstance(node, _DOCUMENTED)]
    docstrings = [ast.get_docstring(node) or "" for node in documented]
    return [one.split("\n")[0] for one in docstrings if _CLAUSE.match(one)]


@pytest.mark.parametrize("package", sorted(one.name for one in SOURCE.iterdir() if one.is_dir()))
def test_docstrings_open_with_a_verb_or_a_noun(package: str) -> None:
    found = {str(file): _clauses(file.read_text("utf-8")) for file in (SOURCE / package).rglob("*.py")}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_clauses_are_found() -> None:
    source = '"""What is here."""\ndef f():\n    """Have it done."""\nclass A:\n    """However it is."""\n'
    assert _clauses(source) == ["What is here.", "Have it done."]
