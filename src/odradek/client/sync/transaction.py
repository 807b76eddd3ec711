"""The block of a transaction: committed at its end, aborted where it raises."""

from __future__ import annotations

from collections.abc import Callable


class Transaction:
    """The result of `Producer.begin_transaction`; the transaction has begun already.

    Args:
        leave: ends it; is told whether the block failed.
    """

    def __init__(self, leave: Callable[[bool], None]) -> None:
        self._leave = leave

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self._leave(kind is not None)
