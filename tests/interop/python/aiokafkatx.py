"""aiokafka's transactions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from role import PARTITIONS, TRANSACTION_MS, Record, main


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something there and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


LOOP = Loop()


class Producer:
    """A transactional producer."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        async def start() -> AIOKafkaProducer:
            own = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=TRANSACTION_MS,
            )
            await own.start()
            return own

        self.own = LOOP.run(start())

    def begin(self) -> None:
        LOOP.run(self.own.begin_transaction())

    def send(self, topic: str, records: list[tuple[int, bytes | None, bytes]]) -> None:
        async def send() -> None:
            sent = [await self.own.send(topic, value, key, partition) for partition, key, value in records]
            await asyncio.gather(*sent)

        LOOP.run(send())

    def commit(self) -> None:
        LOOP.run(self.own.commit_transaction())

    def abort(self) -> None:
        LOOP.run(self.own.abort_transaction())

    def close(self) -> None:
        LOOP.run(self.own.stop())


class Consumer:
    """A reader of all partitions; its transactions name the group alone, so nothing would fence a member."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.group = group
        self.partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]

        async def start() -> AIOKafkaConsumer:
            own = AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            )
            await own.start()
            own.assign(self.partitions)
            return own

        self.own = LOOP.run(start())

    def poll(self) -> dict[int, list[Record]]:
        return {
            at.partition: [Record(one.partition, one.offset, one.key, one.value) for one in records]
            for at, records in LOOP.run(self.own.getmany(timeout_ms=100)).items()
        }

    def send_offsets(self, producer: Any, partition: int, offset: int) -> None:
        LOOP.run(producer.own.send_offsets_to_transaction({self.partitions[partition]: offset}, self.group))

    def rewind(self) -> None:
        async def rewind() -> None:
            for at in self.partitions:
                self.own.seek(at, await self.own.committed(at) or 0)

        LOOP.run(rewind())

    def close(self) -> None:
        LOOP.run(self.own.stop())


main(Producer, Consumer)
