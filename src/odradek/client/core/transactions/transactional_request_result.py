"""The result of what an application asked its transactions for."""

from __future__ import annotations

from collections.abc import Callable

from odradek.errors import OdradekError


class TransactionalRequestResult:
    """One call of the application, and its outcome; done when all requests of it are answered.

    Attributes:
        error: why it failed; None if it did not, or is not done.
        acked: the application has seen the outcome.
        commits: it commits a transaction.
    """

    __slots__ = ("_waiters", "acked", "commits", "done", "error", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.done = False
        self.acked = False
        self.commits = False
        self.error: OdradekError | None = None
        self._waiters: list[Callable[[], None]] = []

    def when_done(self, waiter: Callable[[], None]) -> None:
        """Call `waiter` when the outcome is known, at once if it is."""
        if self.done:
            waiter()
        else:
            self._waiters.append(waiter)

    def finish(self, error: OdradekError | None = None) -> None:
        """The outcome is known; what comes later changes nothing."""
        if self.done:
            return
        self.done, self.error = True, error
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def outcome(self) -> None:
        """To be called by the application's shell once it is done.

        Raises:
            OdradekError: its error.
        """
        assert self.done
        self.acked = True
        if self.error is not None:
            raise self.error
