"""Bounds of the columns that a schema makes, which may come from a registry that others write to.

A schema of a kilobyte whose types each use the next one twice has 2^50 columns, those inside others counted;
whoever unfolds it without counting has no memory left.
"""

from __future__ import annotations

from odradek.serdes.errors import SchemaError

MOST_COLUMNS = 10_000
"""Columns of one side, keys or values, those inside others counted."""

MOST_LEVELS = 100
"""How deep a column may lie in others."""

MOST_STEPS = 100_000
"""Steps of a plan that decodes what one schema wrote into the columns of another."""


class ColumnCount:
    """Counts the columns that are made of a schema.

    Args:
        schema: its kind and name, for the error.
    """

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._columns = 0

    def add(self, levels: int, columns: int = 1) -> None:
        """Count columns that lie in so many others.

        Raises:
            SchemaError: they are too many, or too deep.
        """
        self._columns += columns
        if self._columns > MOST_COLUMNS:
            raise SchemaError(
                f"{self._schema} has more than {MOST_COLUMNS:,} columns, those inside others counted, which "
                "is the most. Name the ones that you want in the option columns"
            )
        if levels > MOST_LEVELS:
            raise SchemaError(
                f"{self._schema} has columns that lie more than {MOST_LEVELS} deep in others, which is the "
                "most. Name the ones that you want in the option columns"
            )
