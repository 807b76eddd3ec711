"""Contracts for import-linter beyond those that it brings along. `pyproject.toml` says what they hold for."""

from __future__ import annotations

from collections.abc import Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class NoCircle(Contract):
    """No module of the packages imports itself by way of others.

    Imports for type checking count. Packages may know each other, as long as their files form no circle.
    """

    type_name = "no_circle"

    packages = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """See `Contract.check`."""
        circles = [circle for package in self.packages for circle in _circles(graph, f"{package}.") if circle]
        return ContractCheck(kept=not circles, metadata={"circles": circles})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """See `Contract.render_broken_contract`."""
        for circle in check.metadata["circles"]:
            output.print_error(" -> ".join([*circle, circle[0]]))


def _circles(graph: ImportGraph, prefix: str) -> Iterator[tuple[str, ...]]:
    """The shortest circle through each module; each circle once."""
    seen: set[frozenset[str]] = set()
    for module in sorted(one for one in graph.modules if one.startswith(prefix)):
        for imported in graph.find_modules_directly_imported_by(module):
            if not imported.startswith(prefix):
                continue
            back = graph.find_shortest_chain(imported, module)
            if back is not None and frozenset(back) not in seen:
                seen.add(frozenset(back))
                yield back
