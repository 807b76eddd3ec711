"""The ground of the three schema languages: a schema that was understood, and how two differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

SERIALIZED = "serialized"
"""The format in which protobuf's schemas are shown as base64 of their descriptor."""


class IncomparableError(ValueError):
    """Two schemas that cannot be compared; the message says why."""


class Budget:
    """Counts comparisons: schemas come from strangers, and types that use each other make many.

    Args:
        most: so many are made.
    """

    def __init__(self, most: int) -> None:
        self._left = most

    def spend(self) -> None:
        """Count one.

        Raises:
            IncomparableError: there were as many as are made.
        """
        self._left -= 1
        if self._left < 0:
            raise IncomparableError("they take too many comparisons")


class Difference(NamedTuple):
    """A reason why one schema cannot read what another has written.

    Attributes:
        error_type: the difference, as Confluent's registry calls it.
        path: where in the schema.
        description: in which `{reader}` and `{writer}` stand for "new" and "old", or the other way round.
        info: what more there is to say.
    """

    error_type: str
    path: str
    description: str
    info: str = ""

    def told(self, reader: str, writer: str) -> str:
        """Return it as a message."""
        description = self.description.replace("{reader}", reader).replace("{writer}", writer)
        info = f', additionalInfo:"{self.info}"' if self.info else ""
        return f'{{errorType:"{self.error_type}", description:"{description}"{info}}}'


class ParsedSchema(Protocol):
    """A schema that was understood."""

    @property
    def text(self) -> str:
        """The text that it is kept as."""

    @property
    def identity(self) -> str:
        """Equal for texts that say the same."""

    def normalized(self) -> str:
        """Return the text with everything in an order in which it means the same."""

    def formatted(self, format_name: str) -> str:
        """Return it as a client wants it; in formats that there are not, the text."""

    def differences(self, writer: ParsedSchema) -> Sequence[Difference]:
        """Return why it cannot read what `writer`, a schema of the same language, has written.

        Raises:
            IncomparableError: they cannot be compared.
            RecursionError: they are nested too deep.
        """
