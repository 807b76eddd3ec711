"""A broker as a process: open files, signals, the event loop, the garbage collector, the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.broker.app import Broker, StartError
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.event_loop.loop_timers import LoopTimers
from odradek.broker.process import collector, lifeline
from odradek.broker.process.logging import flood
from odradek.broker.process.service_manager import ServiceManager
from odradek.broker.process.signals import StoppedWhileStarting, StopSignals, look_past_the_stop
from odradek.broker.process.warm_up import WarmUp
from odradek.broker.process.watchdog import Watchdog
from odradek.util import repeats, stack_dumps

if TYPE_CHECKING:
    from odradek.sasl.scram_words import NewUser

logger = logging.getLogger(__name__)

_COUNTS_INTERVAL_MS = 60_000
"""How often it is looked for lines that were only counted."""

_MOST_OPEN_FILES = 1_048_576
"""More than this nobody needs, and some systems' hard limit is a number of ten digits."""

_WHERE_THE_HARD_LIMIT_IS_NONE = 10_240
"""macOS grants no more, whatever the hard limit says."""


def run(
    config: BrokerConfig,
    *,
    request_log: Path | None = None,
    on_ready: Callable[[str], None] | None = None,
    scram_users: Sequence[NewUser] = (),
    observe: Callable[[Broker], None] | None = None,
    make: Callable[..., Broker] = Broker,
    service: ServiceManager | None = None,
) -> int:
    """Run a broker until SIGTERM, SIGINT or SIGHUP.

    Args:
        config: its configs.
        request_log: see `Broker`.
        on_ready: told `host:port` once connections are accepted.
        scram_users: are there from the start, unless they are already.
        observe: handed the broker just before that, in its thread; for measuring.
        make: makes the broker in its loop, called as `Broker` is; for a test, which hands in more.
        service: told when the broker is ready, runs and stops.

    Returns:
        The exit code: 0 after a stop in good order, 1 when it could not start or could not go on (the reason
        is on standard error).
    """
    _raise_limit_of_open_files()
    signals = StopSignals()
    signals.interrupt_the_start()
    service = ServiceManager() if service is None else service
    try:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                return runner.run(
                    _main(config, signals, request_log, on_ready, observe, scram_users, make, service)
                )
        except StartError as error:
            print(f"odradek server: {error}", file=sys.stderr)  # noqa: T201 - the one message for a person
            return 1
    except StoppedWhileStarting:
        # Also by a signal that comes while a start that has failed is told.
        logger.info("stopped while it was starting")
        return 0
    finally:
        signals.let_go()


async def _main(
    config: BrokerConfig,
    signals: StopSignals,
    request_log: Path | None,
    on_ready: Callable[[str], None] | None,
    observe: Callable[[Broker], None] | None,
    scram_users: Sequence[NewUser],
    make: Callable[..., Broker],
    service: ServiceManager,
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    stack_dumps.tell_of(loop)
    main_task = asyncio.current_task()
    assert main_task is not None
    loop.set_exception_handler(partial(look_past_the_stop, stop=main_task.cancel))
    broker = make(config, request_log=request_log, scram_users=scram_users)
    broker.all_stop = lifeline.all_stop.is_set
    fatal: list[str] = []

    def on_fatal(reason: str) -> None:
        fatal.append(reason)
        stop.set()

    broker.on_fatal = on_fatal
    try:
        await broker.start()
        signals.call(loop, stop.set)
        loop.set_exception_handler(look_past_the_stop)
    except StoppedWhileStarting:
        await broker.stop()  # it may have been ready already
        raise
    except asyncio.CancelledError:
        if not signals.received:
            raise
        main_task.uncancel()
        await broker.stop()
        raise StoppedWhileStarting from None
    long_lived = collector.LongLived()
    long_lived.start()
    broker.slicer.on_busy = long_lived.hold_back
    watching = _watch(loop, broker, config.odradek_event_loop_stall_ms)
    warm_up = WarmUp(loop, broker.handlers)
    timers = LoopTimers(loop)
    counts = timers.every("counts of log lines", _COUNTS_INTERVAL_MS, _tell_counts)
    looks = timers.every("looks at what lives long", collector.LOOK_MS, long_lived.look)
    try:
        if observe is not None:
            observe(broker)
        if not stop.is_set():
            if on_ready is not None:
                on_ready(broker.bootstrap_servers)
            service.ready(broker.bootstrap_servers)
        service.watch(loop)
        logger.info("ready host=%s port=%d", broker.host, broker.port)
        flood.begin()
        warm_up.start()
        await stop.wait()
    finally:
        service.stopping()
        warm_up.stop()
        counts.stop()
        looks.stop()
        long_lived.stop()
        await broker.stop()
        _tell_counts(at_once=True)
        watching.close()
    for reason in fatal:
        print(f"odradek server: stopped: {reason}", file=sys.stderr)  # noqa: T201 - for a person
    return 1 if fatal else 0


def _watch(loop: asyncio.AbstractEventLoop, broker: Broker, stall_ms: int) -> contextlib.ExitStack:
    """Measure how long the garbage collector and the loop keep everybody waiting; returns what ends that.

    Args:
        loop: the broker's.
        broker: has the metrics.
        stall_ms: a turn that takes longer is told of; 0 for none.
    """
    watching = contextlib.ExitStack()
    pauses = collector.Pauses()
    pauses.start()
    watching.callback(pauses.stop)
    pauses.register(broker.metrics)
    if stall_ms > 0:
        watchdog = Watchdog(loop, stall_ms)
        watchdog.register(broker.metrics)
        watchdog.start()
        watching.callback(watchdog.stop)
    return watching


def _tell_counts(*, at_once: bool = False) -> None:
    repeats.tell_counts(at_once=at_once)
    flood.tell_counts()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed, else None for the standard one."""
    with contextlib.suppress(ImportError):
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
        return factory
    return None


def _raise_limit_of_open_files() -> None:
    """Raise the soft limit to the hard one, as a JVM does; harmless where that cannot be.

    `odradek.log.storage.real_files` keeps at most half of them for logs, and gives some back when there are
    none left. Connections may have all but a reserve: segments roll, checkpoints are written and modules
    imported at any time, whoever connects.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    for limit in (
        _MOST_OPEN_FILES if hard == unlimited else min(hard, _MOST_OPEN_FILES),
        _WHERE_THE_HARD_LIMIT_IS_NONE,
    ):
        if soft == unlimited or soft >= limit:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            logger.debug("open files: limit raised from=%d to=%d", soft, limit)
            return
