"""The topic that a partition's folder belongs to: `partition.metadata` (KIP-516).

Two lines without a line end behind the last: `version: 0` and `topic_id: <22 characters of base64url>`.
"""

from __future__ import annotations

import base64
import binascii
import logging
from pathlib import Path

from odradek.log.storage.files import FileSystem
from odradek.wire.primitives import ZERO_UUID

logger = logging.getLogger(__name__)

CURRENT_VERSION = 0


def topic_id_text(topic_id: bytes) -> str:
    """A topic id as Kafka writes it: base64url without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def encode(topic_id: bytes) -> bytes:
    """The file's content."""
    return f"version: {CURRENT_VERSION}\ntopic_id: {topic_id_text(topic_id)}".encode()


def read(files: FileSystem, path: Path) -> bytes | None:
    """The topic id, 16 bytes; None where there is no file, or one that a power failure has cut short.

    Raises:
        OSError: the file cannot be read.
    """
    if not files.exists(path):
        return None
    try:
        fields = dict(line.split(": ", 1) for line in files.read(path).decode().splitlines())
        topic_id = base64.urlsafe_b64decode(fields["topic_id"] + "==")
        if int(fields["version"]) < CURRENT_VERSION or len(topic_id) != 16 or topic_id == ZERO_UUID:
            raise ValueError
    except (ValueError, KeyError, binascii.Error):
        logger.warning("%s does not name a topic id; it is written again when the topic is known", path)
        return None
    return topic_id


def write(files: FileSystem, path: Path, topic_id: bytes) -> None:
    """Write the file, without syncing it.

    Raises:
        OSError: it cannot be written.
    """
    files.write_atomically(path, encode(topic_id), sync=False)
