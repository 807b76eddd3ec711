"""Structured log lines on standard error: `key=value` text or one JSON object per line.

The broker logs with the standard library's `logging` under `odradek.…`; messages carry their facts as
`key=value` at the end, so that the text form needs no further structure.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import IO

FORMATS = ("text", "json")


def _timestamp(created: float, msecs: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created)) + f".{int(msecs):03d}Z"


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z WARN broker.connection closing a connection peer=…`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; an exception follows on further, indented lines."""
        name = record.name.removeprefix("odradek.")
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        message = record.getMessage()
        if not message.isprintable():
            # Client ids and names come from strangers: they must not be able to write lines of their own.
            message = _escaped(message)
        line = f"{_timestamp(record.created, record.msecs)} {level} {name} {message}"
        if record.exc_info:
            line += "\n" + "\n".join(
                "    " + part for part in self.formatException(record.exc_info).splitlines()
            )
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `time`, `level`, `logger`, `message` and, for an exception, `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        entry = {
            "time": _timestamp(record.created, record.msecs),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(log_format: str = "text", level: str = "INFO", stream: IO[str] | None = None) -> None:
    """Send everything that is logged under `odradek` to standard error.

    Args:
        log_format: `text` or `json`.
        level: the least level that is shown.
        stream: where to, standard error when None.

    Raises:
        ValueError: an unknown format or level.
    """
    if log_format not in FORMATS:
        raise ValueError(f"log format {log_format!r} is none of {', '.join(FORMATS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger("odradek")
    for present in list(root.handlers):
        root.removeHandler(present)
    root.addHandler(handler)
    root.setLevel(level.upper())
    root.propagate = False
