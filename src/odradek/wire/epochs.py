"""What stands on the wire for an epoch where there is none: of a leader, a producer, or a broker.

Kafka has a name for each: `RecordBatch.NO_PARTITION_LEADER_EPOCH` and `NO_PRODUCER_EPOCH`,
`AbstractControlRequest.UNKNOWN_BROKER_EPOCH`.
"""

from __future__ import annotations

from typing import Final

NO_EPOCH: Final = -1
