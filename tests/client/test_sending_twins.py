"""Both shells of `SenderState` send, and take answers, alike: the producer of threads and the writer."""

from __future__ import annotations

from typing import Any

import pytest

from client.scripted import HangUp
from client.scripted_transactions import ByProducer, ByWriter, Problem, TransactionalBroker, talking
from odradek.client import Producer, TransactionalWriter
from odradek.errors import ErrorCode, InvalidRecordError, NotEnoughReplicasError, TopicAuthorizationError
from odradek.wire.api import ApiKey
from odradek.wire.messages.produce import LeaderIdAndEpoch, NodeEndpoint
from waiting import until

pa = pytest.importorskip("pyarrow")

LONG_MS = 600_000


@pytest.fixture(params=[ByProducer, ByWriter])
def shell(request: pytest.FixtureRequest) -> Any:
    """Either of the two."""
    return request.param


def connected(shell: Any, servers: str, **configs: Any) -> Any:
    """A side as `talking` gives it, with other configs."""
    side = shell.__new__(shell)
    if shell is ByProducer:
        side.client = Producer(bootstrap_servers=servers, transactional_id="id", **configs)
    else:
        side.client = TransactionalWriter(servers, "id", configs)
    return side


def begin(side: Any) -> None:
    side.client.init_transactions()
    side.client.begin_transaction()


def send_without_waiting(side: Any, partitions: list[int]) -> None:
    """Send a record to each of the partitions in turn."""
    if isinstance(side, ByProducer):
        for partition in partitions:
            side.client.send("t", b"value", partition=partition)
    else:
        numbers = pa.array(partitions, pa.int32())
        side.client.write_columns(
            pa.table({"value": [b"value"] * len(partitions), "partition": numbers}), "t"
        )


class MovedBroker(TransactionalBroker):
    """Its first Produce is answered with another leader, in place of which it would name itself."""

    def __init__(self, new: TransactionalBroker) -> None:
        super().__init__("3.9", {ApiKey.PRODUCE: [int(ErrorCode.NOT_LEADER_OR_FOLLOWER)]})
        self.new = new

    def _produce(self, message: Any, version: int, code: int) -> Any:
        response = super()._produce(message, version, code)
        response.responses[0].partition_responses[0].current_leader = LeaderIdAndEpoch(
            leader_id=1, leader_epoch=7
        )
        response.node_endpoints = [NodeEndpoint(node_id=1, host="127.0.0.1", port=self.new.port)]
        return response


def test_the_leader_that_an_error_names_is_sent_to_at_once(shell: Any) -> None:
    """KIP-951: no Metadata before, and no pause."""
    with TransactionalBroker("3.9", {}) as new, MovedBroker(new) as old:
        side = connected(shell, old.at, retry_backoff_ms=LONG_MS, retry_backoff_max_ms=LONG_MS)
        begin(side)
        send_without_waiting(side, [0])
        until(lambda: (ApiKey.PRODUCE, 11) in old.asked, what="the first Produce")
        side.client.flush()
        assert new.said == ["v11 t-0 epoch 0 from 0"]
        after = old.asked[old.asked.index((ApiKey.PRODUCE, 11)) :]
        assert ApiKey.METADATA not in [key for key, _ in after + new.asked]
        side.client.commit_transaction()
        side.client.close()


@pytest.mark.parametrize("kind", ["0.11", "3.9", "4.x"])
def test_a_refused_batch_costs_the_transaction_alone(shell: Any, kind: str) -> None:
    with talking(shell, {ApiKey.PRODUCE: [int(ErrorCode.INVALID_RECORD)]}, kind) as (side, broker):
        begin(side)
        with pytest.raises(InvalidRecordError):
            side.send()
            side.client.commit_transaction()
        side.client.abort_transaction()
        side.client.begin_transaction()
        side.send()
        side.client.commit_transaction()
        assert broker.said[-1].startswith("commit 7:")


def test_what_may_be_in_the_log_is_known_before_an_abort(shell: Any) -> None:
    """A late copy would be written behind the abort's marker, and so in the next transaction."""
    with talking(shell, {ApiKey.PRODUCE: [HangUp]}) as (side, broker):
        begin(side)
        send_without_waiting(side, [0])
        until(lambda: any(line.startswith("v11") for line in broker.said), what="the first Produce")
        side.client.abort_transaction()
        sent = [line for line in broker.said if line.startswith(("v11", "abort"))]
        assert sent == [*["v11 t-0 epoch 0 from 0"] * 2, "abort 7:0"]


@pytest.mark.parametrize(
    ("kind", "problem"),
    [("3.9", int(ErrorCode.NOT_ENOUGH_REPLICAS)), ("4.x", int(ErrorCode.REQUEST_TIMED_OUT))],
    ids=["not in the log", "fenced by the marker (KIP-890)"],
)
def test_an_abort_does_not_wait_for_what_need_not_be_known(shell: Any, kind: str, problem: Problem) -> None:
    with TransactionalBroker(kind, {ApiKey.PRODUCE: [problem] * 1_000}) as broker:
        side = connected(shell, broker.at, retry_backoff_ms=LONG_MS, retry_backoff_max_ms=LONG_MS)
        begin(side)
        send_without_waiting(side, [0])
        until(lambda: any(line.startswith("v1") for line in broker.said), what="the first Produce")
        side.client.abort_transaction()
        assert [line[:5] for line in broker.said if line.startswith(("v1", "abort"))][1:] == ["abort"]
        side.client.close()


def test_as_many_tries_as_the_config_allows(shell: Any) -> None:
    script: dict[ApiKey, list[Problem]] = {ApiKey.PRODUCE: [int(ErrorCode.NOT_ENOUGH_REPLICAS)] * 3}
    with TransactionalBroker("3.9", script) as broker:
        side = connected(shell, broker.at, retries=2, retry_backoff_ms=1, retry_backoff_max_ms=1)
        begin(side)
        with pytest.raises(NotEnoughReplicasError):
            side.send()
            side.client.commit_transaction()
        assert [line for line in broker.said if line.startswith("v11")] == ["v11 t-0 epoch 0 from 0"] * 3
        side.client.close()


def test_the_topic_that_may_not_be_written_to_is_named(shell: Any) -> None:
    with talking(shell, {ApiKey.PRODUCE: [int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]}) as (side, _):
        begin(side)
        with pytest.raises(TopicAuthorizationError, match="not authorized to write to topic 't'"):
            side.send()
            side.client.commit_transaction()


class Forgetful(TransactionalBroker):
    """At the second Produce retention has taken all that the producer was known by."""

    def __init__(self) -> None:
        super().__init__("3.9", {ApiKey.PRODUCE: [0, int(ErrorCode.UNKNOWN_PRODUCER_ID)]})

    def _produce(self, message: Any, version: int, code: int) -> Any:
        response = super()._produce(message, version, code)
        response.responses[0].partition_responses[0].log_start_offset = 100 if code else 0
        return response


def test_a_producer_that_retention_has_forgotten_begins_anew(shell: Any) -> None:
    with Forgetful() as broker:
        side = connected(shell, broker.at, retry_backoff_ms=1, retry_backoff_max_ms=1)
        begin(side)
        side.send()
        side.send()
        side.client.commit_transaction()
        sent = [line for line in broker.said if line.startswith("v11")]
        assert [line[-1] for line in sent] == ["0", "1", "0"]
        side.client.close()


def test_batches_of_several_partitions_go_in_one_request(shell: Any) -> None:
    with TransactionalBroker("4.x", {}) as broker:
        linger = {"linger_ms": LONG_MS} if shell is ByProducer else {}
        side = connected(shell, broker.at, delivery_timeout_ms=2 * LONG_MS, **linger)
        begin(side)
        send_without_waiting(side, [0, 1])
        side.client.commit_transaction()
        assert [key for key, _ in broker.asked].count(ApiKey.PRODUCE) == 1
        side.client.close()
