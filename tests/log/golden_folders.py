"""Data folders that Kafka left behind, unpacked for a test."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from odradek.log import LogConfig, LogManager, PartitionLog, RealFileSystem
from odradek.records.batch import Record, TimestampType
from odradek.records.message_sets.message_set import iter_all_records, iter_entries
from odradek.util.clock import ManualClock

GOLDEN = Path(__file__).parent.parent / "golden" / "log"


@cache
def _members(archive: str) -> dict[str, bytes]:
    with tarfile.open(GOLDEN / f"{archive}.tar.gz") as tar:
        files = (member for member in tar.getmembers() if member.isfile())
        return {member.name: tar.extractfile(member).read() for member in files}  # type: ignore[union-attr]


class GoldenFolder:
    """One archive: `data` is a fresh copy of the folder, under a directory of the test's own."""

    def __init__(self, archive: str, directory: Path) -> None:
        self.archive = archive
        self.version = archive.split("-")[1]
        self._members = _members(archive)
        self.about: dict[str, Any] = json.loads(self._members["about.json"])
        self.data = directory / "data"
        self.clock = ManualClock(self.about["made_at_ms"])
        for name, content in self._members.items():
            if name.startswith(("data/", "data2/")):
                path = directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        # Folders without files are not in `_members`.
        self.directories = sorted(path for path in directory.iterdir() if path.name.startswith("data"))

    def topic_configs(self) -> dict[str, dict[str, str]]:
        """The topics' configs as text, as a broker would hand them in."""
        topics = self.about.get("topics", {})
        return {
            topic: {name: str(value) for name, value in configs.items()}
            if topic != "mixed-magic"
            # What it was created with; its format was raised twice.
            else {name: str(value) for name, value in configs.items() if name != "message.format.version"}
            for topic, configs in topics.items()
        }

    def defaults(self) -> LogConfig:
        """The broker's settings that concern logs."""
        settings = self.about.get("settings", {})
        return LogConfig(
            segment_bytes=settings.get("log.segment.bytes", 2**30),
            segment_index_bytes=settings.get("log.index.size.max.bytes", 10 * 2**20),
            index_interval_bytes=settings.get("log.index.interval.bytes", 4096),
            segment_ms=settings.get("log.roll.ms", 7 * 24 * 3600 * 1000),
            retention_ms=-1,
            inter_broker_protocol_version=self.about["version"],
        )

    def manager(self) -> LogManager:
        """A log manager on the folder, nothing loaded yet."""
        return LogManager(self.directories, RealFileSystem(), self.clock, self.defaults())

    def expected(self, partition: str) -> dict[str, Any]:
        """What Kafka says of a partition."""
        [name] = [name for name in self._members if name.endswith(f"/{partition}.json")]
        return json.loads(self._members[name])

    def expected_partitions(self) -> list[str]:
        """The partitions of which Kafka says something."""
        names = [name for name in self._members if name.startswith("expected/") and name.endswith(".json")]
        return sorted(Path(name).stem for name in names if not name.endswith("toplevel.json"))

    def original(self, name: str) -> bytes:
        """A file of the folder as it was."""
        return self._members[f"data/{name}"]

    def originals(self, partition: str) -> dict[str, bytes]:
        """All files of a partition as they were."""
        prefix = f"data/{partition}/"
        return {
            name.removeprefix(prefix): content
            for name, content in self._members.items()
            if name.startswith(prefix)
        }

    def text(self, name: str) -> str:
        """Another file of the archive."""
        return self._members[name].decode()


def has_old_format(expected: dict[str, Any]) -> bool:
    """Whether a partition holds message sets of magic 0 or 1."""
    return any(batch["magic"] < 2 for batch in expected_batches(expected))


_KINDS = {
    "NoTimestampType": TimestampType.NO_TIMESTAMP_TYPE,
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


def expected_batches(expected: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All batches that Kafka's reader finds, in order; damaged ones included, with `valid` false."""
    for base in sorted(expected["segments"]):
        yield from expected["segments"][base].get("log", {}).get("batches", [])


def expected_records(expected: dict[str, Any], start: int, end: int) -> list[Record]:
    """The records in [start, end) as Kafka's reader finds them."""
    records = []
    for batch in expected_batches(expected):
        if batch.get("control") or not batch["valid"]:
            continue
        kind = _KINDS[batch["timestamp_type"]]
        for record in batch.get("records", []):
            if start <= record["offset"] < end:
                headers = tuple((name, _bytes(value)) for name, value in record.get("headers", []))
                key, value = _bytes(record.get("key")), _bytes(record.get("value"))
                records.append(Record(record["offset"], record["timestamp"], kind, key, value, headers))
    return records


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def read_all(log: PartitionLog, max_bytes: int) -> list[Record]:
    """Every record of a log, read in pieces of at most so many bytes."""
    records: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        result = log.read(offset, max_bytes, upper_bound=log.log_end_offset, min_one_batch=True)
        if not result.records:
            break
        assert result.first_offset <= offset or not records or records[-1].offset < result.first_offset
        start = offset
        for record in iter_all_records(result.records, include_control=True):
            offset = record.offset + 1
        piece = [record for record in iter_all_records(result.records) if record.offset >= start]
        records += piece
        offset = max(offset, end_of_batches(result.records))
    return records


def end_of_batches(data: bytes) -> int:
    """The offset after the last batch."""
    end = -1
    for header, _ in iter_entries(data):
        end = header.next_offset
    return end
