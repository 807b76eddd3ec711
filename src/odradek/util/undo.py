"""The undoing of what has been begun, in the opposite order."""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

Action = Callable[[], object]


class Undo:
    """A stack of actions, each with a name for the log line where it fails."""

    __slots__ = ("_actions",)

    def __init__(self) -> None:
        self._actions: list[tuple[str, Action]] = []

    def push(self, name: str, action: Action) -> None:
        """Add `action`, to be called before all that were pushed earlier."""
        self._actions.append((name, action))

    def drop(self, *names: str) -> None:
        """Leave these as they are: they are not to be undone, or have been already."""
        self._actions = [action for action in self._actions if action[0] not in names]

    def all(self) -> None:
        """Undo everything, the last first. An action that fails is logged, and the others are done."""
        while self._actions:
            self.do(*self._actions.pop())

    @staticmethod
    def do(name: str, action: Action) -> None:
        """Call one action now; log it where it fails."""
        try:
            action()
        except Exception:
            logger.exception("could not be stopped in good order: %s", name)
