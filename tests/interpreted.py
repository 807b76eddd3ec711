"""A plugin for pytest (`-p interpreted`): what setup.py compiles is taken from its source.

For tests that follow Python from call to call, where compiled code cannot be seen, or copy objects.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from odradek.util import stale

ROOT = Path(__file__).parents[1]


def walk() -> dict[str, Path]:
    """The modules that mypyc compiles, and their sources."""
    package = ROOT / "src/odradek"
    names = stale.walk(package)
    return {f"odradek.{name.removesuffix('.py').replace('/', '.')}": package / name for name in names}


class Sources:
    """A `MetaPathFinder` of the sources."""

    def __init__(self) -> None:
        self._walk = walk()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`."""
        source = self._walk.get(fullname)
        return None if source is None else importlib.util.spec_from_file_location(fullname, source)


def pytest_load_initial_conftests() -> None:
    """Take the sources from now on."""
    assert not any(name in sys.modules for name in walk()), "imported too early"
    sys.meta_path.insert(0, Sources())  # type: ignore[arg-type]
