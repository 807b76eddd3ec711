"""Servers and threads that run during a `with` block of a test."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class InBlock(ABC):
    """Starts at the begin of a block, `with` or `async with`, and leaves nothing behind at its end, nor when
    the start fails."""

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

    async def __aenter__(self) -> Self:
        """Start, while the event loop goes on."""
        entering = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            # The thread cannot be broken off: what it has started is closed when it is done.
            with suppress(BaseException):
                await entering
            await asyncio.to_thread(self.close)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, while the event loop goes on, and leave nothing behind."""
        await asyncio.to_thread(self.__exit__, kind, error, trace)
