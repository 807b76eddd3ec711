"""Statistics as JSON, from time to time: librdkafka's `stats_cb` and `statistics.interval.ms`.

The fields are librdkafka's (its STATISTICS.md); those that have no counterpart here are left out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.client.types import TopicPartition

if TYPE_CHECKING:
    from odradek.client.aio.cluster import Cluster

logger = logging.getLogger("odradek.client")

Fields = dict[str, Any]


class Statistics:
    """The statistics of one client, given to its callback in the client's loop.

    Args:
        kind: 'producer' or 'consumer'.
        cluster: the client's.
        callback: gets the JSON; None: there are none.
        interval_ms: between two of them; 0: there are none.
        own: the fields of this kind of client, and what each of its partitions has.
    """

    def __init__(
        self,
        kind: str,
        cluster: Cluster,
        callback: Callable[[str], object] | None,
        interval_ms: int,
        own: Callable[[], tuple[Fields, dict[TopicPartition, Fields]]],
    ) -> None:
        self._kind = kind
        self._cluster = cluster
        self._callback = callback
        self._interval_s = interval_ms / 1000
        self._own = own
        self._began = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        if callback is not None and interval_ms > 0:
            self._later()

    def _later(self) -> None:
        self._timer = self._cluster.loop.call_later(self._interval_s, self._due)

    def stop(self) -> None:
        """Give no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        if self._callback is None or self._cluster.closed:
            return
        # First, as the callback may close the client.
        self._later()
        try:
            self._callback(json.dumps(self.fields()))
        except Exception:
            logger.exception("stats_cb raised")

    def fields(self) -> Fields:
        """Return what there is now."""
        cluster = self._cluster
        traffic = cluster.traffic()
        client_id = cluster.config.client_id
        now = time.monotonic()
        own, partitions = self._own()
        return {
            "name": client_id,
            "client_id": client_id,
            "type": self._kind,
            "ts": int(now * 1_000_000),
            "time": int(time.time()),
            "age": int((now - self._began) * 1_000_000),
            "tx": traffic.requests,
            "txbytes": traffic.bytes_out,
            "rx": traffic.responses,
            "rxbytes": traffic.bytes_in,
            "metadata_cache_cnt": len(cluster.metadata.topics),
            **own,
            "brokers": self._brokers(),
            "topics": self._topics(partitions),
        }

    def _brokers(self) -> Fields:
        return {
            f"{node.host}:{node.port}/{node.id}": {
                "name": f"{node.host}:{node.port}/{node.id}",
                "nodeid": node.id,
                "nodename": f"{node.host}:{node.port}",
                "source": "learned",
                "state": "DOWN" if (waiting := self._cluster.waiting_for(node.id)) is None else "UP",
                "waitresp_cnt": waiting or 0,
            }
            for node in self._cluster.metadata.brokers.values()
        }

    def _topics(self, partitions: dict[TopicPartition, Fields]) -> Fields:
        topics: Fields = {}
        for tp, more in sorted(partitions.items()):
            topic = topics.setdefault(tp.topic, {"topic": tp.topic, "partitions": {}})
            leader = self._cluster.metadata.leader(tp)
            topic["partitions"][str(tp.partition)] = {
                "partition": tp.partition,
                "leader": -1 if leader is None else leader,
                **more,
            }
        return topics
