"""Read, process, write: whatever happens on the way, every record of the input is in the output once.

Two processors share one input partition and one group. Each reads the group's offset (stable ones only),
writes what it makes of the next records, commits the offset behind them in the same transaction, and ends it:
commits, aborts, or is not heard of again until it begins anew. In between the broker is stopped, or killed.
"""

from __future__ import annotations

import random
from pathlib import Path

from odradek.broker.app import Broker
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from seeds import each_seed
from waiting import until_async

from ..live import Client, connect, create_topic, running
from ..net import run
from ..transactional import Transactional, find_coordinator, state_of, values
from .test_transactional_offsets import ONE_IS_UNKNOWN, add_offsets, commit, fetch

SMALL = {"transaction_state_log_num_partitions": 1}
RECORDS = 60


class Processor:
    """One of them; it outlives brokers."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.chance = chance
        self.producer: Transactional | None = None

    async def meet(self, broker: Broker) -> Client:
        """A connection to a broker whose coordinators are at work."""
        client = await connect(broker)
        await client.call(FindCoordinatorRequest(key="g"), 0)
        await find_coordinator(client, self.name)
        await until_async(
            lambda: fetch(client),
            "the group's partition to be loaded",
            holds=lambda found: found[0] != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            every_s=0,
        )
        await until_async(
            lambda: state_of(client, self.name),
            "the transactions' partition to be loaded",
            holds=lambda found: found.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            every_s=0,
        )
        if self.producer is None:
            self.producer = Transactional(client, self.name)
        self.producer.client = client
        return client

    async def step(self) -> bool:
        """One transaction; says whether it was committed."""
        producer, chance = self.producer, self.chance
        assert producer is not None
        if producer.producer_id < 0 or chance.random() < 0.2:
            # It has come back, perhaps with a transaction still open.
            assert await producer.init() == ErrorCode.NONE
        error, offset = await fetch(producer.client)
        if error:
            # The other one has not ended yet: wait, as a consumer does.
            assert error == ErrorCode.UNSTABLE_OFFSET_COMMIT
            return False
        start = max(offset, 0)
        made = [b"made of %d" % number for number in range(start, min(start + chance.randint(1, 5), RECORDS))]
        if not made:
            return False
        joins = chance.random() < 0.5
        if not joins:
            assert await producer.add("t", 1) == ErrorCode.NONE
        assert await producer.send("t", made, 1, version=12 if joins else 9) == ErrorCode.NONE
        if chance.random() < 0.1:
            self.forget()
            return False
        if not joins:
            await add_offsets(producer)
        version = 5 if joins else chance.choice((0, 3, 4))
        assert await commit(producer, start + len(made), version) == ONE_IS_UNKNOWN
        if chance.random() < 0.2:
            self.forget()
            return False
        commits = chance.random() < 0.7
        assert await producer.end(commit=commits) == ErrorCode.NONE
        return commits

    def forget(self) -> None:
        """It dies."""
        assert self.producer is not None
        self.producer.producer_id = self.producer.epoch = -1


def kill(data: Path, chance: random.Random) -> None:
    """What kill -9 leaves: no word of a clean stop, older snapshots of producers or none."""
    (data / ".kafka_cleanshutdown").unlink()
    for path in sorted(data.glob("**/*.snapshot")):
        if chance.random() < 0.8:
            path.unlink()


@each_seed(4)
def test_each_record_is_processed_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)

    async def main() -> None:
        committed = restarts = offset = 0
        processors = [Processor(name, chance) for name in ("id", "other")]
        while offset < RECORDS:
            async with running(tmp_path, **SMALL) as broker:
                if broker.image.topic("t") is None:
                    await create_topic(broker, "t", 2)
                clients = [await one.meet(broker) for one in processors]
                for _ in range(chance.randint(1, 12)):
                    committed += await chance.choice(processors).step()
                _, offset = await fetch(clients[0])
                seen = await values(clients[0], "t", index=1)
                assert seen == [b"made of %d" % number for number in range(len(seen))]
                for client in clients:
                    client.close()
            restarts += 1
            if chance.random() < 0.5:
                kill(tmp_path, chance)
        async with running(tmp_path, **SMALL) as broker:
            clients = [await one.meet(broker) for one in processors]
            for one in processors:
                # What one of them has left open hides what lies behind it.
                assert one.producer is not None and await one.producer.init() == ErrorCode.NONE
            assert await fetch(clients[0]) == (0, RECORDS)
            assert await values(clients[0], "t", index=1) == [b"made of %d" % n for n in range(RECORDS)]
            for client in clients:
                client.close()
        assert committed > 15 and restarts > 2

    run(main)
