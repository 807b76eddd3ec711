"""Samples of a thread's Python frames, from another thread: for where py-spy is not to be had.

It sees Python functions only, and those that give the interpreter's lock away more often than others.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter

INTERVAL_S = 0.002


class Sampler:
    """Samples the thread that makes it, until `stop`."""

    def __init__(self) -> None:
        self._sampled = threading.get_ident()
        self._counts: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Return how many different stacks were seen."""
        return len(self._counts)

    def stop(self) -> dict[str, int]:
        """The stacks, folded (`outer;inner`), and how often each was seen."""
        self._stopping.set()
        self._thread.join()
        return dict(self._counts)

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL_S):
            frame = sys._current_frames().get(self._sampled)
            names = []
            while frame is not None:
                code = frame.f_code
                file = "/".join(code.co_filename.split("/")[-3:])
                names.append(f"{code.co_qualname} ({file}:{frame.f_lineno})")
                frame = frame.f_back
            self._counts[";".join(reversed(names))] += 1
