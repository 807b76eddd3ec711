"""What both transactional shells say over the wire when a broker answers with errors: transcripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from client.scripted import HangUp
from client.scripted_transactions import ByProducer, ByWriter, Problem, TransactionalBroker, talking
from odradek.client import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionalWriter,
)
from odradek.client.errors import ClientTimeoutError, CommitFailedError, IllegalStateError
from odradek.errors import (
    ErrorCode,
    GroupAuthorizationError,
    KafkaError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    TopicAuthorizationError,
)
from odradek.wire.api import ApiKey

pa = pytest.importorskip("pyarrow")


@pytest.fixture(params=[ByProducer, ByWriter])
def shell(request: pytest.FixtureRequest) -> Any:
    """Either of the two."""
    return request.param


GROUP = ConsumerGroupMetadata("g", 3, "m", None)
OFFSETS = {TopicPartition("t", 0): OffsetAndMetadata(5)}


def one_transaction(side: Any) -> None:
    """Records to two partitions and offsets."""
    side.client.begin_transaction()
    side.send(0)
    side.send(1)
    side.send(0)
    side.client.send_offsets_to_transaction(OFFSETS, GROUP)
    side.client.commit_transaction()


START = ["who coordinates transaction id", "init"]
FIRST_0_11 = """add t-0; v3 t-0 epoch 0 from 0; add t-1; v3 t-1 epoch 0 from 0; v3 t-0 epoch 0 from 1;
add group g; who coordinates group g; offsets of g in -1 by ''; commit 7:0"""
FIRST_3_9 = """add t-0; v11 t-0 epoch 0 from 0; add t-1; v11 t-1 epoch 0 from 0; v11 t-0 epoch 0 from 1;
add group g; who coordinates group g; offsets of g in 3 by 'm'; commit 7:0"""
FIRST_4 = """v12 t-0 epoch 0 from 0; v12 t-1 epoch 0 from 0; v12 t-0 epoch 0 from 1;
who coordinates group g; offsets of g in 3 by 'm'; commit 7:0"""
SECOND_3_9 = """add t-0; v11 t-0 epoch 0 from 2; add t-1; v11 t-1 epoch 0 from 1; v11 t-0 epoch 0 from 3;
add group g; offsets of g in 3 by 'm'; commit 7:0"""
SECOND_4 = """v12 t-0 epoch 1 from 0; v12 t-1 epoch 1 from 0; v12 t-0 epoch 1 from 1;
offsets of g in 3 by 'm'; commit 7:1"""


def words(transcript: str) -> list[str]:
    """`a; b` → [a, b]."""
    return [" ".join(said.split()) for said in transcript.split(";")]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [("0.11", FIRST_0_11, None), ("3.9", FIRST_3_9, SECOND_3_9), ("4.x", FIRST_4, SECOND_4)],
)
def test_two_transactions(shell: Any, kind: str, first: str, second: str | None) -> None:
    with talking(shell, kind=kind) as (side, broker):
        side.client.init_transactions()
        one_transaction(side)
        assert broker.said == START + words(first)
        broker.said.clear()
        one_transaction(side)
        if second is not None:
            assert broker.said == words(second)


@pytest.mark.parametrize(
    "problem",
    [
        HangUp,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_what_can_be_tried_again_is(shell: Any, problem: Problem) -> None:
    """Every request of a transaction fails twice: with a code, or by a connection that breaks."""
    tried = [
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ]
    with talking(shell, {api: [problem, problem] for api in tried}) as (side, broker):
        side.client.init_transactions()
        one_transaction(side)
        said = [line for line in broker.said if not line.startswith("who")]
        expected = START[1:] + [line for line in words(FIRST_3_9) if not line.startswith("who")]
        thrice = {"init", "add t-0", "add group g", "offsets of g in 3 by 'm'", "commit 7:0"}
        said = [line.replace("epoch 2", "epoch 0").replace("7:2", "7:0") for line in said]  # of lost answers
        assert said == [line for line in expected for _ in range(3 if line in thrice else 1)]
        if problem in (ErrorCode.NOT_COORDINATOR, HangUp):
            assert broker.said.count(START[0]) >= 7


def test_batches_are_repeated_under_their_sequences(shell: Any) -> None:
    problems: list[Problem] = [int(ErrorCode.NOT_LEADER_OR_FOLLOWER), HangUp]
    problems.append(int(ErrorCode.REQUEST_TIMED_OUT))
    with talking(shell, {ApiKey.PRODUCE: problems}) as (side, broker):
        side.client.init_transactions()
        side.client.begin_transaction()
        side.send()
        side.send()
        side.client.commit_transaction()
        assert broker.said == [
            *START,
            "add t-0",
            *["v11 t-0 epoch 0 from 0"] * 4,
            "v11 t-0 epoch 0 from 1",
            "commit 7:0",
        ]


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (ApiKey.INIT_PRODUCER_ID, ErrorCode.PRODUCER_FENCED),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.PRODUCER_FENCED),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ApiKey.END_TXN, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_the_fenced_one_is_told_whoever_tells_it(shell: Any, api: ApiKey, code: ErrorCode) -> None:
    def run(side: Any) -> None:
        side.client.init_transactions()
        one_transaction(side)

    with talking(shell, {api: [int(code)]}) as (side, broker):
        with pytest.raises(KafkaError):
            run(side)
        asked = len(broker.said)
        client = side.client
        for call in (client.begin_transaction, client.abort_transaction, client.commit_transaction):
            with pytest.raises(ProducerFencedError) as fenced:
                call()
            assert fenced.value.fatal
        assert len(broker.said) == asked


COSTLY = [
    ("3.9", ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
    ("3.9", ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError),
    *(
        (kind, api, code, error)
        for kind in ("3.9", "4.x")
        for api, code, error in (
            (ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
            (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION, CommitFailedError),
            (ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, OutOfOrderSequenceError),
        )
    ),
]


@pytest.mark.parametrize(("kind", "api", "code", "error"), COSTLY)
def test_what_costs_the_transaction_leaves_the_producer(
    shell: Any, kind: str, api: ApiKey, code: ErrorCode, error: type[Exception]
) -> None:
    with talking(shell, {api: [int(code)]}, kind) as (side, broker):
        side.client.init_transactions()
        with pytest.raises(error):
            one_transaction(side)
        with pytest.raises(error) as still:
            side.client.commit_transaction()
        assert still.value.requires_abort  # type: ignore[attr-defined]
        broker.said.clear()
        side.client.abort_transaction()
        bumped = "init after 7:0" in broker.said
        assert bumped == (kind == "3.9" and api is ApiKey.PRODUCE)
        broker.said.clear()
        one_transaction(side)
        epoch = 1 if bumped or kind == "4.x" else 0
        assert broker.said[-1] == f"commit 7:{epoch}"
        records = [line for line in broker.said if line.startswith("v1")]
        # What was acknowledged under the same epoch counts on; a higher one begins anew.
        before = api in (ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT) and not epoch
        version = "v11" if kind == "3.9" else "v12"
        first = 2 if before else 0
        assert records[0] == f"{version} t-0 epoch {epoch} from {first}"
        assert records[2] == f"{version} t-0 epoch {epoch} from {first + 1}"


def test_who_may_not_use_the_id_may_try_again(shell: Any) -> None:
    refused = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with talking(shell, {ApiKey.INIT_PRODUCER_ID: [refused]}) as (side, _):
        with pytest.raises(KafkaError) as problem:
            side.client.init_transactions()
        assert problem.value.code == refused and not problem.value.fatal
        side.client.init_transactions()
        one_transaction(side)


def again(call: Callable[[], object]) -> None:
    """Call until it is in time."""
    for _ in range(200):
        try:
            call()
            return
        except ClientTimeoutError:
            continue


def test_a_commit_that_takes_too_long_goes_on(shell: Any) -> None:
    busy = [int(ErrorCode.CONCURRENT_TRANSACTIONS)] * 60
    with TransactionalBroker("3.9", {ApiKey.END_TXN: list(busy)}) as broker:
        configs = {"max.block.ms": 100, "retry.backoff.ms": 10, "retry.backoff.max.ms": 10}
        client: Any
        if shell is ByProducer:
            client = Producer({"bootstrap.servers": broker.at, "transactional.id": "id", **configs})
        else:
            client = TransactionalWriter(broker.at, "id", configs)
        side = shell.__new__(shell)
        side.client = client
        again(client.init_transactions)
        client.begin_transaction()
        side.send()
        with pytest.raises(ClientTimeoutError, match="it may be called again"):
            client.commit_transaction()
        for other in (client.begin_transaction, client.abort_transaction):
            with pytest.raises(IllegalStateError, match="timed out"):
                other()
        again(client.commit_transaction)
        client.begin_transaction()
        client.close()
        assert broker.said.count("commit 7:0") == 61


def test_closing_aborts_what_is_open_and_leaves_what_is_prepared(shell: Any) -> None:
    for prepare in (False, True):
        with talking(shell) as (side, broker):
            side.client.init_transactions()
            side.client.begin_transaction()
            side.send()
            if prepare:
                side.client.prepare_transaction()
            side.client.close()
            assert ("abort 7:0" in broker.said) == (not prepare)
