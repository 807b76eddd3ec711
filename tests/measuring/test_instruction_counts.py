"""No load takes more instructions than are kept of it (`make instructions`), nor does a start."""

from __future__ import annotations

import pytest
from benchmarks import load
from benchmarks.instructions import callgrind, place
from benchmarks.instructions.brokers import interpreted
from benchmarks.instructions.kept import Kept, grown
from benchmarks.instructions.loads import START, measure

#: The first of the loads of one broker, in their order: the others would take a minute more.
SELECTED = ("produce-1", "fetch-1000-bytes", "produce-50-partitions", START)


def _why_not() -> str | None:
    """Why what is kept says nothing here, or None."""
    if why := callgrind.missing() or interpreted():
        return why
    kept = Kept.read()
    assert kept is not None
    if elsewhere := place.differences(dict(kept.place), place.here()):
        return f"counts were kept on another machine: {'; '.join(elsewhere)}"
    try:
        load.build()
    except load.LoadFailedError as error:
        return str(error)
    return None


@pytest.mark.slow
def test_nothing_takes_more_than_is_kept() -> None:
    if why := _why_not():
        pytest.skip(why)
    kept = Kept.read()
    assert kept is not None
    skipped: dict[str, str] = {}
    found = dict(measure(SELECTED, skipped, with_caches=False))
    assert skipped == {}
    assert set(found) == set(SELECTED)
    worse = grown(kept.loads, found)
    assert not worse, f"{'; '.join(map(str, worse))} — `make instructions RENEW=1` keeps what is wanted"
