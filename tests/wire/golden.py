"""Where the golden data lies."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"
WIRE_FILES = sorted((GOLDEN / "wire").rglob("*.jsonl.gz"))
TRANSCRIPTS = sorted((GOLDEN / "transcripts").glob("*.jsonl.gz"))
