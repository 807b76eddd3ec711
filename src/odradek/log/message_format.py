"""The format that a topic's records are stored in, as `message.format.version` says.

Since Kafka 3.0 (KIP-724) the config is ignored when `inter.broker.protocol.version` is 3.0-IV1 or later: then
everything new is written in magic 2. Below that the topic's release counts, and no more than the brokers'.
"""

from __future__ import annotations

import re
from functools import lru_cache

from odradek.records.batch import MAGIC_V2

_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)*(?:-IV(\d+))?")
_LATEST = 1 << 16
"""The internal version where none is given: the release as it came out."""


def _parse(release: str) -> tuple[int, int, int, int]:
    """Raises `ValueError`."""
    match = _RELEASE.fullmatch(release.strip())
    if match is None:
        raise ValueError(f"Version {release} is not a valid version")
    major, minor, patch, internal = (int(part) if part is not None else None for part in match.groups())
    assert major is not None and minor is not None
    # From 1.0 on the third number says nothing of the format.
    return major, minor, (patch or 0) if major == 0 else 0, _LATEST if internal is None else internal


@lru_cache(maxsize=256)
def magic_of_release(release: str) -> int:
    """The newest magic that a release such as `0.10.2`, `2.8-IV1` writes. Raises `ValueError`."""
    parsed = _parse(release)
    if parsed < (0, 10, 0, 0):
        return 0
    return 1 if parsed < (0, 11, 0, 0) else MAGIC_V2


@lru_cache(maxsize=256)
def record_magic(message_format_version: str, inter_broker_protocol_version: str) -> int:
    """The magic that a topic's records are stored in: 0, 1 or 2. Raises `ValueError`."""
    if _parse(inter_broker_protocol_version) >= (3, 0, 0, 1):
        return MAGIC_V2
    return min(magic_of_release(message_format_version), magic_of_release(inter_broker_protocol_version))
