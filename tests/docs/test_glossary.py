"""The glossary names classes and modules that are there, and each word once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import ROOT

_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|([^|]*)\|$", re.MULTILINE)
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = [match for match in _ROW.findall(PAGE) if match[0] != "word"]
PATHS = sorted({path for _, _, where in ROWS for path in re.findall(r"`([\w.]+)`", where)})


def _is_there(path: str) -> bool:
    """Whether `path` is a package, a module, or a name that a module defines at its top."""
    file = ROOT / "src" / "odradek" / Path(*path.split("."))
    if file.with_suffix(".py").exists() or (file / "__init__.py").exists():
        return True
    module = file.parent.with_suffix(".py")
    defines = rf"^(?:class {file.name}\b|{file.name}(?:: \w+)? = )"
    return module.exists() and re.search(defines, module.read_text(encoding="utf-8"), re.M) is not None


@pytest.mark.parametrize("path", PATHS)
def test_what_the_glossary_names_is_there(path: str) -> None:
    assert _is_there(path)


def test_names_that_are_not_there_are_found() -> None:
    assert _is_there("log") and _is_there("log.config") and _is_there("log.config.LogConfig")
    assert not _is_there("log.config.NoSuchConfig") and not _is_there("log.no_such_module")


def test_each_word_stands_once() -> None:
    words = [word.strip() for row in ROWS for word in row[0].split(",")]
    assert len(words) > 90
    assert len(words) == len(set(words)), sorted({word for word in words if words.count(word) > 1})


def test_a_class_of_the_brokers_side_has_its_name_alone() -> None:
    """Of what is private to a file, and of the protocol's own structs, names may come again."""
    places: dict[str, list[str]] = {}
    for package in ("broker", "cluster", "coordinators", "log", "records", "replication", "util", "errors"):
        for file in sorted((ROOT / "src" / "odradek" / package).rglob("*.py")):
            for name in re.findall(r"^class ([A-Z]\w*)", file.read_text(encoding="utf-8"), re.MULTILINE):
                places.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert len(places) > 300
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
