"""What Spark's connector calls metrics of a source, worked out from its progress."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.spark.progress import offsets_behind_latest

END = {"t": {"0": 5, "1": 10}, "t#ipB6yNIkQdu9ZDXNDDHZXw": {}}
LATEST = {"t": {"0": 9, "1": 10, "2": 2}}
BEHIND = {"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "4", "avgOffsetsBehindLatest": "2.0"}


@pytest.mark.parametrize(
    "progress",
    [
        {"endOffset": END, "latestOffset": LATEST},
        {"endOffset": json.dumps(END), "latestOffset": json.dumps(LATEST)},
        SimpleNamespace(endOffset=json.dumps(END), latestOffset=json.dumps(LATEST)),
    ],
)
def test_the_connector_s_figures(progress: Any) -> None:
    assert offsets_behind_latest(progress) == BEHIND


@pytest.mark.parametrize(
    ("end", "latest"), [(None, LATEST), (END, None), ("null", json.dumps(LATEST)), (END, {})]
)
def test_a_source_that_had_no_part(end: Any, latest: Any) -> None:
    assert offsets_behind_latest(SimpleNamespace(endOffset=end, latestOffset=latest)) == {}
