"""Transactions of many clients, with clients, processes of clients and the broker killed: is all of it sound?

On failure the history and the broker's log are kept in the test's folder, and
`python -m odradek.testing.checker` tells it again. `make histories` goes on for hours.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from odradek.testing.checker import Recorder, Send
from odradek.testing.checker.history import Event, Record
from odradek.testing.workload.journal import LocalJournal, Notes, RemoteJournal, apply
from odradek.testing.workload.plan import Plan
from odradek.testing.workload.round import run_round, wrong_copies


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(20261121, transactions=2_000), id="an-epoch-per-transaction"),
        pytest.param(
            Plan(
                20261122,
                transactions=400,
                broker_kills=3,
                host_kills=1,
                two_phase=False,
                settings={"odradek.kafka.version": "3.9-kraft"},
            ),
            id="as-before-kip-890",
        ),
    ],
)
def test_killed_transactions_leave_a_sound_history(tmp_path: Path, plan: Plan) -> None:
    sys.stdout.write(f"seed {plan.seed}\n")
    verdict = asyncio.run(run_round(plan, tmp_path))
    sys.stdout.write(verdict.summary())
    assert verdict.sound, f"{tmp_path}\n{verdict.summary()}"
    assert verdict.counts["transactions"] >= plan.transactions
    assert verdict.counts["transactions ok"] >= plan.transactions / 2
    assert verdict.crashes >= plan.transactions / 20
    assert verdict.counts["kill -9: broker"] == plan.broker_kills


def journal_and_events() -> tuple[Notes, list[Event]]:
    recorder = Recorder()
    return Notes(LocalJournal(recorder)), recorder.events


SEND = [Send("in-0", "v")]


def test_who_dies_before_the_commit_has_failed_for_certain() -> None:
    notes, events = journal_and_events()
    notes.invoke("p", "txn", SEND)
    notes.lost("p")
    assert [(one.type, one.f) for one in events] == [("invoke", "txn"), ("fail", "txn"), ("info", "crash")]


def test_who_dies_in_the_commit_leaves_it_open() -> None:
    notes, events = journal_and_events()
    notes.invoke("p", "txn", SEND)
    notes.deciding("p")
    notes.lost("p")
    assert [(one.type, one.f) for one in events] == [("invoke", "txn"), ("info", "txn"), ("info", "crash")]
    # The decision was that of one transaction.
    notes.invoke("p", "txn", SEND)
    notes.lost("p")
    assert events[-2].type == "fail"


def test_another_process_writes_the_same(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    with lines.open("w", encoding="utf-8") as stream:
        notes = Notes(RemoteJournal(stream))
        notes.invoke("p", "txn", SEND)
        notes.deciding("p")
        notes.complete("p", "ok", "txn", [Send("in-0", "v", 3)])
        notes.control("c", "assign", ["in-0"])
        notes.count("stall")
        notes.invoke("q", "txn", SEND)
    recorder = Recorder()
    journal = LocalJournal(recorder)
    spoken = {apply(line, journal) for line in lines.read_text(encoding="utf-8").splitlines()}
    assert spoken == {"p", "c", "q", ""}
    journal.all_lost(spoken)
    assert [(one.process, one.type, one.f) for one in recorder.events] == [
        ("p", "invoke", "txn"),
        ("p", "ok", "txn"),
        ("c", "info", "assign"),
        ("q", "invoke", "txn"),
        ("q", "fail", "txn"),
        ("q", "info", "crash"),
    ]
    assert journal.counts["transactions"] == 2
    assert journal.counts["stall"] == 1


def test_copies_are_counted() -> None:
    def records(**values: list[str]) -> list[Record]:
        return [Record(f"{t}-0", n, v) for t, all_of_it in values.items() for n, v in enumerate(all_of_it)]

    assert wrong_copies(records(**{"in": ["a"]}, out=["a>k:1"], back=["a>k:1>k:2"])) == []
    assert wrong_copies(records(**{"in": ["a", "b"]}, out=["a>k:1", "a>k:2"], back=["a>k:1>k:3"])) == [
        "'a' of in is 2 times in out",
        "'b' of in is 0 times in out",
        "'a>k:2' of out is 0 times in back",
    ]
    assert wrong_copies(records(out=["a>k:1"], back=["a>k:1>k:3"])) == ["'a' is in out, and was never in in"]
