"""The job of one pass of the cleaner and its result: plain data, which goes to another process as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from odradek.log.segments.txn_index import AbortedTxn


@dataclass(frozen=True)
class Source:
    """A segment that is to be cleaned, as it was when the job was made; it is not written to any more.

    Sizes in bytes; `modified_ms` is when its file was last written.
    """

    base_offset: int
    size: int
    modified_ms: int
    index_bytes: int
    time_index_bytes: int


@dataclass(frozen=True)
class LastRecord:
    """The place of a live producer's newest batch: its last offset, None when only markers are known."""

    epoch: int
    offset: int | None


@dataclass(frozen=True)
class CleanJob:
    """One pass over one log.

    Attributes:
        directory: the partition's folder.
        sources: all segments below the first that may not be cleaned, in order.
        first_dirty: the offset up to which earlier passes have cleaned.
        first_uncleanable: nothing is looked at from this offset on; the base offset of a segment.
        now_ms: the time of the pass, for delete horizons.
        segment_bytes, segment_index_bytes, index_interval_bytes, delete_retention_ms: the log's configs.
        max_message_bytes: the log's config; larger batches are still taken.
        dedupe_bytes, load_factor: `log.cleaner.dedupe.buffer.size` and `.load.factor`.
        io_bytes: how much is read at once (`log.cleaner.io.buffer.size`).
        io_bytes_per_second: `log.cleaner.io.max.bytes.per.second`.
        aborted: the aborted transactions that have records below `first_uncleanable`.
        producers: the live producers, by id.
    """

    directory: str
    sources: list[Source]
    first_dirty: int
    first_uncleanable: int
    now_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    max_message_bytes: int
    dedupe_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    io_bytes: int = 512 * 1024
    io_bytes_per_second: float = float("inf")
    aborted: list[AbortedTxn] = field(default_factory=list)
    producers: dict[int, LastRecord] = field(default_factory=dict)

    def to_json(self) -> str:
        """The job as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CleanJob:
        """The job of such a line."""
        fields = json.loads(text)
        fields["sources"] = [Source(**source) for source in fields["sources"]]
        fields["aborted"] = [AbortedTxn(*txn) for txn in fields["aborted"]]
        fields["producers"] = {int(key): LastRecord(**value) for key, value in fields["producers"].items()}
        return cls(**fields)


@dataclass
class Replacement:
    """A new segment, complete on the disk as `.cleaned`, and the base offsets of those that it replaces."""

    base_offset: int
    size: int
    replaces: list[int]


@dataclass
class CleanResult:
    """The result of a pass.

    Attributes:
        end_offset: everything below is clean now; less than the job's bound where the map was full.
        replacements: in the order of their offsets, to be swapped in in this order.
        records_read, bytes_read, records_kept, bytes_kept: the second reading, the one that copies.
        keyless: records without a key that were dropped.
        map_utilization: how full the map of keys was, 0 to 1.
    """

    end_offset: int
    replacements: list[Replacement] = field(default_factory=list)
    records_read: int = 0
    bytes_read: int = 0
    records_kept: int = 0
    bytes_kept: int = 0
    keyless: int = 0
    map_utilization: float = 0.0

    def to_json(self) -> str:
        """The result as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CleanResult:
        """The result of such a line."""
        fields = json.loads(text)
        fields["replacements"] = [Replacement(**item) for item in fields["replacements"]]
        return cls(**fields)
