"""Every link of our pages leads to a file, and to a heading in it; every page that code names is there."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from .blocks import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
]
CODE = [
    ROOT / "setup.py",
    *(
        file
        for folder in ("src", "tests", "benchmarks", "packaging")
        for file in sorted((ROOT / folder).rglob("*.py"))
    ),
]
FOLDERS = ("src", "tests", "benchmarks", "examples", "image", "packaging")
_FILES = [str(file) for folder in FOLDERS for file in (ROOT / folder).rglob("*.py*")]
_FILE = re.compile(r"`((?:\w+/)*\w+\.pyx?)`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"\b(?:docs|benchmarks)/[\w./-]+\.md\b")


def _prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in re.findall(r"^#+ +(.*)$", _prose(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return anchors


def _leads_nowhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in _anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(_prose(page)) if "://" not in link]
    assert [link for link in links if _leads_nowhere(page, link)] == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = ROOT / "docs" / "wire.md"
    assert not _leads_nowhere(page, "glossary.md#records-and-logs")
    assert not _leads_nowhere(page, "#using-it")
    assert _leads_nowhere(page, "glossary.md#no-such-heading")
    assert _leads_nowhere(page, "no-such-page.md")


def test_pages_that_code_names_are_there() -> None:
    missing = {
        str(file.relative_to(ROOT)): [name for name in _NAMED.findall(text) if not (ROOT / name).exists()]
        for file in CODE
        if "docs/" in (text := file.read_text(encoding="utf-8")) or "benchmarks/" in text
    }
    assert {file: names for file, names in missing.items() if names} == {}


def _is_somewhere(name: str) -> bool:
    """Return whether a file of the checkout has this name, or this end of a path."""
    return (ROOT / name).exists() or any(path.endswith(f"/{name}") for path in _FILES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    assert [name for name in _FILE.findall(_prose(page)) if not _is_somewhere(name)] == []


def test_a_file_that_is_not_there_is_found() -> None:
    assert _is_somewhere("replication/partition.py") and _is_somewhere("_kernel.pyx")
    assert not _is_somewhere("replication/no_such_file.py")
