"""The file with the metadata in the first data folder, looked at before anything is opened."""

from __future__ import annotations

from pathlib import Path

from odradek.log.errors import DataDirectoryError

STORE_FILE = "metadata.sqlite"
_SQLITE_MAGIC = b"SQLite format 3\0"


def check_store_file(path: Path) -> None:
    """Refuse what is no store before the logs are touched; the store looks closer when it is opened.

    Raises:
        DataDirectoryError: it cannot be read, is damaged, or is empty beside partitions.
    """
    try:
        with path.open("rb") as file:
            beginning = file.read(len(_SQLITE_MAGIC))
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataDirectoryError(
            f"{path} cannot be read: {error.strerror}. Make it a file that the broker may read and write."
        ) from error
    if beginning and beginning != _SQLITE_MAGIC:
        raise DataDirectoryError(
            f"{path} is damaged: it is no SQLite file. Restore it from a backup of the data folder."
        )
    if not beginning and any(path.parent.glob("*-*/*.log")):
        raise DataDirectoryError(
            f"{path} is empty, and there are partitions beside it. Restore it from a backup of the data "
            "folder, or remove it to start without any topics."
        )
