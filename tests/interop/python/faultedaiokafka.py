"""aiokafka while faults are set. Its `request_timeout_ms` is also the time in which a record is delivered."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any

import aiokafka
import faulted
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from faulted import BATCH_BYTES, CLIENT_ID, HEARTBEAT_MS, REQUEST_MS, SESSION_MS

BASE: dict[str, Any] = {"client_id": CLIENT_ID, "request_timeout_ms": REQUEST_MS}
LIMIT_S = 12
CLOSE_S = 2


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something there and wait for it."""

        async def limited() -> Any:
            try:
                async with asyncio.timeout(LIMIT_S) as limit:
                    return await work
            except TimeoutError:
                if limit.expired():
                    raise faulted.HungError from None
                raise

        return asyncio.run_coroutine_threadsafe(limited(), self.loop).result(2 * LIMIT_S)

    def close(self, work: Coroutine[Any, Any, None]) -> None:
        """Let the end of something take two seconds."""
        self.run(asyncio.wait([self.loop.create_task(work)], timeout=CLOSE_S))


LOOP = Loop()


class Producer:
    """A producer."""

    def __init__(self, **config: Any) -> None:
        async def start() -> aiokafka.AIOKafkaProducer:
            own = aiokafka.AIOKafkaProducer(**BASE, **config)
            try:
                await own.start()
            except BaseException:
                await own.stop()
                raise
            return own

        self.own = LOOP.run(start())

    def init(self) -> None:
        """The start has taken the id."""

    def begin(self) -> None:
        LOOP.run(self.own.begin_transaction())

    def commit(self) -> None:
        LOOP.run(self.own.commit_transaction())

    def send(self, topic: str, value: bytes) -> faulted.Wait:
        sent = LOOP.run(self.own.send(topic, value, partition=0))

        async def wait() -> None:
            await sent

        return lambda: LOOP.run(wait())

    def close(self) -> None:
        LOOP.close(self.own.stop())


class Consumer:
    """A member of a group."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        async def start() -> aiokafka.AIOKafkaConsumer:
            own = aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                **BASE,
            )
            try:
                await own.start()
            except BaseException:
                await own.stop()
                raise
            return own

        self.own = LOOP.run(start())
        self.at = aiokafka.TopicPartition(topic, 0)

    def poll(self) -> tuple[list[bytes], list[str]]:
        polled = LOOP.run(self.own.getmany(timeout_ms=100))
        return [record.value for records in polled.values() for record in records], []

    def commit(self) -> None:
        LOOP.run(self.own.commit())

    def committed(self) -> int:
        return LOOP.run(self.own.committed(self.at)) or 0

    def close(self) -> None:
        LOOP.close(self.own.stop())


class Library:
    """See `faulted.Library`."""

    consumer = Consumer
    name = staticmethod(faulted.class_name)

    def producer(self, bootstrap: str, *, idempotent: bool, transactional_id: str | None) -> Producer:
        return Producer(
            bootstrap_servers=bootstrap,
            enable_idempotence=idempotent,
            transactional_id=transactional_id,
            acks="all",
            max_batch_size=BATCH_BYTES,
        )

    def create(self, bootstrap: str, topic: str) -> None:
        async def create() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **BASE)
            try:
                await admin.start()
                answer = await admin.create_topics([NewTopic(topic, 1, 1)])
            finally:
                await admin.close()
            # It raises for none of the topics.
            for _, code, *_ in answer.topic_errors:
                if code:
                    raise aiokafka.errors.for_code(code)

        LOOP.run(create())


if __name__ == "__main__":
    logging.disable()
    faulted.main(Library())
