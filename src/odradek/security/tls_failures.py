"""TLS's own failures, told from others without loading TLS.

`ssl` loads OpenSSL, a tenth of what a process that only asks for offsets takes to start; where nothing has
imported it, nothing can have failed by it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    import ssl


def is_tls_failure(problem: BaseException) -> TypeGuard[ssl.SSLError]:
    """Return whether an error is one that `ssl` raises."""
    module = sys.modules.get("ssl")
    return module is not None and isinstance(problem, module.SSLError)
