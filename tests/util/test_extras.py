"""The extras of pyproject.toml, and what messages and pages say of them."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

from odradek.util.extras import EXTRAS, FOR_DEVELOPMENT, install
from odradek.util.stale import ROOT

DECLARED: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def test_all_extras_are_known() -> None:
    assert EXTRAS.keys() | FOR_DEVELOPMENT == DECLARED.keys()


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_installed_by_their_own_names(extra: str) -> None:
    words = shlex.split(install(extra))
    assert words[1:4] == ["-m", "pip", "install"]
    names = [name_of(word) for word in words[4:]]
    assert names == [name_of(requirement) for requirement in DECLARED[extra]]
    assert EXTRAS[extra].package in names


def test_nobody_is_told_to_install_odradek_from_a_registry() -> None:
    """It is in none. Checkouts and wheels are installed by their path: `pip install '.[spark]'`."""
    folders = [ROOT / name for name in ("src", "docs", "examples", "benchmarks", "image", "packaging")]
    told = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.*"))]
        if path.suffix in (".py", ".md", ".yml", ".yaml", ".service") and path.name != "extras.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if "odradek[" in line or re.search(r"pip install [^`]*(?<![\w./-])odradek(?![\w/-])", line)
    ]
    assert told == []
