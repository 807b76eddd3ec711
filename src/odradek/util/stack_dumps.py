"""SIGQUIT, as a JVM has it: log where all threads and asyncio tasks are, and go on.

The signal is blocked in every thread but one, which waits for it by `sigwait`. So a dump needs neither the
main thread nor its event loop, which may be what hangs. Python's own handlers run in the main thread, and a
system call that it does not leave holds them up.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from types import FrameType
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

PASSED_OVER = (
    *("SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGXCPU", "SIGSTKFLT"),
    *("SIGTRAP", "SIGPIPE", "SIGXFSZ"),
)
"""These would end a process that says nothing about them. Those by which C code reports that it is broken
(SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS) still end it, as they do a JVM."""

_PACKAGE = f"{PurePath(__file__).parent.parent}/"
_NAMES_TOLD = 5
_TRIES = 100

_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def tell_of(loop: asyncio.AbstractEventLoop) -> None:
    """Show the tasks of an event loop in the dumps of this process, as long as the loop lives."""
    _loops.add(loop)


@contextmanager
def dumps_on_sigquit() -> Iterator[None]:
    """Within, SIGQUIT logs the stacks of this process, and the signals `PASSED_OVER` do nothing.

    To be entered before other threads begin, as they take over the blocked signal; in a thread that is not
    the main one it does nothing. A child process has SIGQUIT blocked too until it enters this itself.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "sigwait"):
        yield
        return
    # Asked for by an operator, a dump is told at every level.
    logger.setLevel(logging.INFO)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGQUIT})
    waiting = _Waiting()
    waiting.start()
    # A shell starts what runs in its background with SIGQUIT ignored, and libraries have threads of their own
    # in which it is not blocked: whoever gets it hands it on.
    handlers: dict[int, Any] = {signal.SIGQUIT: signal.signal(signal.SIGQUIT, waiting.hand_on)}
    for number in _passed_over():
        try:
            # Not SIG_IGN, which a child process would take over.
            handlers[number] = signal.signal(number, _pass_over)
        except OSError:
            continue  # valgrind keeps the last of them to itself
        signal.siginterrupt(number, False)
    try:
        yield
    finally:
        waiting.stop()
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _passed_over() -> Iterator[int]:
    for name in PASSED_OVER:
        number = getattr(signal, name, None)
        if number is not None:
            yield number
    if hasattr(signal, "SIGRTMIN"):
        yield from range(signal.SIGRTMIN, signal.SIGRTMAX + 1)


def _pass_over(_number: int, _frame: FrameType | None) -> None:
    """Do nothing."""


class _Waiting:
    """The thread that waits for SIGQUIT."""

    def __init__(self) -> None:
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="odradek-stack-dumps", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over = True
        self._wake()
        self._thread.join()

    def hand_on(self, _number: int, _frame: FrameType | None) -> None:
        self._wake()

    def _wake(self) -> None:
        if self._thread.ident is not None and self._thread.is_alive():
            signal.pthread_kill(self._thread.ident, signal.SIGQUIT)

    def _run(self) -> None:
        while True:
            signal.sigwait({signal.SIGQUIT})
            if self._is_over:
                return
            try:
                log_stacks()
            except Exception:
                logger.exception("the stacks cannot be told")


def log_stacks() -> None:
    """Log the stack of each thread but this one, and of each task of the loops that are known.

    Each is one line, the innermost frame first. Tasks that wait at the same place share one.
    """
    frames = sys._current_frames()
    frames.pop(threading.get_ident(), None)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = {names.get(ident, f"{ident:#x}"): _stack_of(frame) for ident, frame in frames.items()}
    del frames
    tasks = [task for loop in _copied(lambda: list(_loops)) for task in _copied(_tasks_of(loop))]
    logger.info("stacks threads=%d tasks=%d", len(stacks), len(tasks))
    for name, stack in stacks.items():
        logger.info("thread name=%s stack=%s", name, _joined(stack))
    waiting: defaultdict[str, list[str]] = defaultdict(list)
    for task in tasks:
        waiting[_joined(_awaited_by(task.get_coro()))].append(task.get_name())
    for stack_text, tasks_there in waiting.items():
        told = ",".join(tasks_there[:_NAMES_TOLD]) + (",…" if len(tasks_there) > _NAMES_TOLD else "")
        logger.info("tasks count=%d names=%s stack=%s", len(tasks_there), told, stack_text)
    logger.info("stacks are told")


def _tasks_of(loop: asyncio.AbstractEventLoop) -> Callable[[], Iterable[asyncio.Task[Any]]]:
    return lambda: asyncio.all_tasks(loop)


def _copied(look: Callable[[], Iterable[T]]) -> Iterable[T]:
    """Return what `look` copies of a set to which other threads add meanwhile."""
    for _ in range(_TRIES):
        try:
            return look()
        except RuntimeError:  # it changed its size
            continue
    return ()


def _stack_of(frame: FrameType | None) -> list[str]:
    places = []
    while frame is not None:
        places.append(_place(frame))
        frame = frame.f_back
    return places


def _awaited_by(awaiting: Any) -> list[str]:
    """The places at which a coroutine waits, and the ones that it waits for, the innermost first."""
    places = []
    while awaiting is not None:
        for kind, inner in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            if hasattr(awaiting, inner):
                frame = getattr(awaiting, f"{kind}_frame")
                if frame is not None:
                    places.append(_place(frame))
                awaiting = getattr(awaiting, inner)
                break
        else:
            if not places:  # compiled: it has a name, and no frames
                places.append(getattr(awaiting, "__qualname__", type(awaiting).__qualname__))
            break
    return places[::-1]


def _place(frame: FrameType) -> str:
    name = frame.f_code.co_filename.replace("\\", "/")
    short = name.removeprefix(_PACKAGE)
    if short == name:
        short = "/".join(name.split("/")[-2:])
    return f"{short}:{frame.f_lineno} {frame.f_code.co_qualname}"


def _joined(stack: Iterable[str]) -> str:
    return " < ".join(stack) or "?"
