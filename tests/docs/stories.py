"""The stories of docs/testing.md and of the pages beside it: one module of tests for each page.

A block of Python that defines a test is a part of its page's module, and may use what the blocks before it
define.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from .blocks import ROOT, Block, blocks

PAGE = ROOT / "docs" / "testing.md"
FOLDER = ROOT / "docs" / "testing"
STORIES = (
    "An order is placed",
    "What did my service do?",
    "The leader moves",
    "The answer is lost",
    "The broker dies and comes back",
    "The broker stands still",
    "The session runs out",
    "Hours pass",
    "Another producer takes over",
    "Nothing is ready yet",
)
"""The headings that each page has, in this order."""
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def pages() -> list[Path]:
    """The page with our own client, and one for each other client."""
    return [PAGE, *sorted(FOLDER.glob("*.md"))]


def headings(page: Path) -> list[str]:
    """The headings of a page's sections."""
    return _HEADING.findall(page.read_text(encoding="utf-8"))


def is_story(block: Block) -> bool:
    """Return whether a block belongs to a page's module of tests: it defines a test."""
    if block.language != "python" or block.excerpt is not None:
        return False
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(
        isinstance(node, defined) and node.name.startswith("test_") for node in ast.parse(block.code).body
    )


def blocks_of(page: Path, language: str) -> list[Block]:
    """The blocks of a page in a language that are run."""
    found = blocks(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    return [block for block in found if block.language == language and block.excerpt is None]


def module_of(page: Path) -> dict[str, Callable[..., Any]]:
    """The tests of a page, by their names.

    Raises:
        ModuleNotFoundError: the page's client is not installed.
    """
    names: dict[str, Any] = {"__name__": page.stem}
    with warnings.catch_warnings():
        # kafka-python reads its schemas by a function that Python does without one day.
        warnings.simplefilter("ignore", DeprecationWarning)
        for block in filter(is_story, blocks_of(page, "python")):
            code = "\n" * block.line + block.code  # a traceback names the line of the page
            exec(compile(code, block.page, "exec"), names)
    return {
        name: _in_a_loop(made) if inspect.iscoroutinefunction(made) else made
        for name, made in names.items()
        if name.startswith("test_")
    }


def _in_a_loop(test: Callable[..., Any]) -> Callable[..., Any]:
    """Return a test that runs a coroutine function as pytest-asyncio does."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run
