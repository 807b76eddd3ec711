"""A plugin for pytest (`-p interpreted`): what setup.py compiles is taken from its source.

For tests that follow Python from call to call, where compiled code cannot be seen, or copy objects.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def walk() -> dict[str, Path]:
    """The modules that setup.py names in `WALK`, and their sources."""
    for statement in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "WALK":
            names: tuple[str, ...] = ast.literal_eval(statement.value)
            return {
                f"odradek.{name.removesuffix('.py').replace('/', '.')}": ROOT / "src/odradek" / name
                for name in names
            }
    raise AssertionError("setup.py has no WALK")


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
