"""Every public method of the asyncio clients, called by a task while another task is in any other."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from odradek.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from odradek.errors import OdradekError

from .entered_amid import BOUND_S, COMMON, CONSUMER, PRODUCER, TP, admin_methods, mute_server, public

Method = Callable[[Any], Any]

ENDS = {"close"}
UNNAMED = {"__aiter__", "__anext__", "__enter__", "__exit__"}


async def one_at_last(consumer: Any) -> Any:
    """`getone`, which has no end of its own."""
    try:
        async with asyncio.timeout(0.02):
            return await consumer.getone()
    except TimeoutError:
        return None


PRODUCER_CALLS: Mapping[str, Method] = {
    **{name: call for name, call in PRODUCER.items() if not name.startswith("__")},
    "start": lambda p: p.start(),
    "send_and_wait": lambda p: p.send_and_wait("t", b"x"),
}
CONSUMER_CALLS: Mapping[str, Method] = {
    **{name: call for name, call in CONSUMER.items() if not name.startswith("__") and name != "wakeup"},
    "start": lambda c: c.start(),
    "getone": one_at_last,
}
ADMIN_CALLS: Mapping[str, Method] = {
    **{name: call for name, call in admin_methods().items() if not name.startswith("__")},
    "config": lambda a: a.config,
}

METHODS: Mapping[type, Mapping[str, Method]] = {
    AsyncProducer: PRODUCER_CALLS,
    AsyncConsumer: CONSUMER_CALLS,
    AsyncAdmin: ADMIN_CALLS,
}


async def make(client: type) -> Any:
    if client is AsyncProducer:
        return AsyncProducer(
            **COMMON, transactional_id="x", max_block_ms=1, delivery_timeout_ms=2, linger_ms=0
        )
    if client is AsyncConsumer:
        consumer = AsyncConsumer(**COMMON, group_id="g", default_api_timeout_ms=1, enable_auto_commit=False)
        await consumer.assign([TP])
        return consumer
    return AsyncAdmin(**COMMON, default_api_timeout_ms=1)


async def call(method: Method, client: Any) -> Any:
    try:
        made = method(client)
        return await made if inspect.isawaitable(made) else made
    except OdradekError as problem:
        return problem


async def cells(client: type, outers: list[str], inners: list[str]) -> list[str]:
    methods = METHODS[client]
    made: Any = None
    wrong = []
    for outer in outers:
        for inner in inners:
            made = made or await make(client)
            what = f"{client.__name__}.{inner} amid {outer}"
            waiting = asyncio.create_task(call(methods[outer], made))
            await asyncio.sleep(0)  # it has begun
            try:
                async with asyncio.timeout(BOUND_S):
                    await call(methods[inner], made)
                    await waiting
            except TimeoutError:
                wrong.append(f"{what} did not end within {BOUND_S:.0f} s")
            except Exception as problem:
                wrong.append(f"{what}: not an error of ours: {problem!r}")
            if {outer, inner} & ENDS:
                made = None
    if made is not None:
        await made.close()
    return wrong


async def closed_amid(client: type, method: str) -> Any:
    """Return what comes of a call whose client is closed while it waits for a broker that says nothing."""
    with mute_server() as servers:
        patient = {**COMMON, "bootstrap_servers": servers, "request_timeout_ms": 600_000}
        made: Any
        if client is AsyncProducer:
            made = AsyncProducer(
                **patient,
                transactional_id="x",
                max_block_ms=600_000,
                delivery_timeout_ms=600_000,
                linger_ms=0,
            )
        elif client is AsyncConsumer:
            made = AsyncConsumer(
                **patient, group_id="g", default_api_timeout_ms=600_000, enable_auto_commit=False
            )
            await made.assign([TP])
        else:
            made = AsyncAdmin(**patient, default_api_timeout_ms=600_000)
        waiting = asyncio.create_task(call(METHODS[client][method], made))
        for _ in range(5):  # turns of the loop: it has asked for a connection
            await asyncio.sleep(0)
        async with asyncio.timeout(BOUND_S):
            await (made.close(0.001) if client is AsyncProducer else made.close())
            return (await asyncio.gather(waiting, return_exceptions=True))[0]


@pytest.mark.parametrize("client", METHODS, ids=lambda client: client.__name__)
def test_closed_while_nobody_answers(client: type) -> None:
    wrong = {}
    for method in sorted(set(METHODS[client]) - {"close"}):
        outcome = asyncio.run(closed_amid(client, method))
        if isinstance(outcome, BaseException) and not isinstance(outcome, OdradekError):
            wrong[method] = outcome
    assert wrong == {}


@pytest.mark.parametrize("client", METHODS, ids=lambda client: client.__name__)
def test_each_public_method_is_here(client: type) -> None:
    assert set(METHODS[client]) == public(client) - UNNAMED


@pytest.mark.parametrize("client", METHODS, ids=lambda client: client.__name__)
def test_each_amid_each(client: type) -> None:
    names = sorted(METHODS[client])
    pairs = [(names, names)]
    if client is AsyncAdmin:
        pairs = [(["list_topics"], names), (names, ["list_topics", "close"])]
    for outers, inners in pairs:
        assert asyncio.run(cells(client, outers, inners)) == []
