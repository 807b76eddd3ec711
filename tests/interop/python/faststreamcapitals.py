"""FastStream passes on from `in` to `out`, in capitals, until SIGTERM.

PROGRAM CLIENT BOOTSTRAP      CLIENT is `kafka`, which is aiokafka, or `confluent`
"""

from __future__ import annotations

import asyncio
import importlib
import sys

from faststream import AckPolicy, FastStream

client, bootstrap = sys.argv[1:]
# By itself it trusts the leader alone, whose last records go with it when it is killed.
broker = importlib.import_module(f"faststream.{client}").KafkaBroker(bootstrap.split(","), acks="all")


# What could not be passed on is read again.
@broker.subscriber(
    "in", group_id="capitals", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR
)
@broker.publisher("out")
async def capitals(value: str) -> str:
    """Return what is sent to `out`."""
    return value.upper()


asyncio.run(FastStream(broker).run())
