"""What real clients said to real brokers, said to ours: every answer has to be the one they got.

The recordings are those whose requests are all of versions that are served here. Names that a broker makes
up are translated, times and addresses left out. What differs besides is listed here, with the reason.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from odradek.util.clock import ManualClock
from odradek.util.timers import ManualTimers
from odradek.wire.api import ApiKey

from .. import live
from ..net import run
from ..recorded import Replay, began_ms
from ..sweep import WIRE

TRANSCRIPTS = WIRE.parent / "transcripts"

ZOOKEEPER_CLUSTER, KRAFT_CLUSTER = "-AW0nsxlRLKfRxT8Z5cM9A", "AAAAAAAAQACAAAAAAAAAAQ"

CREATED_AT_ONCE = "a topic exists here when the answer goes out, there some moments later"
NEWER = "the recording's broker did not know this version"
NEW_PROTOCOL = "the group is one of the new protocol, which is not served here"
MORE_CONFIGS = "the broker has configs that came after the one that served as our model"
CUT_OFF_ELSEWHERE = "what is converted is cut off at the stored size, and gzip may pack otherwise here"
"""How zlib-ng packs depends on the processor's instructions."""
CONFIGS_OF_3_9 = "the recording's broker is a 3.9, and what is no release in particular has 4.3's configs"
LIKE_4 = "answered as Kafka 4 does"
MARKED_AT_ONCE = "the last transaction is complete here when the next begins, there some moments later"
"""Reasons."""

_NEXT_AT_ONCE = (
    r"AddPartitionsToTxn . of txn .*\.partition_error_code: 51 there, 0 here",
    MARKED_AT_ONCE,
)

_CONFIGS = (r"(CreateTopics|DescribeConfigs) \d of .*\.configs", CONFIGS_OF_3_9)

_OF_3_9 = [
    _CONFIGS,
    (r"ConsumerGroupDescribe 0 of .*error_(code: 35 there, 69 here|message: None there)", LIKE_4),
    (r"ListPartitionReassignments 0 of .*\.error_message: '' there, None here", LIKE_4),
]

EXPLAINED: dict[str, list[tuple[str, str]]] = {
    "0.8.2.2": [
        (r"Metadata 0 of console-producer \.topics\[0\]\.(error_code|partitions)", CREATED_AT_ONCE),
        (r"Fetch 0 of .* \.responses\[0\]\.partitions\[.\]\.records: \[\(0,.*\[\(0,", CUT_OFF_ELSEWHERE),
    ],
    "0.9.0.1": [(r"Metadata 0 of console-producer \.topics\[0\]\.(error_code|partitions)", CREATED_AT_ONCE)],
    "0.10.2.2": [(r"Metadata 2 of console-producer \.topics\[0\]\.(error_code|partitions)", CREATED_AT_ONCE)],
    "0.11.0.3": [
        (r"Metadata 4 of console-producer \.topics\[0\]\.(error_code|partitions)", CREATED_AT_ONCE),
        _NEXT_AT_ONCE,
    ],
    "1.0.0": [
        (r"Metadata 5 of console-producer \.topics\[0\]\.(error_code|partitions)", CREATED_AT_ONCE),
        (r"FindCoordinator 1 of golden-consumer \.(error_code|error_message|node_id): .*", CREATED_AT_ONCE),
        (r"FindCoordinator 1 of txn \.(error_code|error_message|node_id): .*", CREATED_AT_ONCE),
        _NEXT_AT_ONCE,
    ],
    "2.0.1": [_NEXT_AT_ONCE],
    "2.2.2": [_NEXT_AT_ONCE, _CONFIGS],
    "3.9.1": [_NEXT_AT_ONCE, *_OF_3_9],
    "4.4.0": [
        (r"ApiVersions 5 of .* \.error_code: 35 there, 0 here", NEWER),
        _NEXT_AT_ONCE,
        *_OF_3_9,
    ],
    "4.4.0-on-4.4.0": [
        (r"Metadata 13 of console-producer \.topics\[0\]\.(error_code|partitions)", CREATED_AT_ONCE),
        (r"FindCoordinator 6 of golden-consumer \.coordinators\[0\]\.(error_code|node_id)", CREATED_AT_ONCE),
        (r"FindCoordinator 6 of txn \.coordinators\[0\]\.(error_code|node_id)", CREATED_AT_ONCE),
        (r"EndTxn 5 of txn \.(error_code: 51 there, 0 here|producer_epoch)", MARKED_AT_ONCE),
        (r"(CreateTopics 7|DescribeConfigs 4) of adminclient-1 .*\.configs", MORE_CONFIGS),
        (r"(OffsetCommit 10|DeleteGroups 3) of .*error_code: 0 there, 69 here", NEW_PROTOCOL),
        (r"ConsumerGroupDescribe 1 of adminclient-\d+ \.groups\[0\]", NEW_PROTOCOL),
    ],
}


def cluster_of(name: str) -> str:
    return KRAFT_CLUSTER if name.endswith("-on-4.4.0") else ZOOKEEPER_CLUSTER


NAMES = ["0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.0.0", "2.0.1", "2.2.2", "3.9.1", "4.4.0"]


@pytest.mark.parametrize("name", [*NAMES, "4.4.0-on-4.4.0"])
def test_real_clients_get_the_answers_they_got(name: str, tmp_path: Path) -> None:
    explained = {re.compile(pattern): reason for pattern, reason in EXPLAINED.get(name, [])}
    used: set[Any] = set()

    async def main() -> None:
        data = tmp_path / "data"
        data.mkdir()
        (data / "meta.properties").write_text(
            f"version=0\nbroker.id=1\ncluster.id={cluster_of(name)}\n", encoding="utf-8"
        )
        transcript = TRANSCRIPTS / f"{name}.jsonl.gz"
        clock = ManualClock(int(began_ms(transcript)))
        timers = ManualTimers(clock)
        async with live.running(
            data,
            clock=clock,
            timers=timers,
            pauses=timers,
            broker_id=1,
            num_partitions=2,
            offsets_topic_num_partitions=3,
            transaction_state_log_num_partitions=3,
            group_initial_rebalance_delay_ms=0,
        ) as broker:
            assert broker.cluster_id == cluster_of(name)
            await broker.controller.event_queue.run(broker.groups.ensure_topic)
            await broker.controller.event_queue.run(broker.transactions.ensure_topic)
            timers.advance(0)
            replay = Replay(broker, timers)
            await replay.run(transcript)
        compared = 0
        unexplained: list[str] = []
        for exchange in replay.exchanges:
            if exchange.recorded is None:
                # The client had gone before it was answered.
                continue
            compared += 1
            for difference in replay.compare(exchange):
                text = (
                    f"{ApiKey(exchange.key).api_name} {exchange.version} of {exchange.client_id} {difference}"
                )
                reasons = [one for one in explained if one.match(text)]
                used.update(reasons)
                if not reasons:
                    unexplained.append(f"{exchange.at}: {text}")
        assert not unexplained, "\n".join(unexplained)
        assert compared > 80
        # What is explained has to be there, or the explanation is out of date.
        assert {one for one, reason in explained.items() if reason != CUT_OFF_ELSEWHERE} <= used

    run(main)
