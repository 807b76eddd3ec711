"""Generated source: lines with indentation, constants bound by name, compiled into one function."""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class Source:
    """Collects lines of Python.

    Args:
        namespace: what the generated function may refer to by name.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.namespace = namespace
        self._locals = 0

    def emit(self, line: str) -> None:
        """Add a line at the current depth."""
        self.lines.append(" " * self.depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that opens a block; what is emitted inside stands one deeper."""
        self.emit(head)
        self.depth += 1
        yield
        self.depth -= 1

    def local(self, name: str) -> str:
        """A name that no other line uses."""
        self._locals += 1
        return f"{name}{self._locals}"

    def constant(self, name: str, value: Any) -> str:
        """Bind an object to a name; the same object gets the same name again."""
        for existing, bound in self.namespace.items():
            if bound is value and existing.startswith(name):
                return existing
        unique = name
        while unique in self.namespace:
            unique = self.local(name)
        self.namespace[unique] = value
        return unique

    def function(self, name: str, filename: str) -> Any:
        """Compile what was collected and return the function of that name."""
        exec(compile("\n".join(self.lines), filename, "exec"), self.namespace)
        return self.namespace[name]
