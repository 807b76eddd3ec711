"""The brokers' side of exactly-once writes, on a broker of ours, with and without two-phase commit."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from odradek.spark.writing.decisions import Decision, Participant
from odradek.testing import Broker
from spark.ledger_scenarios import SCENARIOS, Sink, what_timed_out_is_written_again

pytest.importorskip("pyspark")
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["false", "true"])
def two_phase_commit(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def broker(two_phase_commit: str) -> Iterator[Any]:
    """One that allows two-phase commit, and one that does not."""
    with Broker(
        transaction_two_phase_commit_enable=two_phase_commit,
        transaction_abort_timed_out_transaction_cleanup_interval_ms="100",
        transaction_state_log_num_partitions="5",
    ) as broker:
        yield broker


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(broker: Any, scenario: str) -> None:
    SCENARIOS[scenario](Sink(broker.bootstrap_servers, f"t{next(_numbers)}"))


def test_what_timed_out_is_written_again(broker: Any) -> None:
    what_timed_out_is_written_again(
        Sink(
            broker.bootstrap_servers,
            f"t{next(_numbers)}",
            twoPhaseCommit="false",
            **{"kafka.transaction.timeout.ms": "300"},
        )
    )


def test_under_two_phase_commit_nothing_times_out(broker: Any, two_phase_commit: str) -> None:
    allowed = two_phase_commit == "true"
    sink = Sink(broker.bootstrap_servers, f"t{next(_numbers)}", twoPhaseCommit="true")
    ledger = sink.ledger()
    try:
        if not allowed:
            with pytest.raises(Exception, match="twoPhaseCommit is true"):
                sink.task(ledger, sink.batch(0), 0, ["a"])
            return
        report = sink.task(ledger, sink.batch(0), 0, ["a"])
        described = _timeout_of(broker.bootstrap_servers, report.transaction.transactional_id)  # type: ignore[union-attr]
        assert described == 2**31 - 1
    finally:
        ledger.close()


def test_brokers_that_allow_only_short_transactions() -> None:
    with Broker(transaction_max_timeout_ms="60000") as broker:
        sink = Sink(broker.bootstrap_servers, "t")
        ledger = sink.ledger()
        report = sink.task(ledger, sink.batch(0), 0, ["a"])
        assert _timeout_of(broker.bootstrap_servers, report.transaction.transactional_id) == 60_000  # type: ignore[union-attr]
        ledger.close()


def test_a_decision_is_read_however_slow_an_old_coordinator_is() -> None:
    """Before Kafka 2.5 the offsets of a transaction can be read some time after its end was told."""
    with Broker(kafka_version="2.2") as broker:
        sink = Sink(broker.bootstrap_servers, "t")
        batch, older, newer = sink.batch(0), sink.ledger(), sink.ledger()
        report = sink.task(older, batch, 0, ["a"])
        assert report.transaction is not None
        decision = Decision(0, "first", 1, (Participant(0, report.transaction, 1),))
        older.take_over(sink.name, anew=False)
        broker.call(_be_slow)
        older.decide(sink.name, decision)
        older.close()
        assert newer.take_over(sink.name, anew=False) == decision
        newer.close()


def _be_slow(broker: Any) -> None:
    """Take over the offsets of one ended transaction each time that offsets were asked for."""
    coordinator = broker.groups.coordinator
    ended: deque[Callable[[], None]] = deque()
    end, fetch = coordinator.transaction_ended, coordinator.fetch_offsets

    def end_later(*arguments: Any, **keywords: Any) -> None:
        ended.append(partial(end, *arguments, **keywords))

    def fetch_first(*arguments: Any, **keywords: Any) -> None:
        fetch(*arguments, **keywords)
        if ended:
            ended.popleft()()

    coordinator.transaction_ended, coordinator.fetch_offsets = end_later, fetch_first


def _timeout_of(servers: str, transactional_id: str) -> int:
    from odradek.client.blocking import BlockingCluster
    from odradek.client.config import ProducerConfig, build
    from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest

    cluster = BlockingCluster(build(ProducerConfig, {"bootstrap_servers": servers}), allow_auto_create=False)
    connection = cluster.any_connection()
    connection.send(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
    state = connection.receive()[1].transaction_states[0]
    cluster.close()
    return int(state.transaction_timeout_ms)
