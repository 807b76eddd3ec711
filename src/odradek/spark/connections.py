"""Readers and writers kept open between the tasks of one Python worker.

Spark reuses its Python workers, so the second task that reads or writes the same cluster finds its
connections open and its metadata known. Each is used by one task at a time; a task that fails closes what it
borrowed instead of giving it back.
"""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from odradek.client.config import CommonConfig, python_name
from odradek.client.errors import NoBrokersAvailableError
from odradek.client.security import is_security_config
from odradek.spark.errors import UnreachableError
from odradek.spark.garbage import freeze_what_stays
from odradek.spark.kafka_configs import BOOTSTRAP_SERVERS

if TYPE_CHECKING:
    # Each is imported by who makes one: a planner or a task that only reads starts sooner without the writer.
    from odradek.client import RawReader, RawWriter

FIRST_CONTACT_MS = 5_000.0
_MOST_KEPT = 4
_reached: set[tuple[int, str]] = set()
"""The servers that a process (forked ones begin anew) has found a broker at."""
_Key = tuple[str, frozenset[tuple[str, str]]]
_idle: dict[_Key, list[Any]] = {}


def open_reader(configs: Mapping[str, str], first_contact_ms: float = math.inf) -> "RawReader":
    """A reader for the cluster of `configs` (Kafka's dotted names, `bootstrap.servers` included).

    `first_contact_ms`: as for `RawReader`.
    """
    from odradek.client import RawReader

    return RawReader(configs[BOOTSTRAP_SERVERS], _others(configs), first_contact_ms=first_contact_ms)


def first_contact_ms(configs: Mapping[str, str]) -> float:
    """Return how long a query that begins waits for a first broker: `default.api.timeout.ms`, if it is given.

    It is short: who mistyped a server should not wait for as long as who has to outlast a broker's restart.
    """
    timeout_text = configs.get("default.api.timeout.ms", "")
    return float(timeout_text) if timeout_text.strip().isdigit() else FIRST_CONTACT_MS


def unreachable(configs: Mapping[str, str], problem: NoBrokersAvailableError) -> UnreachableError:
    """The error for somebody whose servers may be wrong."""
    return UnreachableError(
        f"{problem.message}. Check kafka.bootstrap.servers ('{configs[BOOTSTRAP_SERVERS]}'), and whether a "
        f"broker runs there. It was tried for {first_contact_ms(configs) / 1000:g} s: "
        "kafka.default.api.timeout.ms says for how long"
    )


def check_reachable(configs: Mapping[str, str]) -> None:
    """Reach a broker, if this process never did before.

    Raises:
        UnreachableError: no broker can be reached.
    """
    servers = configs[BOOTSTRAP_SERVERS]
    if (os.getpid(), servers) in _reached:
        return
    try:
        with open_reader(connecting(configs), first_contact_ms(configs)) as reader:
            reader.connect()
    except NoBrokersAvailableError as problem:
        raise unreachable(configs, problem) from problem
    _reached.add((os.getpid(), servers))


def connecting(configs: Mapping[str, str]) -> dict[str, str]:
    """Those of a reader's or writer's configs that every client knows: how brokers are reached."""
    names = {field.name for field in fields(CommonConfig)}
    return {
        name: value
        for name, value in configs.items()
        if python_name(name) in names or is_security_config(name)
    }


def open_writer(configs: Mapping[str, str]) -> "RawWriter":
    """A writer, as `open_reader`."""
    from odradek.client import RawWriter

    return RawWriter(configs[BOOTSTRAP_SERVERS], _others(configs))


def _others(configs: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in configs.items() if name != BOOTSTRAP_SERVERS}


@contextmanager
def borrowed_reader(configs: Mapping[str, str]) -> Iterator["RawReader"]:
    """A reader for the cluster of `configs`, kept for the next task if this one succeeds."""
    freeze_what_stays()
    key = ("read", frozenset(configs.items()))
    reader: RawReader = _take(key) or open_reader(configs)
    try:
        yield reader
    except BaseException:
        # Also GeneratorExit: a `limit` upstream leaves a fetch half read.
        reader.close()
        raise
    _keep(key, reader)


@contextmanager
def borrowed_writer(configs: Mapping[str, str]) -> Iterator["RawWriter"]:
    """A writer for the cluster of `configs`, flushed at the end, and kept for the next task if this succeeds.

    What a task that fails has not sent is abandoned.
    """
    freeze_what_stays()
    key = ("write", frozenset(configs.items()))
    writer: RawWriter = _take(key) or open_writer(configs)
    try:
        yield writer
        writer.flush()
    except BaseException:
        writer.abort()
        raise
    _keep(key, writer)


def _take(key: _Key) -> Any:
    idle = _idle.get(key)
    return idle.pop() if idle else None


def _keep(key: _Key, connection: "RawReader | RawWriter") -> None:
    if sum(map(len, _idle.values())) < _MOST_KEPT:
        _idle.setdefault(key, []).append(connection)
    else:
        connection.close()


def close_idle() -> None:
    """Close the readers and writers that nobody uses."""
    for idle in _idle.values():
        for connection in idle:
            connection.close()
    _idle.clear()
