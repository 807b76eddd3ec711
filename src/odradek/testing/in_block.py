"""Servers and threads that run during a `with` block of a test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class InBlock(ABC):
    """Starts at the begin of a block and leaves nothing behind at its end, nor when the start fails."""

    @abstractmethod
    def start(self) -> None:
        """Start, and return when it can be used."""

    @abstractmethod
    def close(self) -> None:
        """Stop, and leave nothing behind; also what has started in part. Harmless twice."""

    def __enter__(self) -> Self:
        """Start."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and leave nothing behind."""
        self.close()
