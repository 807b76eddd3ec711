"""Every request of a transactional producer in every state of its id: our coordinator's answer and Kafka's.

A table: how the state was come to, the request and its version, and whose producer id and epoch it names.
Each request is sent twice. Compared are both answers with the ids and epochs that they give, and the state
that they lead to. What passes (CONCURRENT_TRANSACTIONS) is waited for.

The last epochs of a producer id cannot be waited for. They are written into `__transaction_state` as an admin
client may, and both brokers are started again on that. At the end the feature `transaction.version` is
lowered, and what was there before V2 is gone through again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.live import Client, batch, produce
from interop import kafka_peer
from interop.two_sides import KAFKA_SETTINGS, Side, connected, one_error
from odradek.coordinators.outcome import CoordinatorRecord
from odradek.coordinators.transactions.records import transaction_record
from odradek.coordinators.transactions.states import TransactionState
from odradek.coordinators.transactions.transaction import MAX_EPOCH, Transaction
from odradek.errors.codes import ErrorCode
from odradek.records.builder import build_batch
from odradek.testing import Broker
from odradek.util.clock import SystemClock
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from waiting import until_async

pytestmark = pytest.mark.interop

TIMED_OUT = "timed out"
STATES = {
    "unknown": "",
    "initialised": "init",
    "initialised twice": "init init",
    "resumed": "init resume",
    "ongoing": "init add",
    "committed": "init add commit3",
    "aborted": "init add abort3",
    "committed by the next": "init init add commit3",
    "aborted by the next": "init init add abort3",
    "committed with V2": "init add commit5",
    "aborted with V2": "init add abort5",
    "nothing aborted with V2": "init abort5",
    "ongoing after V2": "init add commit5 add",
    "resumed after V2": "init add commit5 resume",
    "committed with V2, then before": "init add commit5 add commit3",
    "fenced": "init add init",
    "resumed within": "init add resume",
    TIMED_OUT: "short add wait",
}

#: What can be come to before V2, where a producer that goes on within its transaction is fenced.
BEFORE_V2 = {name: steps for name, steps in STATES.items() if "5" not in steps and name != "resumed within"}

HELD = ("present", "former", "next", "stranger")
REQUESTS = [
    ("init", 4),
    ("resume", 4),
    ("add", 3),
    ("add", 5),
    ("verify", 4),
    ("offsets", 3),
    ("commit", 3),
    ("commit", 5),
    ("abort", 3),
    ("abort", 5),
    ("produce", 11),
    ("produce", 12),
]
REQUESTS_OF_V2 = {("add", 5), ("commit", 5), ("abort", 5), ("produce", 12)}
#: The last versions that do not know PRODUCER_FENCED.
OLDER = [("resume", 3), ("add", 1), ("offsets", 1), ("commit", 1), ("abort", 1)]
AT_ONCE = 4
JOINS = {"add", "offsets", "produce"}

Case = tuple[str, str, int, str]

#: Here Kafka takes an end of V2 with the former epoch for a repeated one, which it is not: the last end was
#: not V2's. What a fenced producer is told is the outcome of the next one's transaction.
KAFKA_TAKES_FOR_REPEATED = {
    (state, request, 5, held)
    for state, held in (
        ("committed by the next", "former"),
        ("aborted by the next", "former"),
        ("committed with V2, then before", "former"),
        ("last committed", "former"),
        ("highest", "present"),
    )
    for request in ("commit", "abort")
}

SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}
LAST = MAX_EPOCH - 1
SAFE_DOWNGRADE = 2
OLD, NEW = 0, 1
_S = TransactionState

#: States at the last epochs: as written to the log, and what their producers hold, the newest last: the old
#: id or the new one, and an epoch.
WRITTEN = {
    "last but one": (_S.EMPTY, LAST - 1, 0, [(OLD, LAST - 2), (OLD, LAST - 1)]),
    "last": (_S.EMPTY, LAST, 0, [(OLD, LAST - 1), (OLD, LAST)]),
    "last committed": (_S.COMPLETE_COMMIT, LAST, 0, [(OLD, LAST - 1), (OLD, LAST)]),
    "last aborted with V2": (_S.COMPLETE_ABORT, LAST, 2, [(OLD, LAST - 1), (OLD, LAST)]),
    "last ongoing": (_S.ONGOING, LAST, 0, [(OLD, LAST - 1), (OLD, LAST)]),
    "highest": (_S.COMPLETE_ABORT, MAX_EPOCH, 0, [(OLD, LAST - 1), (OLD, LAST)]),
    "new id": (_S.EMPTY, 0, 0, [(OLD, LAST), (NEW, 0)]),
    "new id committed with V2": (_S.COMPLETE_COMMIT, 0, 2, [(OLD, LAST), (NEW, 0)]),
    "new id ongoing": (_S.ONGOING, 0, 0, [(OLD, LAST), (NEW, 0)]),
}


def cases(states: Any) -> Iterator[Case]:
    for state in states:
        for request, version in REQUESTS:
            if states is BEFORE_V2 and (request, version) in REQUESTS_OF_V2:
                continue
            for held in ("present",) if request == "init" else HELD:
                if state == TIMED_OUT and request in JOINS and held == "next":
                    continue  # it joins, and is timed out itself
                yield state, request, version, held
        for request, version in OLDER:
            yield state, request, version, "former"


def ids_of(case: Case) -> tuple[int, int]:
    """The old id and the new one in a state that is written; each case has its own."""
    first = 7_000_000 + 2 * list(cases(WRITTEN)).index(case)
    return first, first + 1


def held_by(side: Side, name: str, held: str) -> dict[str, Any]:
    if held == "stranger":
        producer_id, epoch = 99_999, 0
    else:
        producer_id, epoch = side.owners[name].at(int(held == "former"))
        epoch += held == "next"
    return {
        "transactional_id": side.transactional_id(name),
        "producer_id": producer_id,
        "producer_epoch": min(epoch, MAX_EPOCH),
    }


async def come_to(side: Side, name: str, steps: str) -> None:
    """Have a new transactional id get to a state."""
    for step in steps.split():
        held = side.fields(name, 0)
        error = 0
        if step in ("init", "resume"):
            expected = (held["producer_id"], held["producer_epoch"]) if step == "resume" else (-1, -1)
            error = (await side.init(name, expected)).error_code
        elif step == "short":
            error = (await side.init(name, timeout_ms=1)).error_code
        elif step == "add":
            (error,) = await side.add(name, [0], held)
        elif step == "wait":
            await until_async(
                lambda: side.described(name),
                f"the end of {name}",
                holds=lambda found: found[0].transaction_state == "CompleteAbort",
            )
        else:
            error = (await side.end(name, step[:-1] == "commit", held, int(step[-1]))).error_code
        assert not error, f"{name}: {step}: {ErrorCode(error).name}"


async def answer_to(side: Side, name: str, request: str, version: int, held: dict[str, Any]) -> Any:
    """What one request is answered: the error, and the producer id and epoch that it gives."""

    def told(answer: Any) -> Any:
        producer_id, epoch = answer.producer_id, answer.producer_epoch
        if not answer.error_code and producer_id >= 0:
            side.owners[name].take(producer_id, epoch)
        return ErrorCode(answer.error_code).name, side.index_of(name, producer_id), epoch

    if request in ("init", "resume"):
        message = InitProducerIdRequest(
            transactional_id=held["transactional_id"], transaction_timeout_ms=600_000
        )
        if request == "resume":
            message.producer_id, message.producer_epoch = held["producer_id"], held["producer_epoch"]
        return told(await side.ask(message, version, one_error))
    if request in ("commit", "abort"):
        return told(await side.ask(EndTxnRequest(committed=request == "commit", **held), version, one_error))
    if request == "offsets":
        message = AddOffsetsToTxnRequest(group_id=side.group, **held)
        return ErrorCode((await side.ask(message, version, one_error)).error_code).name
    if request == "add" and version <= 3:
        return [ErrorCode(error).name for error in await side.add(name, [0, 1], held, version)]
    if request in ("add", "verify"):
        entry = AddPartitionsToTxnTransaction(
            verify_only=request == "verify",
            topics=[AddPartitionsToTxnTopic(name=side.topic, partitions=[0, 1])],
            **held,
        )

        def errors(answer: Any) -> list[int]:
            (one,) = answer.results_by_transaction
            return sorted(p.partition_error_code for t in one.topic_results for p in t.results_by_partition)

        found = await side.ask(AddPartitionsToTxnRequest(transactions=[entry]), version, errors)
        return [ErrorCode(error).name for error in errors(found)]
    records = batch(
        producer_id=held["producer_id"],
        producer_epoch=held["producer_epoch"],
        base_sequence=0,
        transactional=True,
    )
    message = produce(side.topic, records)
    message.transactional_id = held["transactional_id"]

    def error_of(answer: Any) -> list[int]:
        return [answer.responses[0].partition_responses[0].error_code]

    return ErrorCode(error_of(await side.ask(message, version, error_of))[0]).name


async def outcome(side: Side, case: Case) -> Any:
    """The answers of a case, and where they lead."""
    state, request, version, held = case
    name = " ".join(map(str, case))
    if state in STATES:
        await come_to(side, name, STATES[state])
    else:
        ids = ids_of(case)
        side.owners[name].given += [(ids[which], epoch) for which, epoch in WRITTEN[state][3]]
    names = held_by(side, name, held)
    answers = [await answer_to(side, name, request, version, names) for _ in range(2)]
    found, topics = await side.described(name)
    return answers, (found.error_code, found.transaction_state, found.producer_epoch, topics)


async def compare(topic: str, states: Any, ports: tuple[int, int]) -> set[Case]:
    """The cases that are answered differently; they are printed.

    Of a producer that goes on, Kafka aborts what is ongoing even when it is another's, and fences it then,
    unless it has guessed the epoch of the abort. Here it is fenced at once. And when the present epoch is the
    last, Kafka fails at one that names another; here it is fenced as at any other epoch, or answered again.
    """
    different = set()

    async def walk(part: list[Case]) -> None:
        async with connected(ports[0], topic) as ours, connected(ports[1], topic) as theirs:
            for case in part:
                our, their = await asyncio.gather(outcome(ours, case), outcome(theirs, case))
                if case[1] == "resume" and ("UNKNOWN_SERVER_ERROR", -1, -1) in their[0]:
                    assert case[0].startswith(("last", "highest")), case
                    assert our[0][1][0] in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "NONE"), our
                elif case[1] == "resume" and case[3] != "present" and our[1][1] == "Ongoing":
                    assert our[0] == their[0] or case[3] == "next", case
                    assert {error for error, *_ in our[0]} <= {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
                elif our != their:
                    different.add(case)
                    print(f"{case}:\n  ours   {our}\n  Kafka's {their}")

    every = list(cases(states))
    # Much of the time is spent waiting for what passes.
    await asyncio.gather(*(walk(every[start::AT_ONCE]) for start in range(AT_ONCE)))
    return different


def written_records(topic: str) -> bytes:
    """One batch of `__transaction_state` with the states of `WRITTEN`."""
    now_ms = SystemClock().now_ms()
    rows = []
    for case in cases(WRITTEN):
        status, epoch, client_version, given = WRITTEN[case[0]]
        former, present = (ids_of(case)[which] for which, _ in given)
        transaction = Transaction(
            f"{' '.join(map(str, case))} of {topic}",
            present,
            epoch,
            600_000,
            status,
            now_ms,
            partitions=frozenset({(topic, 0)}) if status is _S.ONGOING else frozenset(),
            start_ms=-1 if status is _S.EMPTY else now_ms,
            # Kafka's is that before the last move: an ongoing one has come from its own.
            previous_producer_id=present if status is _S.ONGOING else former,
            client_version=client_version,
        )
        record: CoordinatorRecord = transaction_record(transaction, 2)
        key, value = record.encode()
        rows.append((now_ms, key, value, ()))
    return build_batch(rows)


async def write_states(port: int, records: bytes) -> None:
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    answer = await client.call(produce("__transaction_state", records), 9, "__admin_client")
    assert answer.responses[0].partition_responses[0].error_code == 0
    client.close()


async def end_v2(port: int) -> None:
    """Lower the feature `transaction.version`."""
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE)
    answer = await client.call(UpdateFeaturesRequest(feature_updates=[update]), 1)
    assert not answer.error_code
    assert not any(result.error_code for result in answer.results)
    client.close()


def test_the_same_answers_in_every_state(tmp_path: Path, kafka_toolchain: None) -> None:
    kafka = kafka_peer.RealKafka(kafka_peer.NEWEST, tmp_path / "kafka", KAFKA_SETTINGS | SETTINGS)
    broker = Broker(
        data=tmp_path / "ours",
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=50,
    )
    with kafka, broker:
        different = asyncio.run(compare("t", STATES, (broker.port, kafka.port)))
        for port in (broker.port, kafka.port):
            asyncio.run(write_states(port, written_records("t")))
        kafka.stop()
        kafka.start()
        broker.restart()
        different |= asyncio.run(compare("t", WRITTEN, (broker.port, kafka.port)))
        for port in (broker.port, kafka.port):
            asyncio.run(end_v2(port))
        different |= asyncio.run(compare("t1", BEFORE_V2, (broker.port, kafka.port)))
    assert different == KAFKA_TAKES_FOR_REPEATED
