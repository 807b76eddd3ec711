"""Records that Kafka itself wrote: from its log folders, and from its requests and responses."""

from __future__ import annotations

import functools
import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = ("2.2.2", "3.9.1")


class GoldenBatch(NamedTuple):
    """A batch in a log folder, and what Kafka's own reader said of it."""

    where: str
    raw: bytes
    expected: dict[str, Any]


def segments(release: str) -> Iterator[tuple[str, bytes, list[dict[str, Any]]]]:
    """Where each segment of a clean folder is, its `.log` file, its batches as Kafka's reader saw them."""
    with tarfile.open(GOLDEN / "log" / f"kafka-{release}-clean.tar.gz") as archive:
        members = {m.name.removeprefix("./"): m for m in archive.getmembers() if m.isfile()}
        for name in sorted(members):
            if not name.startswith("expected/") or not name.endswith(".json"):
                continue
            described = json.load(archive.extractfile(members[name]))  # type: ignore[arg-type]
            partition = Path(name).stem
            for base, segment in described.get("segments", {}).items():
                data = archive.extractfile(members[f"data/{partition}/{base}.log"]).read()  # type: ignore[union-attr]
                yield f"{release}/{partition}/{base}", data, segment["log"]["batches"]


@functools.cache
def log_batches(release: str) -> list[GoldenBatch]:
    """Every v2 batch of the folder that a broker of `release` left behind."""
    found = []
    for where, data, batches in segments(release):
        for batch in batches:
            if batch["magic"] == 2:
                start = batch["position"]
                found.append(GoldenBatch(f"{where}@{start}", data[start : start + batch["size"]], batch))
    return found


@functools.cache
def log_files(release: str) -> dict[str, bytes]:
    """The `.log` files of the folder that hold v2 batches, by partition and name."""
    with tarfile.open(GOLDEN / "log" / f"kafka-{release}-clean.tar.gz") as archive:
        files = {
            m.name.removeprefix("./data/"): archive.extractfile(m).read()  # type: ignore[union-attr]
            for m in archive.getmembers()
            if m.isfile() and m.name.endswith(".log")
        }
    return {name: data for name, data in files.items() if len(data) > 16 and data[16] == 2}


@functools.cache
def wire_record_sets(magic: int = 2) -> list[bytes]:
    """The record sets in golden Produce requests and Fetch responses."""
    with gzip.open(GOLDEN / "records" / "wire.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    return [bytes.fromhex(case["hex"]) for case in cases if case["magic"] == magic]
