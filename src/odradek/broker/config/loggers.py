"""The broker's loggers and their levels, seen and set while it runs (KIP-412), under Kafka's level names."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from odradek.errors import InvalidConfigurationError, InvalidRequestError

ROOT = "root"
PACKAGE = "odradek"
AUDIT = "kafka.authorizer.logger"
"""The authorizer's, which has Kafka's name."""

LEVELS = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}

SET, DELETE, APPEND, SUBTRACT = range(4)
_OPERATIONS = ("SET", "DELETE", "APPEND", "SUBTRACT")


def levels() -> dict[str, str]:
    """The effective level of the root logger and of each of the broker's, by name."""
    names = sorted(
        name
        for name in logging.root.manager.loggerDict
        if name in (PACKAGE, AUDIT) or name.startswith(f"{PACKAGE}.")
    )
    level_by_name = {ROOT: _name(logging.root.getEffectiveLevel())}
    return level_by_name | {name: _name(logging.getLogger(name).getEffectiveLevel()) for name in names}


def check(changes: Iterable[tuple[str, int, str | None]]) -> None:
    """Check changes of levels, `(logger, operation, level)`, before any is made.

    Raises:
        InvalidConfigurationError: no such logger or level.
        InvalidRequestError: an operation that makes no sense for a level.
    """
    present = levels()
    for name, operation, level in changes:
        if operation not in (SET, DELETE):
            shown = _OPERATIONS[operation] if 0 <= operation < len(_OPERATIONS) else str(operation)
            raise InvalidRequestError(f"Operation {shown} is not allowed for the BROKER_LOGGER resource")
        if name not in present:
            raise InvalidConfigurationError(f"Logger {name} does not exist!")
        if operation == SET and level not in LEVELS:
            raise InvalidConfigurationError(
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}"
            )
        if operation == DELETE and name == ROOT:
            raise InvalidRequestError("Removing the log level of the root logger is not allowed")


def change(changes: Iterable[tuple[str, int, str | None]]) -> None:
    """Make changes that `check` has let pass. A deleted level is that of the logger above."""
    for name, operation, level in changes:
        logger = logging.root if name == ROOT else logging.getLogger(name)
        logger.setLevel(LEVELS[level or ""] if operation == SET else logging.NOTSET)


def _name(level: int) -> str:
    """The name of the level at or below `level`."""
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")
