"""What a batch comes to, case by case, and how a decision is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.spark.writing.decisions import (
    Chunk,
    Decision,
    Participant,
    Plan,
    Report,
    ToDo,
    Transaction,
    UnreadableDecisionError,
    chunk_count,
    from_chunks,
    judge,
    judge_failure,
    task_begins,
    to_chunks,
    with_left,
)
from odradek.spark.writing.task_transaction import Slots

A, B, C, D = (Transaction(f"q:w:{number}", 7, number) for number in range(4))
DECIDED = Decision(5, "old", 3, (Participant(0, A, 10), Participant(2, B, 20)))


def report(task: int, rows: int, transaction: Transaction | None = None, **more: object) -> Report:
    return Report(task, 0, rows, transaction, **more)  # type: ignore[arg-type]


FRESH = [report(0, 10, C), report(1, 0), report(2, 20, D)]
LEFT_OUT = [report(task, rows, found_decided=True) for task, rows in enumerate((10, 0, 20))]
FIRST_ANEW = [report(0, 10, C, found_decided=True, replaces=A), *LEFT_OUT[1:]]


@pytest.mark.parametrize(
    ("decision", "batch", "task", "expected"),
    [
        (None, 0, 0, ToDo(False)),
        (DECIDED, 6, 0, ToDo(False)),
        (DECIDED, 5, 0, ToDo(True, DECIDED.participants[0])),
        (DECIDED, 5, 1, ToDo(True)),
        (DECIDED, 5, 9, ToDo(True)),
    ],
)
def test_what_a_task_does_first(decision: Decision | None, batch: int, task: int, expected: ToDo) -> None:
    assert task_begins(decision, batch, task) == expected


def test_a_task_of_a_batch_before_the_last_one_stops() -> None:
    with pytest.raises(ValueError, match="batch 4 comes after batch 5"):
        task_begins(DECIDED, 4, 0)


CASES = {
    "the first batch": (
        None,
        FRESH,
        Plan(Decision(5, "new", 3, (Participant(0, C, 10), Participant(2, D, 20))), (C, D)),
    ),
    "without rows": (None, [report(0, 0)], Plan(Decision(5, "new", 1))),
    "decided, and the driver died": (DECIDED, LEFT_OUT, Plan(commit=(A, B))),
    "decided by another driver while the tasks ran": (DECIDED, FRESH, Plan(commit=(A, B), abort=(C, D))),
    "decided, with another number of tasks": (DECIDED, LEFT_OUT[:2], Plan(commit=(A, B))),
    "decided, and one transaction timed out": (
        DECIDED,
        FIRST_ANEW,
        Plan(Decision(5, "new", 3, (Participant(0, C, 10), Participant(2, B, 20))), (C, B)),
    ),
    "the same, when somebody else wrote it anew before": (
        Decision(5, "old", 3, (Participant(0, D, 10), Participant(2, B, 20))),
        FIRST_ANEW,
        Plan(commit=(D, B), abort=(C,)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_driver_does(case: str) -> None:
    decision, reports, expected = CASES[case]
    assert judge(decision, 5, "new", reports) == expected


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        ([*FIRST_ANEW, report(3, 0)], "4 tasks instead of 3"),
        ([report(0, 11, C, replaces=A), *LEFT_OUT[1:]], "11 rows in task 0 instead of 10"),
    ],
)
def test_rows_that_are_not_the_same_do_not_stand_in(reports: list[Report], why: str) -> None:
    plan = judge(DECIDED, 5, "new", reports)
    assert plan.error is not None
    assert why in plan.error
    assert (plan.decide, plan.commit, plan.abort) == (None, (B,), (C,))


def test_a_batch_of_the_past_is_refused_and_aborted() -> None:
    plan = judge(DECIDED, 4, "new", FRESH)
    assert (plan.decide, plan.commit, plan.abort) == (None, (), (C, D))
    assert plan.error is not None


def test_a_decision_that_vanished_is_an_error() -> None:
    plan = judge(None, 5, "new", [report(0, 10, C), *LEFT_OUT[1:]])
    assert (plan.decide, plan.commit, plan.abort) == (None, (), (C,))
    assert plan.error is not None


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (None, Plan(abort=(A, C))),
        (Decision(4, "old", 1), Plan(abort=(A, C))),
        (DECIDED, Plan(commit=(A, B), abort=(C,))),
    ],
)
def test_after_a_failure(decision: Decision | None, expected: Plan) -> None:
    assert judge_failure(decision, 5, [report(0, 1, A), None, report(2, 1, C)]) == expected


transactions = st.builds(
    Transaction,
    st.from_regex(r"q:[0-9a-f]{12}:[0-9]{1,3}", fullmatch=True),
    st.integers(0, 2**63 - 1),
    st.integers(0, 32767),
)
participants = st.builds(Participant, st.integers(0, 10_000), transactions, st.integers(0, 2**40))


@given(
    st.builds(
        Decision,
        st.integers(0, 2**40),
        st.text(max_size=40),
        st.integers(1, 500),
        st.lists(participants, max_size=400).map(tuple),
        st.lists(transactions, max_size=200).map(tuple),
    )
)
def test_a_decision_is_read_as_it_was_written(decision: Decision) -> None:
    chunks = to_chunks(decision, "q")
    assert all(len(chunk.text) <= 4096 for chunk in chunks)
    assert chunk_count(chunks[0]) == len(chunks)
    assert from_chunks(chunks, "q") == decision


def test_a_decision_without_a_list_of_what_was_left_open_is_read() -> None:
    text = '{"v":1,"run":"r","tasks":1,"chunks":1,"parts":[[0,":w:0",7,1,2]]}'
    part = Participant(0, Transaction("q:w:0", 7, 1), 2)
    assert from_chunks([Chunk(3, text)], "q") == Decision(3, "r", 1, (part,))


def test_what_was_left_open_is_aborted_by_whoever_completes_the_batch() -> None:
    plan = with_left(Plan(decide=DECIDED, commit=(A, B)), [C, A])
    assert plan.abort == (C,)
    decision = plan.decide
    assert decision is not None
    assert decision.left == (C,)
    again = [report(task, 0, found_decided=True) for task in range(3)]
    assert judge(decision, 5, "new", again) == Plan(commit=(A, B), abort=(C,))
    assert judge_failure(decision, 5, []) == Plan(commit=(A, B), abort=(C,))


def test_pieces_of_two_decisions_are_none() -> None:
    many = tuple(Participant(task, Transaction(f"q:w:{task}", 1, 1), 1) for task in range(400))
    one, other = to_chunks(Decision(1, "r", 400, many), "q"), to_chunks(Decision(2, "r", 400, many), "q")
    assert len(one) > 1
    assert from_chunks([other[0], *one[1:]], "q") is None
    assert from_chunks(one[:1], "q") is None


@pytest.mark.parametrize(
    "text", ["", "7", "{}", '{"v":9,"run":"","tasks":1,"chunks":1,"parts":[]}', '{"v":1}']
)
def test_what_is_no_decision_says_so(text: str) -> None:
    with pytest.raises(UnreadableDecisionError, match="transactionalIdPrefix"):
        from_chunks([Chunk(3, text)], "q")


def test_an_id_is_used_again_only_when_a_later_batch_was_decided_on() -> None:
    slots = Slots("w")
    taken = [(0, -1), (0, -1), (1, 0), (2, 1), (2, 1), (2, 1), (7, 2)]
    assert [slots.take("q", batch, decided) for batch, decided in taken] == [
        "q:w:0",
        "q:w:1",
        "q:w:2",
        "q:w:0",
        "q:w:1",
        "q:w:3",
        "q:w:2",
    ]
    assert slots.take("other", 0, -1) == "other:w:0"
