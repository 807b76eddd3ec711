"""ListOffsets 0: where segments begin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from odradek.errors.codes import ErrorCode
from odradek.util.clock import ManualClock
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from ..live import append, batch, connect, create_topic, running
from ..net import run

NOW_MS = 1_700_000_000_000


async def offsets(client: Any, timestamp: int, most: int, topic: str = "t", replica_id: int = -1) -> Any:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=most)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    [answer] = (await client.call(request, 0)).topics[0].partitions
    if answer.error_code:
        assert answer.old_style_offsets == []
        return ErrorCode(answer.error_code)
    return answer.old_style_offsets


@pytest.mark.parametrize("last_is_empty", [False, True])
def test_segments_before_a_time(last_is_empty: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, clock=ManualClock(NOW_MS)) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            log = broker.replicas.get("t", 0).log
            assert await offsets(client, -1, 10) == [0]
            for number in range(3):
                await append(client, "t", batch([b"a", b"b"], timestamp=NOW_MS))
                if number < 2 or last_is_empty:
                    log.roll(NOW_MS)
            for number, segment in enumerate(log.segments):
                at = (NOW_MS - 5000 + 1000 * number) / 1000
                os.utime(segment.path, (at, at))
            latest = [6, 4, 2, 0]
            assert await offsets(client, -1, 10) == latest
            assert await offsets(client, -1, 1) == [6]
            assert await offsets(client, -1, 3) == [6, 4, 2]
            assert await offsets(client, -1, 0) == []
            assert await offsets(client, -2, 10) == [0]
            assert await offsets(client, NOW_MS - 4000, 10) == [2, 0]
            assert await offsets(client, NOW_MS - 4001, 10) == [0]
            assert await offsets(client, NOW_MS - 5001, 10) == []
            assert await offsets(client, NOW_MS, 2) == [6, 4]
            assert await offsets(client, -3, 2) is ErrorCode.UNSUPPORTED_VERSION
            assert await offsets(client, -1, 2, topic="x") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            log.delete_records_before(3)
            assert await offsets(client, -1, 10) == [6, 4, 3, 3]
            client.close()

    run(main)


def test_consumers_see_no_more_than_is_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            await append(client, "t", batch([b"a", b"b"]))
            log = broker.replicas.get("t", 0).log
            log.high_watermark = 1
            assert await offsets(client, -1, 10) == [1, 0]
            assert await offsets(client, -1, 10, replica_id=-2) == [2, 0]
            log.high_watermark = 2
            client.close()

    run(main)
