"""What the Spark sink's exactly-once writes need of coordinators, on real Kafkas."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from interop import kafka_peer
from interop.releases import ends
from spark.ledger_scenarios import SCENARIOS, Sink, what_timed_out_is_written_again

pytestmark = pytest.mark.interop
pytest.importorskip("pyspark")

VERSIONS = ("2.2.2", "3.9.1", kafka_peer.NEWEST)
_numbers = itertools.count()


@pytest.fixture(scope="module", params=ends(VERSIONS))
def kafka(
    request: pytest.FixtureRequest, kafka_toolchain: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.RealKafka]:
    settings = {
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    with kafka_peer.RealKafka(request.param, directory, settings) as running:
        yield running


#: Where brokers cannot list transactions, those that nobody ends time out.
NEED_LISTS = (
    "what_dead_tasks_left_is_aborted",
    "an_attempt_that_lost_is_aborted",
    "an_attempt_that_lost_a_write_without_a_name_is_aborted",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(kafka: kafka_peer.RealKafka, scenario: str) -> None:
    if scenario in NEED_LISTS and kafka_peer.version_tuple(kafka.version) < (3,):
        pytest.skip(f"Kafka {kafka.version} lists no transactions")
    SCENARIOS[scenario](Sink(kafka.bootstrap_servers, f"t{next(_numbers)}"))


def test_what_timed_out_is_written_again(kafka: kafka_peer.RealKafka) -> None:
    options = {"kafka.transaction.timeout.ms": "1000"}
    what_timed_out_is_written_again(Sink(kafka.bootstrap_servers, f"t{next(_numbers)}", **options))
