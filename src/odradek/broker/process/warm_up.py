"""Imports what has not been needed yet, in small steps between requests, once the broker is ready.

A module is read and run in some milliseconds; a handler with all that it needs takes twenty times that, and
everybody would wait. So each step is one module: what a module imports is known from its code, and is
imported before it. A step is followed by a pause as long as it took, and requests come in between
(docs/decisions/handlers-on-first-use.md).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from odradek.broker.apis.registry import SERVED, Handlers
from odradek.broker.process import collector
from odradek.util.repeats import Repeats

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

SHORTEST_PAUSE_S = 0.002
RETRY_S = 1.0

RETRY = object()
"""A step after which it is time to wait: something could not be imported."""

_PACKAGE = "odradek."

_FIRST = (18, 3, 0, 1, 2, 10, 11, 14, 12, 8, 9, 22)
"""APIs in the order in which a client of a broker that has just started asks for them."""

BESIDES_HANDLERS = (
    "odradek.log.startup.loading",
    "odradek.broker.groups.runtime",
    "odradek.broker.transactions.markers",
    "odradek.broker.transactions.runtime",
    "odradek.broker.metrics.telemetry",
    "odradek.log.segments.segment_scan",
    "odradek.wire.encoder",
)
"""Modules that are imported in the middle of a request."""


class _Loader(SourceFileLoader):
    """Runs code that has been read already."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code: CodeType | None = code

    def get_code(self, fullname: str) -> CodeType | None:
        """See `InspectLoader.get_code`."""
        # Kept for the one import: the loader lives as long as the module.
        code, self._code = self._code, None
        return code if code is not None else super().get_code(fullname)


class _Read:
    """A `MetaPathFinder` of the one module whose code has been read, so that it is not read twice."""

    def __init__(self, spec: ModuleSpec) -> None:
        self._spec = spec

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`."""
        return self._spec if fullname == self._spec.name else None


def import_in_steps(name: str, seen: set[str]) -> Iterator[str]:
    """Import a module of ours and what it imports, each in a step of its own.

    Args:
        name: the module.
        seen: modules that have had their turn; added to.

    Yields:
        After each step the module that it was about.
    """
    # Not needed to be ready.
    import importlib.util

    if name in sys.modules or name in seen:
        return
    seen.add(name)
    spec = importlib.util.find_spec(name)
    loader = None if spec is None else spec.loader
    code = _code_of(name, loader)
    if code is None or spec is None or spec.origin is None:
        importlib.import_module(name)  # a part of another installation's
        yield name
        return
    yield name
    # Names with a dot are those of imports. Some are there for type checkers only: those are few.
    for needed in code.co_names:
        if needed.startswith(_PACKAGE):
            yield from import_in_steps(needed, seen)
    if name in sys.modules:
        return
    if isinstance(loader, ExtensionFileLoader):
        importlib.import_module(name)
        yield name
        return
    read = _Read(
        importlib.util.spec_from_file_location(
            name,
            spec.origin,
            loader=_Loader(name, spec.origin, code),
            submodule_search_locations=spec.submodule_search_locations,
        )
        or spec
    )
    sys.meta_path.insert(0, read)
    try:
        importlib.import_module(name)
    finally:
        sys.meta_path.remove(read)
    yield name


def _code_of(name: str, loader: object) -> CodeType | None:
    """A module's code, which names what it imports; of a compiled one its source's, where there is one."""
    if isinstance(loader, SourceFileLoader):
        return loader.get_code(name)
    if isinstance(loader, ExtensionFileLoader):
        source = Path(loader.path).with_name(name.rpartition(".")[2] + ".py")
        if source.exists():
            return SourceFileLoader(name, str(source)).get_code(name)
    return None


class WarmUp:
    """Imports while the loop has nothing else to do. Made and started in the loop's thread.

    Attributes:
        done: everything has been imported.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, handlers: Handlers) -> None:
        """
        Args:
            loop: the broker's.
            handlers: whose handlers are made ready.
        """
        self._loop = loop
        self._steps = self.all_steps(handlers)
        self._next: asyncio.TimerHandle | None = None
        self.done = False

    def start(self) -> None:
        """Begin with the next turn of the loop."""
        self._next = self._loop.call_later(SHORTEST_PAUSE_S, self._step)

    def stop(self) -> None:
        """Import no more; harmless when it does not."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _step(self) -> None:
        began = time.monotonic()
        done = next(self._steps, None)
        if done is None:
            self._next = None
            self.done = True
            collector.keep()
            logger.debug("everything has been imported modules=%d", len(sys.modules))
            return
        pause_s = max(SHORTEST_PAUSE_S, time.monotonic() - began)
        self._next = self._loop.call_later(RETRY_S if done is RETRY else pause_s, self._step)

    @staticmethod
    def all_steps(handlers: Handlers) -> Iterator[object]:
        """Import handlers and what they use, the most urgent first, a little at each step."""
        keys = (*(key for key in _FIRST if key in SERVED), *sorted(SERVED.keys() - set(_FIRST)))
        modules = dict.fromkeys(f"odradek.broker.handlers.{SERVED[key].module}" for key in keys)
        left: Sequence[str] = (*modules, *BESIDES_HANDLERS)
        while left:
            failed = []
            seen: set[str] = set()
            for name in left:
                try:
                    yield from import_in_steps(name, seen)
                except OSError as error:
                    # Out of descriptors, most likely. It is imported when it is needed, or can be.
                    repeats.log(logging.WARNING, None, "cannot be imported yet module=%s: %s", name, error)
                    failed.append(name)
            left = failed
            if failed:
                yield RETRY
        for key in keys:
            handlers.get(key)
            yield key
