"""Permissions: nobody on the machine but the owner and the owner's group may read what a broker makes.

Files in which credentials stand are for the owner alone, each by whoever makes it: the metadata store, the
socket of the workers, the audit log.
"""

from __future__ import annotations

import os
from pathlib import Path

OTHERS = 0o007
OWNER_ALONE = 0o077


def keep_others_out() -> None:
    """Set the umask so that this process makes nothing that others may read or write."""
    os.umask(os.umask(OWNER_ALONE) | OTHERS)


def make_for_owner(path: Path) -> None:
    """Make a file that only its owner may read, unless it is there.

    Raises:
        OSError: it cannot be written.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
