"""The page of fault tests has a place for each file of scenarios: without, a long run ends with nothing."""

from __future__ import annotations

from pathlib import Path

from scenarios.faults import page


def test_every_file_of_scenarios_has_its_place() -> None:
    files = {path.stem.removeprefix("test_") for path in Path(page.__file__).parent.glob("test_*.py")}
    assert sorted(page.ORDER) == sorted(files)
