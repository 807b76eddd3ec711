"""Messages of magic 0 and 1 in the log folders of old brokers, and what Kafka's reader said of them."""

from __future__ import annotations

import functools
import json
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

GOLDEN = Path(__file__).parents[1] / "golden"
OLD_RELEASES = ("0.8.2.2", "0.10.2.2", "2.2.2")


class OldSegment(NamedTuple):
    """A `.log` file and its batches as Kafka's own reader saw them."""

    where: str
    data: bytes
    batches: list[dict[str, Any]]


@functools.cache
def old_segments(release: str) -> list[OldSegment]:
    """The segments of a clean folder that hold messages of magic 0 or 1."""
    found = []
    with tarfile.open(GOLDEN / "log" / f"kafka-{release}-clean.tar.gz") as archive:
        members = {m.name.removeprefix("./"): m for m in archive.getmembers() if m.isfile()}
        for name in sorted(members):
            if not name.startswith("expected/") or not name.endswith(".json"):
                continue
            described = json.load(archive.extractfile(members[name]))  # type: ignore[arg-type]
            partition = Path(name).stem
            for base, segment in described.get("segments", {}).items():
                batches = segment["log"]["batches"]
                if any(batch["magic"] < 2 for batch in batches):
                    data = archive.extractfile(members[f"data/{partition}/{base}.log"]).read()  # type: ignore[union-attr]
                    found.append(OldSegment(f"{release}/{partition}/{base}", data, batches))
    return found
