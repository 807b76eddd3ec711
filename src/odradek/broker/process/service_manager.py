"""The server's side of sd_notify(3): a service manager such as systemd is told of its state.

The socket that `NOTIFY_SOCKET` names gets a datagram when the server is ready, when it stops, and, where the
unit has `WatchdogSec=`, while its event loop runs. Where nobody has named a socket nothing is said.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping

from odradek.broker.event_loop.loop_timers import LoopTimers

logger = logging.getLogger(__name__)

_SIGNS_PER_TIMEOUT = 3
"""systemd asks for two; one may come late on a busy machine."""


class ServiceManager:
    """The service manager of this process.

    Args:
        environment: where it has told its wishes. They are taken out of it: the workers that this process
            starts are not the service.
    """

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        environment = {} if environment is None else environment
        address = environment.pop("NOTIFY_SOCKET", "")
        timeout_us = environment.pop("WATCHDOG_USEC", "")
        watched = environment.pop("WATCHDOG_PID", "") or str(os.getpid())
        # A name that begins with @ is of Linux's abstract namespace.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        is_watched = bool(address) and timeout_us.isdecimal() and watched == str(os.getpid())
        self.sign_ms = int(timeout_us) // 1_000 // _SIGNS_PER_TIMEOUT if is_watched else 0
        """How often it wants a sign of life, in milliseconds; 0 for never."""

    def ready(self, addresses: str) -> None:
        """Say that clients are served.

        Args:
            addresses: `HOST:PORT,…`, for the operator who asks for the service's state.
        """
        self._say("READY=1", f"STATUS=Ready at {addresses}")

    def stopping(self) -> None:
        """Say that a stop in good order has begun."""
        self._say("STOPPING=1", "STATUS=Stopping")

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give signs of life from an event loop, if they are wanted, as long as the loop runs."""
        if self.sign_ms > 0:
            LoopTimers(loop).every("signs of life", self.sign_ms, self._give_sign)

    def _give_sign(self) -> None:
        self._say("WATCHDOG=1")

    def _say(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_manager:
                to_manager.setblocking(False)
                to_manager.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            logger.warning("the service manager was not told: %s (%s)", lines[0], error)
