"""bytewax passes on from `in` to `out`, in capitals, until SIGTERM; it keeps in its folder where it was.

PROGRAM BOOTSTRAP
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import bytewax.connectors.kafka.operators as kop
import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

brokers = sys.argv[1].split(",")
flow = Dataflow("capitals")
taken = kop.input("in", flow, brokers=brokers, topics=["in"], batch_size=50)
capitals = op.map("capitals", taken.oks, lambda record: KafkaSinkMessage(record.key, record.value.upper()))
kop.output("out", capitals, brokers=brokers, topic="out")
recovery = Path("recovery")
if not recovery.exists():
    recovery.mkdir()
    init_db_dir(recovery, 1)
cli_main(flow, epoch_interval=timedelta(milliseconds=200), recovery_config=RecoveryConfig(recovery))
