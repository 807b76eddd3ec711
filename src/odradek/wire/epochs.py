"""The value on the wire where there is no epoch: of a leader, a producer, or a broker.

Kafka has a name for each: `RecordBatch.NO_PARTITION_LEADER_EPOCH` and `NO_PRODUCER_EPOCH`,
`AbstractControlRequest.UNKNOWN_BROKER_EPOCH`.
"""

from __future__ import annotations

from typing import Final

NO_EPOCH: Final = -1
