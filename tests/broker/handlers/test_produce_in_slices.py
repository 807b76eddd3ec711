"""A produce of many partitions, appended in slices, is answered as one of few would be."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.app import Broker
from odradek.broker.event_loop.slices import Slicer
from odradek.broker.handlers import produce as produce_handler
from odradek.broker.network.dispatch import Dispatcher
from odradek.records.compression import Codec
from odradek.wire.headers import encode_request
from odradek.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from seeds import each_seed
from waiting import until_async

from ..dispatching import Later, dispatch, plain
from ..live import batch, create_topic, running
from ..net import run

PARTITIONS = 4
WAYS: dict[str, tuple[int, Callable[[], Callable[[], float]]]] = {
    "at-once": (64, lambda: lambda: 0.0),
    "in-steps": (0, lambda: lambda: 0.0),
    # Every look at the clock ends a slice.
    "in-slices": (0, lambda: itertools.count().__next__),
}
"""By the name of the topic: so many partitions go without a pause, and what makes the slicer's clock."""


def records(chance: random.Random) -> Any:
    """What a producer sends, the malformed among it."""
    codec = chance.choice((Codec.NONE, Codec.GZIP, Codec.ZSTD))
    data = batch([chance.randbytes(30)] * chance.randint(1, 3), codec=codec)
    odd = (
        None,
        b"",
        data[:-1],
        data[:-1] + bytes([data[-1] ^ 1]),
        data + data,
        data[:16] + b"\x01" + data[17:],
    )
    return chance.choice(odd) if chance.random() < 0.3 else data


def contents(broker: Broker, topic: str) -> list[bytes]:
    logs = [broker.replicas.get(topic, index).log for index in range(PARTITIONS)]
    return [
        bytes(log.read(0, 2**20, upper_bound=log.log_end_offset, min_one_batch=True).records) for log in logs
    ]


@each_seed(4)
def test_slices_append_and_answer_what_is_appended_at_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        async with running(tmp_path) as broker:
            for topic in WAYS:
                await create_topic(broker, topic, PARTITIONS)
            refused = 0
            for _ in range(60):
                # The last one is not there; one may be named twice.
                wanted = [
                    (chance.randrange(PARTITIONS + 1), records(chance)) for _ in range(chance.randint(1, 4))
                ]
                version, acks = chance.randrange(3, 13), chance.choice((-1, 0, 1))
                answers = {}
                for topic, (at_once, clock_of) in WAYS.items():
                    monkeypatch.setattr(produce_handler, "AT_ONCE", at_once)
                    broker.slicer = Slicer(clock_of())
                    partitions = [PartitionProduceData(index=index, records=data) for index, data in wanted]
                    message = ProduceRequest(
                        acks=acks,
                        timeout_ms=1000,
                        topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
                    )
                    frame = b"".join(encode_request(0, version, 1, "x", message))[4:]
                    later = Later()
                    answer = dispatch(Dispatcher(broker, broker.handlers, broker.slicer), frame, later)
                    if answer is None:
                        await until_async(
                            lambda later=later: later.answer is not None, "the answer", every_s=0
                        )
                        answer = later.answer
                    answers[topic] = plain(answer)
                    if acks:
                        response, _ = ProduceResponse.decode_from(
                            answers[topic], version, 8 if version < 9 else 9
                        )
                        (responses,) = response.responses
                        refused += any(one.error_code for one in responses.partition_responses)
                        for one in responses.partition_responses:
                            # Where a partition is not there the words name it.
                            one.error_message = (one.error_message or "").replace(topic, "")
                        answers[topic] = responses.partition_responses
                assert answers["in-steps"] == answers["in-slices"] == answers["at-once"]
            assert contents(broker, "in-steps") == contents(broker, "in-slices")
            assert contents(broker, "in-steps") == contents(broker, "at-once")
            assert all(contents(broker, "at-once"))
            assert refused > 10, refused

    run(main)
