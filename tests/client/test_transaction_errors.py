"""What each error does to the transactional producer's state machine, by request, and what batches do."""

from __future__ import annotations

from typing import Any

import pytest

from client.transaction_bench import GROUP, A, B, Bench, S
from odradek.client.core.transactions.requests import CoordinatorKind, TxnRequest
from odradek.client.core.transactions.state_machine import TxnState
from odradek.client.core.transactions.transactional_request_result import TransactionalRequestResult
from odradek.client.errors import CommitFailedError, UnsupportedByBrokerError
from odradek.client.types import OffsetAndMetadata
from odradek.errors import (
    ErrorCode,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionalIdAuthorizationError,
    error_for,
)
from odradek.wire.api import ApiKey
from odradek.wire.messages.find_coordinator import FindCoordinatorResponse

# Errors, by request. What Kafka's TransactionManager does with each.

RETRIED = ["CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"]
RETRIED += [
    "COORDINATOR_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "NETWORK_EXCEPTION",
    "UNKNOWN_TOPIC_OR_PARTITION",
]
FENCED = ["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"]
ODD = ["UNKNOWN_SERVER_ERROR", "INVALID_REQUEST", "UNSUPPORTED_VERSION", "CLUSTER_AUTHORIZATION_FAILED"]
EXPECTED: dict[ApiKey, dict[str, list[str]]] = {
    ApiKey.INIT_PRODUCER_ID: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": [*ODD[:3], "INVALID_TRANSACTION_TIMEOUT", "INVALID_TXN_STATE", "UNKNOWN_PRODUCER_ID"],
        "again from the start": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"],
        "abortable": ["TRANSACTION_ABORTABLE"],
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "INVALID_TXN_STATE"],
        "abortable": ["TOPIC_AUTHORIZATION_FAILED", "OPERATION_NOT_ATTEMPTED", "TRANSACTION_ABORTABLE", *ODD],
        "under a higher epoch": ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING"],
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "INVALID_TXN_STATE", *ODD],
        "abortable": ["GROUP_AUTHORIZATION_FAILED", "TRANSACTION_ABORTABLE"],
        "under a higher epoch": ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING"],
    },
    ApiKey.TXN_OFFSET_COMMIT: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_FOR_MESSAGE_FORMAT", *ODD],
        "abortable": ["GROUP_AUTHORIZATION_FAILED", "FENCED_INSTANCE_ID", "TRANSACTION_ABORTABLE"],
        "the group moved on": ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"],
    },
    ApiKey.END_TXN: {
        "retried": RETRIED,
        "fenced": FENCED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "INVALID_TXN_STATE", *ODD],
        "abortable": ["TRANSACTION_ABORTABLE"],
        "under a higher epoch": ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING"],
    },
    ApiKey.FIND_COORDINATOR: {
        "retried": RETRIED,
        "fatal": ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED", *ODD, *FENCED],
        "abortable": ["TRANSACTION_ABORTABLE"],
    },
}
CASES = [(api, code, what) for api, by in EXPECTED.items() for what, codes in by.items() for code in codes]


def _in_flight(api: ApiKey, kind: str = "3.9") -> tuple[Bench, TxnRequest, TransactionalRequestResult | None]:
    bench = Bench(kind)
    manager = bench.manager
    call: TransactionalRequestResult | None
    if api in (ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR):
        call = manager.init_transactions()
    elif api is ApiKey.ADD_PARTITIONS_TO_TXN:
        bench.started()
        manager.add_partition(A)
        call = None
    elif api is ApiKey.END_TXN:
        call = bench.with_record().manager.commit()
    else:
        call = bench.with_record().manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    request = bench.run(until=api)
    assert request is not None
    return bench, request, call


@pytest.mark.parametrize(("api", "name", "what"), CASES)
def test_what_an_error_does(api: ApiKey, name: str, what: str) -> None:
    bench, request, call = _in_flight(api)
    manager, before = bench.manager, bench.manager.state
    code = ErrorCode[name]
    bench.answer(request, code)
    if what == "retried":
        assert manager.state is before
        bench.run()
        assert call is None or (call.done and call.error is None)
        asked = bench.apis
        assert asked.count(api) >= 2
        moved = name in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
        moved |= api is ApiKey.TXN_OFFSET_COMMIT and name == "REQUEST_TIMED_OUT"
        if moved and api is not ApiKey.FIND_COORDINATOR:
            last = len(asked) - 1 - asked[::-1].index(api)
            assert asked[last - 1] is ApiKey.FIND_COORDINATOR
        return
    error = manager.last_error
    if call is not None:
        assert call.done
        error = call.error
        with pytest.raises(type(error)):
            call.outcome()
    assert error is not None
    if what in ("fatal", "fenced"):
        assert manager.state is S.FATAL_ERROR and error.fatal and not error.requires_abort
        assert isinstance(error, ProducerFencedError if what == "fenced" else type(error_for(code)))
        with pytest.raises(type(error)) as raised:
            manager.begin()
        assert raised.value.fatal
        return
    if what == "again from the start":
        assert manager.state is S.UNINITIALIZED and not error.fatal
        bench.done(manager.init_transactions())
        assert manager.state is S.READY
        return
    assert manager.state is S.ABORTABLE_ERROR and error.requires_abort and not error.fatal
    expected = CommitFailedError if what == "the group moved on" else type(error_for(code))
    assert isinstance(error, expected)
    with pytest.raises(expected):
        manager.add_partition(B)
    if manager.producer_id < 0:
        return
    with pytest.raises(expected):
        manager.commit()
    epoch = manager.producer_epoch
    bench.seen.clear()
    bench.done(manager.abort())
    assert manager.state is S.READY and not any(ended.committed for ended in bench.model.ended)
    bumped = [m for a, m in bench.seen if a is ApiKey.INIT_PRODUCER_ID]
    assert (len(bumped) == 1) == (what == "under a higher epoch")
    if bumped:
        assert (bumped[0].producer_id, bumped[0].producer_epoch) == (manager.producer_id, epoch)
        assert manager.producer_epoch == epoch + 1
        # Of what the coordinator knows no more, nothing is to be ended.
        assert (ApiKey.END_TXN in bench.apis) == (
            name != "INVALID_PRODUCER_ID_MAPPING" and api is not ApiKey.ADD_PARTITIONS_TO_TXN
        )


@pytest.mark.parametrize("name", ["UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_ID_MAPPING"])
@pytest.mark.parametrize("api", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN])
def test_without_kip_360_a_forgotten_producer_is_of_no_use(api: ApiKey, name: str) -> None:
    bench, request, _ = _in_flight(api, "0.11")
    bench.answer(request, ErrorCode[name])
    assert bench.manager.state is S.FATAL_ERROR


def test_a_group_that_may_not_be_used_is_no_fault_of_the_producer() -> None:
    bench = Bench().with_record()
    call = bench.manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    bench.run(until=ApiKey.ADD_OFFSETS_TO_TXN)
    # ... and so is a group's coordinator that may not be asked for.
    bench = Bench().with_record()
    call = bench.manager.send_offsets({A: OffsetAndMetadata(1)}, GROUP)
    adding = bench.run(until=ApiKey.ADD_OFFSETS_TO_TXN)
    assert adding is not None
    bench.answer(adding)
    finding = bench.ask()
    assert finding is not None and finding.find == (CoordinatorKind.GROUP, "g")
    bench.answer(finding, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert call.error is not None and call.error.requires_abort
    bench.done(bench.manager.abort())


# Batches


@pytest.mark.parametrize("kind", ["3.9", "4.x"])
def test_a_batch_that_fails_ends_the_transaction_only(kind: str) -> None:
    bench = Bench(kind).with_record()
    manager, epoch = bench.manager, bench.manager.producer_epoch
    manager.batch_failed(RecordTooLargeError("too large"))
    assert manager.state is S.ABORTABLE_ERROR and manager.drops_batches
    with pytest.raises(RecordTooLargeError) as raised:
        manager.commit()
    assert raised.value.requires_abort
    bench.done(manager.abort())
    assert manager.state is S.READY and manager.producer_epoch == epoch + 1
    # KIP-890 raises the epoch with the end; before, InitProducerId does (KIP-360).
    assert (bench.apis[-1] is ApiKey.INIT_PRODUCER_ID) == (kind == "3.9")


@pytest.mark.parametrize("kind", ["3.9", "4.x"])
def test_a_batch_that_fails_while_committing_fails_the_commit(kind: str) -> None:
    bench = Bench(kind).with_record()
    call = bench.manager.commit()
    assert bench.ask(batches_left=True) is None
    bench.manager.batch_failed(OutOfOrderSequenceError("lost"))
    assert bench.ask() is None
    with pytest.raises(OutOfOrderSequenceError):
        call.outcome()
    bench.done(bench.manager.abort())
    assert [ended.committed for ended in bench.model.ended] == [False]


def test_a_batch_that_fails_while_aborting_is_no_news() -> None:
    bench = Bench().with_record()
    call = bench.manager.abort()
    bench.manager.batch_failed(RecordTooLargeError("too large"))
    assert bench.manager.state is S.ABORTING
    bench.done(call)
    assert bench.manager.producer_epoch == 1  # its sequences are not trusted any more


@pytest.mark.parametrize(
    "error", [TransactionalIdAuthorizationError(), ProducerFencedError(), UnsupportedByBrokerError("old")]
)
def test_a_batch_may_show_that_the_producer_is_of_no_use(error: Any) -> None:
    bench = Bench().with_record()
    bench.manager.batch_failed(error)
    assert bench.manager.state is S.FATAL_ERROR and not bench.manager.may_send(A)
    bench.manager.batch_failed(RecordTooLargeError("later"))
    assert bench.manager.last_error is error


@pytest.mark.parametrize(("kind", "state"), [("0.11", S.FATAL_ERROR), ("3.9", S.ABORTABLE_ERROR)])
def test_lost_sequences_need_a_higher_epoch(kind: str, state: TxnState) -> None:
    bench = Bench(kind).with_record()
    bench.manager.sequences_lost(error_for(ErrorCode.REQUEST_TIMED_OUT))
    assert bench.manager.state is state


def test_a_coordinator_that_an_answer_does_not_name_is_looked_for_again() -> None:
    """Its fields are left at their defaults, which would be broker 0."""
    bench = Bench()
    bench.manager.init_transactions()
    asking = bench.ask()
    assert asking is not None and asking.api is ApiKey.FIND_COORDINATOR
    bench.manager.answered(asking, FindCoordinatorResponse())
    again = bench.ask()
    assert again is not None and (again.api, again.tries) == (ApiKey.FIND_COORDINATOR, 1)
