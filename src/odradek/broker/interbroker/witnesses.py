"""Others are asked before a broker that refuses this one counts as dead: can they reach it?

A refusal is the sign of a process that is gone, and of a packet filter that stands between two brokers alone.
Where the other's own connections to this one are gone as well (`presence`), both are still possible: the two
may refuse each other. Somebody else sees the difference. Up to `MOST` of the other live brokers are asked, by
a DescribeCluster request whose client id, `broker-N-asks-about-M`, says about whom; each tries to connect to
that one, and describes a cluster of that broker alone if it was answered, else of none. A Kafka broker
describes the whole cluster as it knows it, which tells nothing here, and is taken for nobody's word.

One that was reached by somebody lives. Where nobody has reached it, or nobody is there to be asked, or those
who are have not answered within `PATIENCE_MS`, the refusal alone counts, as safety does not rest on it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.broker.requests.between_brokers import client_id_of, purpose_of
from odradek.util.futures import error_of
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest

if TYPE_CHECKING:
    from odradek.broker.interbroker.channel import EndpointOf, InterBrokerTransport
    from odradek.cluster.nodes import Endpoint

MOST = 2
"""Brokers that are asked about one."""

PATIENCE_MS = 1_000
"""How long those may take who are asked. Those that live answer at once, as does the port of a dead one."""

TRY_MS = 800
"""How long they try."""

_ASKED = re.compile(r"asks-about-([0-9]{1,10})")


def asked_about(client_id: str) -> int | None:
    """The broker about which another one asks by this client id; None for anybody else's."""
    purpose = purpose_of(client_id)
    match = None if purpose is None else _ASKED.fullmatch(purpose[1])
    return None if match is None else int(match[1])


class Witnesses:
    """Asks other brokers about one, and answers those that ask. Used in the event loop's thread.

    Args:
        transport: makes the channels.
        broker_id: this broker.
        live: the brokers that are there, as far as is known.
        endpoint: where one of them is reached.
    """

    def __init__(
        self,
        transport: InterBrokerTransport,
        broker_id: int,
        live: Callable[[], Collection[int]],
        endpoint: Callable[[int], Endpoint | None],
    ) -> None:
        self._transport = transport
        self._broker_id = broker_id
        self._live = live
        self._endpoint = endpoint
        self._asking: dict[int, _Question] = {}

    def ask(self, about: int, then: Callable[[bool], object]) -> None:
        """Ask others about a broker. Those that are being asked about it already are not asked again.

        Args:
            about: the broker.
            then: told whether somebody reaches it; at once where there is nobody to be asked.
        """
        if about in self._asking:
            self._asking[about].thens.append(then)
            return
        others = sorted(set(self._live()) - {about, self._broker_id})[:MOST]
        if not others:
            then(False)
            return
        question = self._asking[about] = _Question(about, self._answered)
        question.thens.append(then)
        client_id = client_id_of(self._broker_id, f"asks-about-{about}")
        for other in others:
            question.put(self._transport, other, partial(self._endpoint, other), client_id)

    def _answered(self, about: int, lives: bool) -> None:
        for then in self._asking.pop(about).thens:
            then(lives)

    def reach(self, broker_id: int) -> asyncio.Future[bool]:
        """Try to reach a broker; a future of whether it has answered."""
        return asyncio.get_running_loop().create_task(self._reach(broker_id))

    async def _reach(self, broker_id: int) -> bool:
        if broker_id == self._broker_id:
            return True
        endpoint = partial(self._endpoint, broker_id)
        channel = self._transport.channel(broker_id, endpoint, f"broker-{self._broker_id}-witness", TRY_MS)
        try:
            await channel.send(ApiVersionsRequest(), 0)
        except Exception:
            # Whatever it is: it is no answer.
            return False
        finally:
            channel.close()
        return True

    def close(self) -> None:
        """Nobody is told anything any more."""
        questions, self._asking = self._asking, {}
        for question in questions.values():
            question.end()


class _Question:
    """A question that some brokers are asked about one; `thens` wait for the answer."""

    def __init__(self, about: int, then: Callable[[int, bool], object]) -> None:
        self.thens: list[Callable[[bool], object]] = []
        self._about = about
        self._then = then
        self._channels: list[Any] = []
        self._open = 0
        self._ended = False

    def put(self, transport: InterBrokerTransport, other: int, endpoint: EndpointOf, client_id: str) -> None:
        channel = transport.channel(other, endpoint, client_id, PATIENCE_MS)
        self._channels.append(channel)
        self._open += 1
        channel.send(DescribeClusterRequest(), 0).add_done_callback(self._told)

    def _told(self, answer: asyncio.Future[Any]) -> None:
        self._open -= 1
        lives = error_of(answer) is None and [broker.broker_id for broker in answer.result().brokers] == [
            self._about
        ]
        if not self._ended and (lives or not self._open):
            self.end()
            self._then(self._about, lives)

    def end(self) -> None:
        self._ended = True
        for channel in self._channels:
            channel.close()
