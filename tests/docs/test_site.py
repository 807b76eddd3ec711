"""The site of `make docs`: each page is in its navigation once, and each link leads to a page of it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from .blocks import ROOT, pages

LIMIT_S = 300


def _navigation() -> ModuleType:
    spec = spec_from_file_location("navigation", ROOT / "docs" / "navigation.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _places() -> Counter[str]:
    """Return how often the navigation has each page, beginning with the first one."""
    sections = _navigation().sections
    places = Counter({"README": 1})
    found = ["README"]
    while found:
        below = [page for group in sections(found.pop()).values() for page in group]
        places.update(below)
        found += below
    return places


def test_every_page_is_in_the_navigation_once() -> None:
    places = _places()
    there = {page.relative_to(ROOT).with_suffix("").as_posix() for page in pages()}
    assert there - set(places) == set(), "name them in docs/navigation.py"
    assert [page for page, times in places.items() if times > 1] == []


def test_every_page_of_the_navigation_is_there() -> None:
    assert [page for page in _places() if not any(ROOT.glob(f"{page}.*"))] == []


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.skipif(find_spec("sphinx") is None or find_spec("furo") is None, reason="needs the extra docs")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    words = [
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "dummy",
        "-c",
        "docs",
        ".",
        str(tmp_path / "site"),
    ]
    built = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert built.returncode == 0, built.stderr
