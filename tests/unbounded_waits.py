"""The waits in a source that nothing bounds but the time that a test may take as a whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_PROGRAMS = {"run", "call", "check_call", "check_output"}
_BOUNDING = {"wait_for", "within", "timeout", "timeout_at"}
"""Functions that bound what they are given, and what is within the block they open."""

_SILENT = re.compile(r"[\d.]+|(\w+\.)*_?[A-Z_]+")
"""For how long a thread is joined, which does not say whether it has ended; strings are in lower case."""

_PROCESSES = re.compile(
    r"(.*[._])?(child|process|proc|driver|broker|server|program|making|master)(e?s|ren)?(\[.*\])?"
)
"""Names of processes: their `wait` raises when its time is over, that of an event returns False."""

_PAUSE_S = 1
"""A `wait` for less than this is a pause, of a thread that goes on in any case."""

_TIME = re.compile(r"deadline|monotonic\(\)|time\(\)|until_s\b")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Wait:
    """A wait without a bound.

    Attributes:
        line: from 1.
        what: the function that is called (`thread.join`), or the head of a loop (`while not done`).
    """

    line: int
    what: str


def unbounded(source: str) -> list[Wait]:
    """Return the waits without a bound in the text of a module, by line."""
    finder = _Finder()
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda wait: (wait.line, wait.what))


class _Finder(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[Wait] = []
        self._functions: list[ast.AST] = []
        self._bounds = 0

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, _FUNCTIONS):
            # What is defined within a bounded block may run elsewhere.
            bounds, self._bounds = self._bounds, 0
            self._functions.append(node)
            self.generic_visit(node)
            self._functions.pop()
            self._bounds = bounds
            return
        if not self._bounds:
            self._look_at(node)
        bounds = int(_is_bound(node))
        self._bounds += bounds
        self.generic_visit(node)
        self._bounds -= bounds

    def _look_at(self, node: ast.AST) -> None:
        if isinstance(node, ast.While) and _is_poll(node):
            self.found.append(Wait(node.lineno, f"while {ast.unparse(node.test)}"))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_dropped(node.value):
            self.found.append(Wait(node.lineno, ast.unparse(node.value.func)))
        elif isinstance(node, ast.Call) and self._is_without_end(node):
            self.found.append(Wait(node.lineno, ast.unparse(node.func)))

    def _is_without_end(self, call: ast.Call) -> bool:
        if not isinstance(call.func, ast.Attribute) or _has_timeout(call):
            return False
        name, of = call.func.attr, ast.unparse(call.func.value)
        if of == "subprocess":
            return name in _PROGRAMS
        if name == "communicate":
            return len(call.args) < 2
        if name == "result" and self._functions and isinstance(self._functions[-1], ast.AsyncFunctionDef):
            return False  # A coroutine's futures are asyncio's, whose `result` does not wait.
        # One's own method waits, if it does, where it is defined; for an event that nobody has, nobody waits.
        if of in ("self", "asyncio.Event()"):
            return False
        return name in ("join", "wait", "result", "get", "acquire") and not call.args


def _has_timeout(call: ast.Call) -> bool:
    names = [keyword.arg for keyword in call.keywords]
    return any(name is None or name.startswith("timeout") for name in names)


def _is_dropped(call: ast.Call) -> bool:
    """Return whether a wait is over sooner or later, and nobody looks whether it was in vain."""
    if not isinstance(call.func, ast.Attribute):
        return False
    name, of = call.func.attr, ast.unparse(call.func.value)
    bounds = [*call.args, *(one.value for one in call.keywords if (one.arg or "").startswith("timeout"))]
    if not bounds:
        return False
    if name == "join":
        return bool(_SILENT.fullmatch(ast.unparse(bounds[0])))
    if name != "wait" or of == "asyncio" or _PROCESSES.fullmatch(of):
        return False
    bound = getattr(bounds[0], "value", None)
    return not (isinstance(bound, (int, float)) and bound < _PAUSE_S)


def _is_bound(node: ast.AST) -> bool:
    if isinstance(node, (ast.AsyncWith, ast.With)):
        return any(_is_bound(item.context_expr) for item in node.items)
    if not isinstance(node, ast.Call):
        return False
    return ast.unparse(node.func).rpartition(".")[2] in _BOUNDING


def _is_poll(loop: ast.While) -> bool:
    """Return whether a loop looks again and again until something holds, without a look at the time.

    One that works until it is told to end, by an event, is no poll: whoever tells it waits for its thread.
    """
    inside = list(_own(loop))
    looks = [ast.unparse(node) for node in inside if isinstance(node, ast.Compare)]
    if any(_TIME.search(look) for look in looks) or ".is_set()" in ast.unparse(loop.test):
        return False
    if any(isinstance(node, ast.Call) and _is_look(node) for node in inside):
        return True
    test = [loop.test, *_own(loop.test)]
    if any(isinstance(node, ast.Await) for node in test):
        return True
    is_idle = all(isinstance(one, (ast.Pass, ast.Continue)) for one in loop.body)
    asks = any(isinstance(node, (ast.Not, ast.Compare)) for node in test)
    return is_idle and asks and not any(isinstance(node, ast.Call) and _has_timeout(node) for node in test)


def _is_look(call: ast.Call) -> bool:
    """Return whether a call sleeps, or asks a consumer for more; the `poll` of a process has no arguments."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name in ("poll", "consume", "getmany"):
        return bool(call.args or call.keywords)
    return name in ("sleep", "settle")


def _own(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _FUNCTIONS):
            yield child
            yield from _own(child)
