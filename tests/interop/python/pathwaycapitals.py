"""pathway passes on from `in` to `out`, in capitals, until SIGTERM; it keeps in its folder where it was.

PROGRAM BOOTSTRAP
"""

from __future__ import annotations

import sys

import pathway as pw

OFTEN_MS = 200

brokers = {"bootstrap.servers": sys.argv[1]}
group = {**brokers, "group.id": "capitals", "auto.offset.reset": "earliest"}
taken = pw.io.kafka.read(group, topic="in", format="plaintext", autocommit_duration_ms=OFTEN_MS, name="in")
capitals = taken.select(value=pw.this.data.str.upper())
pw.io.kafka.write(capitals, brokers, topic_name="out", format="plaintext", value=capitals.value)
kept = pw.persistence.Config(pw.persistence.Backend.filesystem("kept"), snapshot_interval_ms=OFTEN_MS)
pw.run(persistence_config=kept, monitoring_level=pw.MonitoringLevel.NONE)
