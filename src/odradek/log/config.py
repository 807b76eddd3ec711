"""The topic configs that concern a log, under Kafka's names in snake case."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from odradek.records.batch import MAGIC_V2
from odradek.records.compression import MAX_DECOMPRESSED_BYTES

UNLIMITED = 2**63 - 1

WEEK_MS = 7 * 24 * 3600 * 1000
DAY_MS = 24 * 3600 * 1000


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(f"expected true or false, not {text!r}")
    return lowered == "true"


def _policies(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The configs of a partition's log; the defaults are Kafka's.

    Sizes in bytes, times in milliseconds. `producer_id_expiration_ms` and `inter_broker_protocol_version` are
    the broker's configs of these names, `batch_unpacked_max_bytes` is its `odradek.batch.unpacked.max.bytes`.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = WEEK_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    flush_messages: int = UNLIMITED
    flush_ms: int = UNLIMITED
    retention_bytes: int = -1
    retention_ms: int = WEEK_MS
    max_message_bytes: int = 1024 * 1024 + 12
    index_interval_bytes: int = 4096
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = UNLIMITED
    min_cleanable_dirty_ratio: float = 0.5
    cleanup_policy: tuple[str, ...] = ("delete",)
    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    preallocate: bool = False
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = UNLIMITED
    message_timestamp_after_max_ms: int = 3_600_000
    message_format_version: str = "3.0-IV1"
    message_downconversion_enable: bool = True
    producer_id_expiration_ms: int = DAY_MS
    inter_broker_protocol_version: str = "3.9-IV0"
    batch_unpacked_max_bytes: int = MAX_DECOMPRESSED_BYTES

    @property
    def record_magic(self) -> int:
        """The format that new records are stored in: 0, 1 or 2."""
        return record_magic(self.message_format_version, self.inter_broker_protocol_version)

    @property
    def compact(self) -> bool:
        """Return whether the cleaner keeps the last record per key."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Return whether old segments are removed by age and size."""
        return "delete" in self.cleanup_policy

    @classmethod
    def from_topic(cls, overrides: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """The defaults with a topic's own configs over them, given under Kafka's dotted names.

        Names that do not concern a log are passed over; what they are allowed to be is checked where topics
        are configured.

        Raises:
            ValueError: a value is not of its config's type.
        """
        defaults = defaults or cls()
        if not overrides:
            return defaults
        changes: dict[str, Any] = {}
        for name, text in overrides.items():
            field_name = name.replace(".", "_")
            parse = _PARSERS.get(field_name)
            if parse is None or "_" in name:
                continue
            try:
                changes[field_name] = parse(text)
            except ValueError as error:
                raise ValueError(f"invalid value {text!r} for {name}: {error}") from None
        return replace(defaults, **changes)


_BY_TYPE: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": _boolean,
    "str": str,
    "tuple[str, ...]": _policies,
}
# A topic cannot set these: a name of the broker's that stands in a topic's config is passed over.
_OF_THE_BROKER = {"producer_id_expiration_ms", "inter_broker_protocol_version", "batch_unpacked_max_bytes"}
_PARSERS: dict[str, Callable[[str], Any]] = {
    field.name: _BY_TYPE[str(field.type)] for field in fields(LogConfig) if field.name not in _OF_THE_BROKER
}


_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)*(?:-IV(\d+))?")
_LATEST = 1 << 16
"""The internal version where none is given: the release as it came out."""


def _parse(release: str) -> tuple[int, int, int, int]:
    """Return the numbers of a release, and that of its internal version.

    Raises:
        ValueError: it is no release.
    """
    match = _RELEASE.fullmatch(release.strip())
    if match is None:
        raise ValueError(f"Version {release} is not a valid version")
    major, minor, patch, internal = (int(part) if part is not None else None for part in match.groups())
    assert major is not None and minor is not None
    # From 1.0 on the third number says nothing of the format.
    return major, minor, (patch or 0) if major == 0 else 0, _LATEST if internal is None else internal


@lru_cache(maxsize=256)
def magic_of_release(release: str) -> int:
    """The newest magic that a release such as `0.10.2`, `2.8-IV1` writes.

    Raises:
        ValueError: it is no release.
    """
    parsed = _parse(release)
    if parsed < (0, 10, 0, 0):
        return 0
    return 1 if parsed < (0, 11, 0, 0) else MAGIC_V2


@lru_cache(maxsize=256)
def record_magic(message_format_version: str, inter_broker_protocol_version: str) -> int:
    """The magic that a topic's records are stored in: 0, 1 or 2.

    Since Kafka 3.0 (KIP-724) `message.format.version` is ignored when `inter.broker.protocol.version` is
    3.0-IV1 or later: then everything new is written in magic 2. Below that the topic's release counts, and
    no more than the brokers'.

    Raises:
        ValueError: one of the two is no release.
    """
    if _parse(inter_broker_protocol_version) >= (3, 0, 0, 1):
        return MAGIC_V2
    return min(magic_of_release(message_format_version), magic_of_release(inter_broker_protocol_version))
