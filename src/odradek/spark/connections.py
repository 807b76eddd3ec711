"""Readers kept open between the tasks of one Python worker.

Spark reuses its Python workers, so the second task that reads the same cluster finds its connections open and
its metadata known. One reader is used by one task at a time; a task that fails closes its reader instead of
giving it back.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from odradek.client import RawReader
from odradek.spark.kafka_configs import BOOTSTRAP_SERVERS

_MOST_KEPT = 4
_idle: dict[frozenset[tuple[str, str]], list[RawReader]] = {}
_frozen = False


def open_reader(configs: Mapping[str, str]) -> RawReader:
    """A reader for the cluster of `configs` (Kafka's dotted names, `bootstrap.servers` included)."""
    others = {name: value for name, value in configs.items() if name != BOOTSTRAP_SERVERS}
    return RawReader(configs[BOOTSTRAP_SERVERS], others)


@contextmanager
def borrowed_reader(configs: Mapping[str, str]) -> Iterator[RawReader]:
    """A reader for the cluster of `configs`, kept for the next task if this one succeeds."""
    freeze_once()
    key = frozenset(configs.items())
    idle = _idle.get(key)
    reader = idle.pop() if idle else open_reader(configs)
    try:
        yield reader
    except BaseException:
        # Also GeneratorExit: a `limit` upstream leaves a fetch half read.
        reader.close()
        raise
    if sum(map(len, _idle.values())) < _MOST_KEPT:
        _idle.setdefault(key, []).append(reader)
    else:
        reader.close()


def close_idle() -> None:
    """Close the readers that nobody uses."""
    for readers in _idle.values():
        for reader in readers:
            reader.close()
    _idle.clear()


def freeze_once() -> None:
    """Take what is imported by now out of the garbage collector's sight.

    PySpark collects garbage after every task; walking pyarrow, pandas and PySpark itself each time costs
    more than a small task does.
    """
    global _frozen
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True
