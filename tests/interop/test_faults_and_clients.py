"""docs/faults_and_clients.md holds: clients of six projects do what its table says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from interop.faulted import page
from interop.faulted.cases import CASES, Case
from interop.faulted.clients import CLIENTS, Client, Running, missing
from interop.faulted.meeting import Cell, meet
from interop.faulted.outcome import ALL, Facts, outcome
from odradek.testing import Broker

pytestmark = pytest.mark.interop

AGAIN = "`make faulted-clients` writes docs/faults_and_clients.md anew"
#: A busy machine may have a client's time-outs pass of themselves.
TIMES = 3


@pytest.fixture(scope="module")
def running() -> Iterator[Callable[[Client], Running]]:
    """The program of a client, the same for all tests."""
    started: dict[str, Running] = {}
    yield lambda client: started.setdefault(client.name, Running(client))
    for program in started.values():
        program.close()


def needs(client: Client) -> None:
    """Skips, by name, where a client cannot be had."""
    if lacks := missing(client):
        pytest.skip(f"not on this machine: {', '.join(lacks)}")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name.replace(" ", "-"))
def test_the_page_is_of_this_release(client: Client) -> None:
    needs(client)
    versions, _ = page.read(page.PAGE.read_text(encoding="utf-8"), CASES)
    assert versions[client.name] == client.version(), AGAIN


CELLS = [
    pytest.param(
        client,
        case,
        id=f"{client.name.replace(' ', '-')}-{case.name}",
        marks=() if case.always else pytest.mark.between,
    )
    for client in CLIENTS
    for case in CASES
]


@pytest.mark.parametrize(("client", "case"), CELLS)
def test_a_client_does_what_the_page_says(
    client: Client, case: Case, running: Callable[[Client], Running]
) -> None:
    needs(client)
    _, filled = page.read(page.PAGE.read_text(encoding="utf-8"), CASES)
    wanted = filled[case.name, client.name]
    for _ in range(TIMES):
        cell = meet(running(client), case)
        if wanted.holds(cell):
            return
    pytest.fail(f"the page has {wanted}, but it was {page.Filled([cell])}; {AGAIN}")


# ---------------------------------------------------------------------- words, and the page


def test_an_outcome_is_told_from_facts() -> None:
    assert outcome(Facts(acknowledged=ALL, there=ALL)) == "recovered"
    assert outcome(Facts(acknowledged=ALL, there=[*ALL, 3])) == "recovered, 1 duplicate"
    assert outcome(Facts(acknowledged=ALL, there=[1, 0, *ALL[2:]])) == "recovered, out of order"
    assert outcome(Facts(acknowledged=ALL, there=ALL[:8])) == "lost 2"
    assert (
        outcome(Facts(failed="NOT_ENOUGH_REPLICAS", acknowledged=[0], there=[0]))
        == "failed: NOT_ENOUGH_REPLICAS"
    )
    assert (
        outcome(Facts(failed="_MSG_TIMED_OUT", acknowledged=[0], there=[0, 1]))
        == "timed out: _MSG_TIMED_OUT, yet done"
    )
    assert outcome(Facts(failed="KafkaTimeoutError")).startswith("timed out")
    assert outcome(Facts(acknowledged=ALL[:5], there=ALL[:5])) == "hung"
    assert outcome(Facts(is_ended=False, there=ALL[:5])) == "hung"
    assert outcome(Facts(is_met=False, acknowledged=ALL, there=ALL)) == "not met"
    assert outcome(Facts(acknowledged=ALL, there=ALL, told=["A", "B"])) == "recovered, told A and B"


def test_a_row_says_what_a_test_would_say() -> None:
    names = {"broker": Broker()}
    for fault in (fault for case in CASES for fault in case.faults):
        said = eval(f"broker.{page.sentence(fault).strip('`')}", names)
        assert replace(said.fault, may_be_unmet=True) == fault


def test_the_page_is_read_as_it_was_written() -> None:
    cells = [Cell("recovered", 7), Cell("recovered, 1 duplicate", 9)]
    filled = {
        (case.name, client): page.Filled(cells[:count])
        for case in CASES
        for client, count in (("a", 1), ("b", 2))
    }
    versions = {"a": "1.0", "b": "2.0"}
    text = page.document(CASES, versions, filled)
    assert (
        '| `drop("Produce", after=True, times=1)` | a producer, not idempotent | Produce | recovered (7) |'
        in text
    )
    again = page.read(text, CASES)
    assert again[0] == versions
    assert {key: str(cell) for key, cell in again[1].items()} == {
        key: str(cell) for key, cell in filled.items()
    }
    both = again[1]["not-leader", "b"]
    assert both.holds(Cell("recovered", 20)) and not both.holds(Cell("recovered", 21))
    assert not both.holds(Cell("hung", 7))
