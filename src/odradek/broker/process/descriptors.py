"""The files and sockets that a process may have open, and who gets them.

`odradek.log.storage.real_files` keeps at most half of them for logs, and gives some back when there are none
left. Connections may have all but a reserve: segments roll, checkpoints are written and modules imported at
any time, whoever connects.
"""

from __future__ import annotations

import contextlib
import logging

logger = logging.getLogger(__name__)

_MOST = 1_048_576
"""More than this nobody needs, and some systems' hard limit is a number of ten digits."""

_WHERE_THE_HARD_LIMIT_IS_NONE = 10_240
"""macOS grants no more, whatever the hard limit says."""


def raise_limit() -> None:
    """Raise the soft limit to the hard one, as a JVM does; harmless where that cannot be."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    for wanted in (_MOST if hard == unlimited else min(hard, _MOST), _WHERE_THE_HARD_LIMIT_IS_NONE):
        if soft == unlimited or soft >= wanted:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            logger.debug("open files: limit raised from=%d to=%d", soft, wanted)
            return
