"""The versions that `make` installs are for every Python that odradek is for, its first bug fixes too."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PINNED = dict(
    re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
)
OLDEST = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]


def test_the_versions_are_for_the_oldest_python() -> None:
    oldest = f"{OLDEST.removeprefix('>=')}.0"
    looked_at, refused = 0, {}
    for name, wanted in PINNED.items():
        try:
            if version(name) != wanted:
                continue
        except PackageNotFoundError:
            continue
        looked_at += 1
        pythons = metadata(name).get("Requires-Python") or ""
        if not SpecifierSet(pythons).contains(oldest):
            refused[name] = pythons
    if not looked_at:
        pytest.skip("none of them is installed")
    assert refused == {}
