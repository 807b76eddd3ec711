"""Sessions with a metadata store that write down who asks it, and whether an event loop waits for it."""

from __future__ import annotations

import ast
import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import odradek
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import Op, OpResult, Stat, Watcher

T = TypeVar("T")

SOURCES = Path(odradek.__file__).parent
ROOMS = ("broker", "cluster")
STORE = SOURCES / "cluster" / "store"
APP = "broker/app.py"
LIVES = ("start", "stop", "abandon")
"""While a broker starts, and while it stops, nobody else waits for its loop."""

QUEUE = "broker/metadata/controller_thread.py", "run"

Place = tuple[str, str]
"""A file and a function in it."""

BLOCKING = frozenset(
    (
        *("get", "exists", "children", "get_many", "exists_many", "create", "set", "delete", "multi"),
        *("watch_persistent", "unwatch"),
    )
)
HELPERS = frozenset(("ensure_path",))


class Asked:
    """What was asked.

    Attributes:
        places: of all that has asked.
        in_loop: which of them an event loop has waited for, as the stack was.
    """

    def __init__(self) -> None:
        self.places: set[Place] = set()
        self.in_loop: list[list[Place]] = []

    def note(self) -> None:
        """Take note of who asks."""
        stack = list(_stack())
        self.places.add(next(place for place in stack if not place[0].startswith("cluster/store/")))
        in_loop = asyncio._get_running_loop() is not None
        # What is asked for after a stop is done at once.
        if in_loop and QUEUE not in stack and not any((APP, name) in stack for name in LIVES):
            self.in_loop.append(stack)


def _stack() -> Iterator[Place]:
    """The functions of ours that are being run, from within."""
    frame = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        # Comprehensions have frames of their own before Python 3.12.
        if path.is_relative_to(SOURCES) and not frame.f_code.co_name.endswith(("comp>", "genexpr>")):
            yield str(path.relative_to(SOURCES)), frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]


def guarded(asked: Asked) -> Callable[[MemoryServer], MemoryStore]:
    """Make sessions that tell `asked`."""

    class GuardedStore(MemoryStore):
        def multi(self, ops: Sequence[Op]) -> list[OpResult]:
            asked.note()
            return super().multi(ops)

        def get(self, path: str, watch: Watcher | None = None) -> tuple[bytes | None, Stat]:
            asked.note()
            return super().get(path, watch)

        def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
            asked.note()
            return super().exists(path, watch)

        def children(self, path: str, watch: Watcher | None = None) -> list[str]:
            asked.note()
            return super().children(path, watch)

        def get_many(self, paths: Sequence[str]) -> list[tuple[bytes | None, Stat] | None]:
            asked.note()
            return super().get_many(paths)

        def exists_many(self, paths: Sequence[str]) -> list[Stat | None]:
            asked.note()
            return super().exists_many(paths)

        def watch_persistent(self, path: str, watcher: Watcher, recursive: bool = False) -> None:
            asked.note()
            super().watch_persistent(path, watcher, recursive)

        def unwatch(self, path: str, watcher: Watcher) -> None:
            asked.note()
            super().unwatch(path, watcher)

    return GuardedStore


def places_in_the_sources() -> set[Place]:
    """Where the sources of brokers and controllers ask the store."""
    found = set()
    for room in ROOMS:
        for path in sorted((SOURCES / room).rglob("*.py")):
            if STORE not in path.parents:
                visitor = _Visitor(str(path.relative_to(SOURCES)))
                visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
                found |= visitor.places
    return found


class _Visitor(ast.NodeVisitor):
    def __init__(self, file: str) -> None:
        self._file = file
        self._functions: list[str] = []
        self.places: set[Place] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._functions.append(node.name)
        self.generic_visit(node)
        self._functions.pop()

    visit_AsyncFunctionDef: Any = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._functions.append("<lambda>")
        self.generic_visit(node)
        self._functions.pop()

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        asks = isinstance(function, ast.Name) and function.id in HELPERS
        if isinstance(function, ast.Attribute) and function.attr in BLOCKING:
            of = function.value
            name = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
            asks = name.lstrip("_") == "store"
        if asks and self._functions:
            self.places.add((self._file, self._functions[-1]))
        self.generic_visit(node)
