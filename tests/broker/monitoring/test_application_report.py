"""`GET /applications` of a live broker: who is there, what it writes and reads, what it was told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from odradek.broker.app import Broker
from odradek.errors.codes import ErrorCode
from odradek.testing.clock.manual_clock import ManualClock
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from ..live import PATIENCE_S, append, batch, connect, create_topic, fetch, running
from ..net import run, settle

SOFTWARE = ApiVersionsRequest(client_software_name="odd-client", client_software_version="1.2")


async def _report(broker: Broker) -> dict[str, Any]:
    assert broker.monitoring is not None

    def read() -> bytes:
        assert broker.monitoring is not None
        with urlopen(broker.monitoring.url + "/applications", timeout=PATIENCE_S) as response:
            body: bytes = response.read()
            return body

    report: dict[str, Any] = json.loads(await asyncio.to_thread(read))
    return report


def _by_client_id(report: dict[str, Any]) -> dict[str, Any]:
    return {application["client_id"]: application for application in report["applications"]}


def test_who_produces_and_consumes_what(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running(tmp_path, odradek_metrics_port=0, clock=clock) as broker:
            await create_topic(broker, "orders")
            began_ms = clock.now_ms()
            producer, consumer = await connect(broker), await connect(broker)
            await producer.call(SOFTWARE, 3, "shop")
            # Who has but introduced itself is no application yet.
            assert (await _report(broker))["applications"] == []
            records = batch([b"a", b"b", b"c"], timestamp=began_ms)
            await producer.call(fetch("orders"), 4, "shop")
            clock.advance(seconds=1)
            for _ in range(2):
                await append(producer, "orders", records)  # by the client id "test"
            refused = await append(producer, "nothing", records)
            assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

            for offset in (0, 3):
                await consumer.call(fetch("orders", offset), 4, "till")
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
            topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
            commit = OffsetCommitRequest(group_id="billing", topics=[topic])
            await consumer.call(commit, 8, "till")

            report = await _report(broker)
            assert (report["broker_id"], report["now_ms"]) == (broker.broker_id, clock.now_ms())
            assert report["left_out"]["forgotten"] == 0
            known = _by_client_id(report)
            assert set(known) == {"shop", "test", "till"}
            test = known["test"]
            assert (test["software_name"], test["software_version"]) == ("odd-client", "1.2")
            assert (test["principal"], test["host"]) == ("User:ANONYMOUS", "127.0.0.1")
            assert (test["connections"], test["requests"], test["is_broker"]) == (1, 3, False)
            assert test["first_seen_ms"] == test["last_seen_ms"] == began_ms + 1000
            assert test["produced"] == [
                {
                    "topic": "orders",
                    "records": 6,
                    "bytes": 2 * len(records),
                    "records_per_s": 6,
                    "bytes_per_s": 2 * len(records),
                    "last_ms": began_ms + 1000,
                }
            ]
            assert test["consumed"] == []
            assert test["errors"] == [
                {"request": "Produce", "error": "UNKNOWN_TOPIC_OR_PARTITION", "count": 1}
            ]
            # The connection has another name now.
            assert (known["shop"]["connections"], known["shop"]["errors"]) == (0, [])

            till = known["till"]
            assert (till["software_name"], till["software_version"]) == (None, None)
            (consumed,) = till["consumed"]
            assert (consumed["topic"], consumed["groups"], consumed["records"]) == ("orders", ["billing"], 3)
            assert consumed["bytes"] > len(records)
            assert till["groups"] == [{"group": "billing", "topics": ["orders"]}]

            clock.advance(minutes=2)
            consumer.close()
            producer.close()
            await settle(lambda: all(not known.connections for known in broker.metrics.applications))
            known = _by_client_id(await _report(broker))
            assert {known[name]["connections"] for name in known} == {0}
            assert known["test"]["produced"][0]["records_per_s"] == 0
            assert known["test"]["last_seen_ms"] == began_ms + 1000

    run(scenario)
