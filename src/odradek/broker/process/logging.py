"""Structured log lines on standard error: `key=value` text or one JSON object per line.

The broker logs with the standard library's `logging` under `odradek.…`; messages carry their facts as
`key=value` at the end, so that the text form needs no further structure. The JSON form has them as fields,
too, numbers as numbers: `key=%d` in a message is the field `key`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import IO, NamedTuple

from odradek.broker.config.loggers import AUDIT, LEVELS
from odradek.broker.process.modes import make_for_owner
from odradek.util.repeats import Repeats

FORMATS = ("text", "json")

logger = logging.getLogger(__name__)
repeats = Repeats(logger)


def _timestamp(created: float, msecs: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created)) + f".{int(msecs):03d}Z"


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z WARN broker.connection closing a connection peer=…`.

    Args:
        worker: the number of the worker that this process is; each line then begins with `[worker 1]`.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._prefix = "" if worker is None else f"[worker {worker}] "

    def format(self, record: logging.LogRecord) -> str:
        """One line; an exception follows on further, indented lines."""
        name = record.name.removeprefix("odradek.")
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        message = record.getMessage()
        if not message.isprintable():
            # Client ids and names come from strangers: they must not be able to write lines of their own.
            message = _escaped(message)
        line = f"{self._prefix}{_timestamp(record.created, record.msecs)} {level} {name} {message}"
        if record.exc_info:
            line += "\n" + "\n".join(
                f"{self._prefix}    {part}" for part in self.formatException(record.exc_info).splitlines()
            )
        return line


RESERVED = ("time", "level", "logger", "message", "exception", "worker")
"""The names that lines have of their own. A fact of such a name gets an underscore behind it."""

_SPECIFIER = re.compile(r"%[#0\- +]*[\d*]*(?:\.[\d*]+)?[diouxXeEfFgGcrsa%]")
_FACT = re.compile(r"(\w+)=(.*%.*)")


class _Fact(NamedTuple):
    """`key=%s:%d` of a message: its key, its form, and which arguments it takes."""

    name: str
    form: str
    first: int
    after: int


@lru_cache(maxsize=1024)
def _facts(message: str) -> tuple[_Fact, ...]:
    """The facts of a message that has not been formatted."""
    facts = []
    position = 0
    for word in message.split():
        count = sum(1 for specifier in _SPECIFIER.findall(word) if specifier[-1] != "%")
        fact = _FACT.fullmatch(word)
        if fact is not None and count:
            name = f"{fact[1]}_" if fact[1] in RESERVED else fact[1]
            facts.append(_Fact(name, fact[2].rstrip(".,:;"), position, position + count))
        position += count
    return tuple(facts)


def fields(record: logging.LogRecord) -> dict[str, object]:
    """The facts of a line, under their keys; numbers, truth values and null as such, all else as text."""
    args = record.args
    if not isinstance(record.msg, str) or not isinstance(args, tuple):
        return {}
    values_by_key: dict[str, object] = {}
    for name, form, first, after in _facts(record.msg):
        values = args[first:after]
        value = values[0] if len(values) == 1 else None
        if form == "%d" and isinstance(value, (int, float)):
            values_by_key[name] = int(value)
        elif form.endswith("f") and isinstance(value, float) and _SPECIFIER.fullmatch(form):
            values_by_key[name] = float(form % values)
        elif form == "%s" and (value is None or isinstance(value, (bool, int, float))):
            values_by_key[name] = value
        else:
            values_by_key[name] = form % values
    return values_by_key


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `time`, `level`, `logger`, `message`, the message's facts as fields, and for
    an exception `exception`.

    Args:
        worker: the number of the worker that this process is; it is then in each line, too.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._own: dict[str, object] = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        entry: dict[str, object] = {
            "time": _timestamp(record.created, record.msecs),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **fields(record),
            **self._own,
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


MOST_LINES = 1_000
"""Lines of one place in the code that are written in a minute."""

_MINUTE_S = 60.0


class _Place:
    """The lines of one place in the code in the minute that goes on."""

    __slots__ = ("began_s", "left_out", "lines", "record")

    def __init__(self, record: logging.LogRecord, now_s: float) -> None:
        self.record = record
        self.began_s = now_s
        self.lines = 0
        self.left_out = 0


class Flood(logging.Filter):
    """Bounds what one place in the code may write in a minute, whoever makes it write; not at debug level.

    It begins when the broker is ready: what a start says of many thousand partitions is all worth having.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            clock: monotonic time in seconds.
        """
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], _Place] = {}
        self._begun = False

    def begin(self) -> None:
        """Count from now on."""
        self._begun = True

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter.filter`."""
        if not self._begun or record.levelno < logging.INFO:
            return True
        now_s = self._clock()
        key = (record.pathname, record.lineno)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(record, now_s)
        elif now_s - place.began_s >= _MINUTE_S:
            place.began_s, place.lines = now_s, 0
        place.lines += 1
        if place.lines <= MOST_LINES:
            return True
        place.left_out += 1
        place.record = record
        return False

    def tell_counts(self) -> None:
        """Say what has been left out since the last time."""
        for place in list(self._places.values()):
            if place.left_out:
                count, place.left_out = place.left_out, 0
                logger.warning(
                    "log lines were left out count=%d of=%s last=%s",
                    count,
                    place.record.name,
                    place.record.getMessage(),
                )


flood = Flood()
"""On the handler of this process."""


def configure(
    log_format: str = "text",
    level: str = "INFO",
    stream: IO[str] | None = None,
    *,
    worker: int | None = None,
    authorizer_log: Path | None = None,
    authorizer_level: str = "INFO",
) -> None:
    """Send everything that is logged under `odradek`, and the authorizer's audit log, to standard error.

    Args:
        log_format: `text` or `json`.
        level: the least level that is shown.
        stream: where to, standard error when None.
        worker: the number of the worker that this process is; None for a broker that is alone.
        authorizer_log: a file for the audit log, which then has all of its lines, and nobody else's.
        authorizer_level: the least level of the audit log: INFO for what was denied, DEBUG for what was
            granted, TRACE for every question.

    Raises:
        ValueError: an unknown format or level.
        OSError: the file cannot be written.
    """
    if log_format not in FORMATS:
        raise ValueError(f"log format {log_format!r} is none of {', '.join(FORMATS)}")
    formatter = JsonFormatter(worker) if log_format == "json" else TextFormatter(worker)
    handler: logging.Handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(flood)
    _send("odradek", handler, level.upper())
    if authorizer_log is not None:
        handler = _AuditFile(authorizer_log, encoding="utf-8", errors="backslashreplace")
        handler.setFormatter(formatter)
    _send(AUDIT, handler, LEVELS[authorizer_level.upper()])


def _send(name: str, handler: logging.Handler, level: int | str) -> None:
    logger = logging.getLogger(name)
    for present in list(logger.handlers):
        logger.removeHandler(present)
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False


class _AuditFile(WatchedFileHandler):
    """A file that only its owner may read, and that is made again when somebody has moved it away."""

    def _open(self) -> TextIOWrapper:
        make_for_owner(Path(self.baseFilename))
        return super()._open()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. Where that fails the request that it is about is answered all the same."""
        try:
            super().emit(record)
        except OSError:  # from opening the file again, which the library leaves to whoever logs
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802
        """Say that a line is lost, and not with a trace for each."""
        error = sys.exc_info()[1]
        repeats.log(logging.ERROR, self.baseFilename, "no line in %s: %s", self.baseFilename, error)
