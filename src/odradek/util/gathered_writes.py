"""Several buffers in one write, on every event loop and every release of Python."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

Writelines = Callable[[Sequence[Any]], None]


def gathering_write(transport: asyncio.Transport) -> Writelines:
    """Return the transport's `writelines`, or what makes good for the stock loop's own.

    Since Python 3.12 that hands all buffers to the system at once, and three things were left out:

    - It did not pause its protocol (python/cpython#127655, until 3.12.9 and 3.13.2): a peer that does not
      read fills the memory.
    - It keeps an empty buffer for good (python/cpython#155888): it turns without end, and never closes.
    - It does not look whether the connection is lost, and then waits for a socket that is gone.

    uvloop's has none of this. After `connection_lost` neither may be called.
    """
    if sys.version_info < (3, 12) or type(transport).__module__ != "asyncio.selector_events":
        return transport.writelines
    writelines = transport.writelines

    def write(buffers: Sequence[Any]) -> None:
        if transport.is_closing():
            return
        writelines([buffer for buffer in buffers if len(buffer)])
        low, high = transport.get_write_buffer_limits()
        if transport.get_write_buffer_size() > high:
            transport.set_write_buffer_limits(high, low)  # which pauses, if that has not been done

    return write
