"""The pages for those who come from another client: its programs and ours do the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.testing import Broker

from .pairs import PAIRS, Pair, Stage, has_package, needs_package


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1) as broker:
        yield Stage(broker.bootstrap_servers)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_both_do_the_same(pair: Pair, stage: Stage, tmp_path: Path) -> None:
    if not has_package(pair.page):
        stage.outcome(pair.ours, pair.shown, tmp_path)
    needs_package(pair.page)
    theirs, ours = stage.outcomes(pair, tmp_path)
    assert theirs == ours
