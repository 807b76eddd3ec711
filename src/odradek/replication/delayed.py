# compiled: mypyc
"""Operations that wait for a partition, a replica or the metadata: long polls, acks=all, topics to come.

An operation waits for any of its keys to be checked, or for its time to run out; it ends exactly once.
Nothing here knows a socket, an event loop or a clock: timers are handed in.

    watch ──try_complete() true──────────────► done
      │
      └─► waiting ──check(key), try true─────► done
             ├──timer fires── on_timeout() ──► done
             └──cancel()─────────────────────► done (nothing is called)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from odradek.util.timers import TimerHandle, Timers


class DelayedOperation:
    """One thing that waits; made by `Purgatory.watch`.

    Attributes:
        done: whether it has ended, in whichever way.
    """

    __slots__ = (
        "_by_key",
        "_keys",
        "_on_timeout",
        "_purgatory",
        "_timer",
        "_try_complete",
        "_trying",
        "done",
    )

    def __init__(
        self,
        purgatory: Purgatory,
        keys: tuple[Hashable, ...],
        try_complete: Callable[..., bool],
        on_timeout: Callable[[], None],
        by_key: bool,
    ) -> None:
        self.done = False
        self._by_key = by_key
        self._purgatory = purgatory
        self._keys = keys
        self._try_complete = try_complete
        self._on_timeout = on_timeout
        self._timer: TimerHandle | None = None
        self._trying = False

    def cancel(self) -> None:
        """End it without calling anything; for a peer that has gone. Harmless when it has ended."""
        if not self.done:
            self._end()

    def _try(self, key: Hashable = None) -> bool:
        # A completion may append, which checks keys, which may come back here: the outer try decides.
        if self.done or self._trying:
            return False
        self._trying = True
        try:
            completed = self._try_complete(key) if self._by_key else self._try_complete()
        except BaseException:
            # It would break at every later check as well, each time in somebody else's request.
            if not self.done:
                self._end()
            raise
        finally:
            self._trying = False
        if completed and not self.done:
            self._end()
        return completed

    def _expire(self) -> None:
        if self.done:
            return
        on_timeout = self._on_timeout
        self._end()
        on_timeout()

    def _end(self) -> None:
        self.done = True
        # Whoever waited holds the operation to cancel it: a cycle, with a response in it, unless let go.
        self._try_complete = self._on_timeout = _ended
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._purgatory._forget(self)


def _ended(_key: Hashable = None) -> Any:
    raise AssertionError("an operation that has ended is not called")


class Purgatory:
    """The operations that wait, found by their keys.

    Keys are whatever the parties agree on; the broker uses `(topic, partition)` tuples for fetches,
    `("hw", topic, partition)` for acks=all, `("group", group_id)` for groups.
    """

    def __init__(
        self, timers: Timers, *, on_error: Callable[[DelayedOperation, Exception], None] | None = None
    ) -> None:
        """
        Args:
            timers: where timeouts are set.
            on_error: told of an exception out of `try_complete` during `check`; without it the exception
                reaches the caller of `check`, after all other operations have been tried.
        """
        self._timers = timers
        self._on_error = on_error
        # An operation is in `_waiting`, and in `_watchers` under each of its keys, from the end of `watch`
        # until it is done. Dicts in place of sets: `check` tries in the order of arrival. No key is kept
        # without an operation, as the groups and partitions that come and go are without bound.
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._waiting: dict[DelayedOperation, None] = {}

    def __len__(self) -> int:
        """Return how many operations wait."""
        return len(self._waiting)

    def watch(
        self,
        keys: Iterable[Hashable],
        try_complete: Callable[..., bool],
        on_timeout: Callable[[], None],
        timeout_ms: float,
        *,
        by_key: bool = False,
    ) -> DelayedOperation:
        """Try an operation now, and when it cannot complete let it wait for its keys.

        Args:
            keys: any of these, given to `check`, makes the operation be tried again.
            try_complete: does the work if it can be done and says whether it did; called at once and upon
                every check, never again after it returned true.
            on_timeout: called instead, once, when `timeout_ms` have passed.
            timeout_ms: how long to wait; zero or less ends an operation that cannot complete at once.
            by_key: `try_complete` takes the key that was checked, and is not called now: whoever wants to
                know the key has looked at all of them just before.

        Returns:
            The operation, perhaps done already.
        """
        operation = DelayedOperation(self, tuple(keys), try_complete, on_timeout, by_key)
        if not by_key and (operation._try() or operation.done):
            return operation
        if timeout_ms <= 0:
            operation._expire()
            return operation
        self._waiting[operation] = None
        watchers = self._watchers
        for key in operation._keys:
            waiting = watchers.get(key)
            if waiting is None:
                watchers[key] = {operation: None}
            else:
                waiting[operation] = None
        operation._timer = self._timers.call_later(timeout_ms, operation._expire)
        return operation

    def check(self, key: Hashable) -> int:
        """Try every operation that waits for `key`, in the order of their arrival.

        Returns:
            How many of them completed.
        """
        watchers = self._watchers
        waiting = watchers.get(key) if watchers else None
        if waiting is None:
            return 0
        completed = 0
        failure: Exception | None = None
        # A copy: who completes takes itself out, and may have others complete by what it does.
        for operation in tuple(waiting):
            try:
                completed += operation._try(key)
            except Exception as error:
                if self._on_error is not None:
                    self._on_error(operation, error)
                else:
                    failure = error
        if failure is not None:
            raise failure
        return completed

    def watched(self, key: Hashable) -> int:
        """Return how many operations wait for `key`."""
        return len(self._watchers.get(key, ()))

    def expire(self, key: Hashable) -> None:
        """End every operation that waits for `key` as if its time had run out."""
        for operation in tuple(self._watchers.get(key, ())):
            operation._expire()

    def expire_all(self) -> None:
        """End every operation as if its time had run out; for a broker that stops."""
        for operation in tuple(self._waiting):
            operation._expire()

    def _forget(self, operation: DelayedOperation) -> None:
        # Done already in `watch`, it was never put in; `self` stands for that, since the values are None.
        if self._waiting.pop(operation, self) is self:
            return
        watchers = self._watchers
        for key in operation._keys:
            waiting = watchers.get(key)
            if waiting is not None and operation in waiting:
                del waiting[operation]
                if not waiting:
                    del watchers[key]
