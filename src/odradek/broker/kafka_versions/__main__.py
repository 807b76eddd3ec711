"""Print which APIs of which release are not there."""

import sys

from odradek.broker.kafka_versions.report import table
from odradek.broker.registry import SERVED

sys.stdout.write(table({key: entry.versions for key, entry in SERVED.items()}) + "\n")
