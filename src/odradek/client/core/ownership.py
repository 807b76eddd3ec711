"""One caller at a time: Kafka's `KafkaConsumer.acquire`.

A client that is not made for several threads says so at once, where it would otherwise mix their answers up.
The caller that is inside may come in again, from a listener, a callback or a signal's handler, where the
client allows it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Hashable
from types import FrameType, TracebackType
from typing import Any, Protocol, TypeVar

from odradek.client.errors import ConcurrentModificationError, IllegalStateError
from odradek.util.interruptible import Bell

Method = TypeVar("Method", bound=Callable[..., Any])


class Entry:
    """One call while it is under way; ends with its `with` block.

    Attributes:
        name: of the method.
        caller: the thread (its identifier) or task.
        inside: the call of the same caller that it is made amid; None if it is the outermost.
    """

    __slots__ = ("_owner", "caller", "frame", "inside", "name")

    def __init__(self, owner: Ownership, name: str, caller: Hashable) -> None:
        self._owner = owner
        self.name = name
        self.caller = caller
        self.inside: Entry | None = None
        self.frame: FrameType | None = None

    def __enter__(self) -> Entry:
        self.frame = sys._getframe(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None
    ) -> None:
        self._owner.leave(self)
        self.frame = None

    @property
    def is_over(self) -> bool:
        """Return whether its block was left without a word: its thread has gone, or an exception that a
        signal's handler raised (Ctrl-C) came right before the first or the last step of the block.
        """
        if self.caller != threading.get_ident():
            return isinstance(self.caller, int) and self.caller not in sys._current_frames()
        frame: FrameType | None = sys._getframe()
        while frame is not None and self.frame is not None:
            if frame is self.frame:
                return False
            frame = frame.f_back
        return True


class Ownership:
    """The calls of one client. Nothing here is a lock: a signal's handler may come between any two steps.

    Args:
        client_name: for messages: "this Consumer".
    """

    def __init__(self, client_name: str) -> None:
        self._client_name = client_name
        self._holder: dict[str, Entry] = {}  # at most one: `setdefault` and `pop` are one step each
        self._wait_for_end: list[Bell] = []

    @property
    def holder(self) -> Entry | None:
        """Return the outermost call under way, if any."""
        holder = self._holder.get("")
        return None if holder is None or holder.is_over else holder

    def enter(self, name: str, caller: Hashable, *, nested: bool = True) -> Entry:
        """Begin a call.

        Args:
            name: of the method.
            caller: the thread, or the task.
            nested: whether it may be made amid another one of the same caller.

        Raises:
            ConcurrentModificationError: another caller is inside.
            IllegalStateError: the call may not be nested.
        """
        entry = Entry(self, name, caller)
        holder = self._holder.setdefault("", entry)
        if holder is not entry and holder.is_over:
            self.leave(holder)
            holder = self._holder.setdefault("", entry)
        if holder is entry:
            return entry
        if holder.caller != caller:
            raise ConcurrentModificationError(
                f"{name}: {self._client_name} is in {holder.name} of another thread or task, and is "
                "for one at a time; only close and wakeup may be called beside that"
            )
        if not nested:
            raise IllegalStateError(
                f"{name} amid {holder.name} of {self._client_name}, from a listener, a callback or a "
                "signal's handler: only after that has returned"
            )
        entry.inside = holder
        return entry

    def leave(self, entry: Entry) -> None:
        """End a call."""
        if self._holder.get("") is entry:
            self._holder.pop("", None)
            for bell in list(self._wait_for_end):
                bell.ring()

    def wait_free(self, timeout_s: float) -> bool:
        """Wait until nobody is inside, at most so many seconds. Returns whether that is so."""
        bell = Bell()
        self._wait_for_end.append(bell)
        try:
            return self.holder is None or bell.wait(timeout_s)
        finally:
            self._wait_for_end.remove(bell)


class OneAtATime(Protocol):
    """A client whose methods are `one_at_a_time`."""

    _ownership: Ownership

    def _check_usable(self) -> None:
        """Raise what stands in the way of any call."""


def one_at_a_time(method: Method) -> Method:
    """Make a method refuse, at once, to be called amid another one of its client, in whatever thread. Of a
    generator, each step is a call.
    """
    name = method.__name__

    def enter(self: OneAtATime) -> Entry:
        self._check_usable()
        return self._ownership.enter(name, threading.get_ident(), nested=False)

    @functools.wraps(method)
    def call(self: OneAtATime, *args: Any, **more: Any) -> Any:
        with enter(self):
            return method(self, *args, **more)

    @functools.wraps(method)
    def steps(self: OneAtATime, *args: Any, **more: Any) -> Any:
        generator = method(self, *args, **more)
        try:
            while True:
                with enter(self):
                    try:
                        item = next(generator)
                    except StopIteration:
                        return
                yield item
        finally:
            generator.close()

    return steps if inspect.isgeneratorfunction(method) else call  # type: ignore[return-value]
