"""Serializers and deserializers that have to ask somebody: clients do it for them, and no loop waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from odradek.client import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, ProducerInterceptor
from odradek.client.aio.lookups import Lookups, look_up
from odradek.client.errors import SerializationError
from odradek.client.serialization import LookupNeeded
from waiting import WITHIN_S, gathered, until_async

from .conftest import new_topic


class Dictionary:
    """Translates words by a dictionary that has to be asked for, topic by topic.

    Attributes:
        asked: the topics in the order in which they were asked for.
        gate: until it is open, an answer does not come.
        failures: so many of the next questions fail.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.failures = 0
        self._known: set[tuple[str, str]] = set()

    def for_field(self, field: str) -> Callable[[str, Any], Any]:
        return lambda topic, value: self._translate((topic, field), value)

    def _translate(self, key: tuple[str, str], value: Any) -> Any:
        if value == b"bad":
            raise ValueError("a bad word")
        if key not in self._known:
            raise LookupNeeded(lambda: self._ask(key))
        return value

    def _ask(self, key: tuple[str, str]) -> None:
        self.asked.append(key)
        assert self.gate.wait(WITHIN_S)
        if self.failures:
            self.failures -= 1
            raise OSError("nobody is there")
        self._known.add(key)


@pytest.fixture
def dictionary() -> Dictionary:
    return Dictionary()


def values(servers: str, topic: str) -> list[Any]:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        end = consumer.end_offsets([(topic, 0)])[(topic, 0)]
        return gathered(
            lambda: [record.value for record in consumer.poll(1_000)], end, f"the records of {topic}"
        )


def test_a_producer_looks_up_what_its_serializers_need(
    servers: str, admin: Admin, dictionary: Dictionary
) -> None:
    topic = new_topic(admin, 1)
    with Producer(
        bootstrap_servers=servers, key_serializer=dictionary, value_serializer=dictionary
    ) as producer:
        for number in range(3):
            producer.send(topic, b"%d" % number, key=b"k")
        producer.flush(WITHIN_S)
    assert dictionary.asked == [(topic, "key"), (topic, "value")]
    assert values(servers, topic) == [b"0", b"1", b"2"]


def test_a_producer_tells_what_cannot_be_looked_up(
    servers: str, admin: Admin, dictionary: Dictionary
) -> None:
    topic = new_topic(admin, 1)
    dictionary.failures = 1
    with Producer(bootstrap_servers=servers, value_serializer=dictionary) as producer:
        with pytest.raises(
            SerializationError, match=rf"the value for topic '{topic}' cannot be serialized: nobody is there"
        ):
            producer.send(topic, b"a")
        producer.send(topic, b"b").result(WITHIN_S)
    assert values(servers, topic) == [b"b"]


def test_records_keep_their_order_and_the_loop_goes_on(
    servers: str, admin: Admin, dictionary: Dictionary
) -> None:
    async def run() -> None:
        topic, other = new_topic(admin, 1), new_topic(admin, 1)
        seen: list[Any] = []

        class Interceptor:
            def on_send(self, record: Any) -> Any:
                seen.append(record.value)
                return record

        async with AsyncProducer(
            bootstrap_servers=servers, value_serializer=dictionary, interceptors=[Interceptor()]
        ) as producer:
            await producer.send_and_wait(other, b"x")
            dictionary.gate.clear()
            sends = [asyncio.ensure_future(producer.send(topic, b"%d" % number)) for number in range(5)]
            await until_async(lambda: (topic, "value") in dictionary.asked, "the question")
            # Another topic's are not held up, and the loop is not held at all.
            await producer.send_and_wait(other, b"y")
            dictionary.gate.set()
            await asyncio.gather(*sends)
        assert dictionary.asked == [(other, "value"), (topic, "value")]
        assert values(servers, topic) == [b"0", b"1", b"2", b"3", b"4"]
        assert sorted(seen) == [b"0", b"1", b"2", b"3", b"4", b"x", b"y"]

    asyncio.run(run())


def test_interceptors_hear_of_a_send_that_is_cancelled(
    servers: str, admin: Admin, dictionary: Dictionary
) -> None:
    told: list[Any] = []

    class Interceptor(ProducerInterceptor):
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any = ()) -> None:
            told.append((metadata, error, headers))

    async def run() -> None:
        topic = new_topic(admin, 1)
        async with AsyncProducer(
            bootstrap_servers=servers, value_serializer=dictionary, interceptors=[Interceptor()]
        ) as producer:
            dictionary.gate.clear()
            send = asyncio.ensure_future(producer.send(topic, b"x", headers={"a": b"b"}))
            await until_async(lambda: dictionary.asked, "the question")
            send.cancel()
            with pytest.raises(asyncio.CancelledError):
                await send
            dictionary.gate.set()
        [(metadata, error, headers)] = told
        assert metadata is None and isinstance(error, Exception) and headers == (("a", b"b"),)

    asyncio.run(run())


def test_those_that_wait_fail_with_one_question() -> None:
    async def run() -> None:
        lookups, dictionary = Lookups(), Dictionary()
        serialize = dictionary.for_field("value")
        dictionary.failures = 1
        dictionary.gate.clear()
        waiting = [
            asyncio.ensure_future(lookups.done("t", lambda number=number: serialize("t", number)))
            for number in range(3)
        ]
        await until_async(lambda: dictionary.asked, "the question")
        dictionary.gate.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, SerializationError) for result in results)
        assert len(dictionary.asked) == 1
        assert await lookups.done("t", lambda: serialize("t", 4)) == 4
        assert len(dictionary.asked) == 2

    asyncio.run(run())


def test_one_that_gives_up_leaves_the_others_their_turn() -> None:
    async def run() -> None:
        lookups, dictionary = Lookups(), Dictionary()
        serialize = dictionary.for_field("value")
        dictionary.gate.clear()
        first, second = (
            asyncio.ensure_future(lookups.done("t", lambda number=number: serialize("t", number)))
            for number in range(2)
        )
        await until_async(lambda: dictionary.asked, "the question")
        first.cancel()
        dictionary.gate.set()
        assert await second == 1
        assert first.cancelled()

    asyncio.run(run())


def test_an_answer_that_comes_too_late_is_no_harm() -> None:
    async def run() -> None:
        dictionary = Dictionary()
        dictionary.gate.clear()
        with pytest.raises(LookupNeeded) as needed:
            dictionary.for_field("value")("t", b"a")
        task = asyncio.ensure_future(look_up(needed.value))
        await until_async(lambda: dictionary.asked, "the question")
        task.cancel()
        dictionary.gate.set()
        await until_async(
            lambda: not any(thread.name == "odradek-lookup" for thread in threading.enumerate()),
            "the end of the thread",
        )
        assert task.cancelled()

    asyncio.run(run())


@pytest.fixture
def filled(servers: str, admin: Admin) -> str:
    topic = new_topic(admin, 1)
    with Producer(bootstrap_servers=servers) as producer:
        for word in (b"a", b"b", b"bad", b"c"):
            producer.send(topic, word, partition=0)
    return topic


def consuming(servers: str, dictionary: Dictionary) -> dict[str, Any]:
    return {
        "bootstrap_servers": servers,
        "auto_offset_reset": "earliest",
        "value_deserializer": dictionary,
    }


def test_a_consumer_looks_up_what_its_deserializers_need(
    servers: str, filled: str, dictionary: Dictionary
) -> None:
    dictionary.failures = 1
    told = rf"the value of {filled}-0 at offset 0 cannot be deserialized: nobody is there"
    with Consumer(**consuming(servers, dictionary)) as consumer:
        consumer.assign([(filled, 0)])
        with pytest.raises(SerializationError, match=told):
            consumer.poll(WITHIN_S * 1000)
        assert consumer.position((filled, 0)) == 0
        assert [record.value for record in consumer.poll(WITHIN_S * 1000)] == [b"a", b"b"]
        with pytest.raises(SerializationError, match="a bad word; seek past it"):
            consumer.poll(WITHIN_S * 1000)
        consumer.seek((filled, 0), 3)
        assert [record.value for record in consumer.poll(WITHIN_S * 1000)] == [b"c"]
    assert dictionary.asked == [(filled, "value")] * 2


def test_an_iteration_looks_up_too(servers: str, filled: str, dictionary: Dictionary) -> None:
    dictionary.failures = 1
    with Consumer(**consuming(servers, dictionary)) as consumer:
        consumer.assign([(filled, 0)])
        with pytest.raises(SerializationError, match=r"at offset 0 .*nobody is there"):
            next(iter(consumer))
        records = iter(consumer)
        assert [next(records).value, next(records).value] == [b"a", b"b"]
        with pytest.raises(SerializationError, match="a bad word"):
            next(records)
        consumer.seek((filled, 0), 3)
        assert next(iter(consumer)).value == b"c"


def test_the_loop_of_a_consumer_goes_on(servers: str, filled: str, dictionary: Dictionary) -> None:
    async def run() -> None:
        dictionary.gate.clear()
        dictionary.failures = 1
        async with AsyncConsumer(**consuming(servers, dictionary)) as consumer:
            await consumer.assign([(filled, 0)])
            polled = asyncio.ensure_future(consumer.poll(WITHIN_S * 1000))
            await until_async(lambda: dictionary.asked, "the question")
            assert await consumer.end_offsets([(filled, 0)]) == {(filled, 0): 4}
            dictionary.gate.set()
            with pytest.raises(SerializationError, match=r"at offset 0 .*nobody is there"):
                await polled
            assert [record.value for record in await consumer.poll(WITHIN_S * 1000)] == [b"a", b"b"]

    asyncio.run(run())


def test_the_loop_of_an_iteration_goes_on(servers: str, filled: str, dictionary: Dictionary) -> None:
    async def run() -> None:
        dictionary.gate.clear()
        async with AsyncConsumer(**consuming(servers, dictionary)) as consumer:
            await consumer.assign([(filled, 0)])
            records = aiter(consumer)
            first = asyncio.ensure_future(anext(records))
            await until_async(lambda: dictionary.asked, "the question")
            dictionary.gate.set()
            assert (await first).value == b"a"
            assert (await anext(records)).value == b"b"
            await records.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())
