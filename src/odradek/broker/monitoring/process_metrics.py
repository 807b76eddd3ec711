"""Memory, CPU time and open files of the process, as far as the system tells."""

from __future__ import annotations

import os
import time
from pathlib import Path

from odradek.broker.metrics.metrics import Samples

_KIND = "odradek.server:Process"


def process_samples() -> Samples:
    """Yield what the process takes. Linux tells everything; other systems the CPU time alone."""
    times = os.times()
    yield (_KIND, "CpuSeconds", ()), times.user + times.system
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        # The name of the program, in brackets, may have blanks.
        words = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        open_files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no path is made of them
    except OSError:
        return
    yield (_KIND, "ResidentMemoryBytes", ()), pages * os.sysconf("SC_PAGE_SIZE")
    yield (_KIND, "OpenFiles", ()), open_files
    since_boot_s = int(words[19]) / os.sysconf("SC_CLK_TCK")
    started_s = time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot_s)
    yield (_KIND, "StartTimeSeconds", ()), round(started_s, 2)
