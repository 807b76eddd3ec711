"""The controller's scenarios: what happens to the cluster, what is written, what brokers are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..scenario import check

FILES = sorted((Path(__file__).parents[1] / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check(path)


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 6
