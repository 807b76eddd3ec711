"""The programs of docs/coming_from on a real Kafka: theirs and ours do the same there, too.

faust asks for other releases of packages than our environment has: it has one of its own, and its programs
run here on our broker as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from docs.pairs import PAIRS, Pair, Stage, needs_package
from interop import kafka_peer, programs
from interop.conftest import OdradekServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

FAUST = ("faust-streaming", "0.15.3")
ON_KAFKA = pytest.mark.parametrize("real_kafka", [kafka_peer.NEWEST], indirect=True)


@pytest.fixture
def python(pair: Pair) -> str:
    """The Python for their program; skips, by name, where it cannot be had."""
    if pair.page != "faust":
        needs_package(pair.page)
        return sys.executable
    try:
        return programs.python_with(*FAUST)
    except RuntimeError as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def stage(real_kafka: kafka_peer.RealKafka) -> Stage:
    return Stage(real_kafka.bootstrap_servers)


SOME = [pair if n % 4 == 0 else pytest.param(pair, marks=pytest.mark.between) for n, pair in enumerate(PAIRS)]
"""`make interop` has each fourth program, `make compatibility` all."""


@ON_KAFKA
@pytest.mark.parametrize("pair", SOME, ids=str)
def test_both_do_the_same_on_kafka(pair: Pair, python: str, stage: Stage, tmp_path: Path) -> None:
    theirs, ours = stage.outcomes(pair, tmp_path, python)
    assert theirs == ours


@pytest.mark.between
@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.page == "faust"], ids=str)
def test_faust_does_the_same_on_ours(pair: Pair, python: str, server: OdradekServer, tmp_path: Path) -> None:
    theirs, ours = Stage(server.bootstrap_servers).outcomes(pair, tmp_path, python)
    assert theirs == ours
