"""The transcripts of tests/scenarios/groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from .transcript import check_file

FILES = sorted((Path(__file__).parent.parent / "scenarios" / "groups").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_transcript(path: Path) -> None:
    check_file(path)


def test_there_are_transcripts() -> None:
    assert len(FILES) >= 15
