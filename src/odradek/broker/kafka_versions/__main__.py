"""Print which APIs of which release are not there."""

import sys

from odradek.broker.apis.registry import SERVED
from odradek.broker.kafka_versions.report import table

sys.stdout.write(table({key: entry.versions for key, entry in SERVED.items()}) + "\n")
