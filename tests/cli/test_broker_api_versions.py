"""`broker-api-versions` beside what Kafka's tool printed of a real 2.2."""

from __future__ import annotations

import re
from pathlib import Path

from cli.conftest import RunTool
from odradek.broker.registry import SERVED
from odradek.testing import Broker

GOLDEN = Path(__file__).parents[1] / "golden" / "broker-api-versions-2.2.txt"


def test_a_broker_that_is_2_2(run: RunTool) -> None:
    with Broker(kafka_version="2.2") as broker:
        printed = run("broker-api-versions", "--bootstrap-server", broker.bootstrap_servers).stdout
        first = f"{broker.bootstrap_servers} (id: 0 rack: null isFenced: false) -> ("
    lines = [line.removesuffix(",") for line in printed.splitlines()]
    assert lines[0] == first
    assert lines[-1] == ")"
    shown = set(lines)
    for line in GOLDEN.read_text().splitlines()[1:-1]:
        wanted = line.removesuffix(",").replace("ElectPreferredLeaders", "ElectLeaders")
        key = int(re.findall(r"\((\d+)\)", line)[0])
        name = wanted.split(":")[0]
        assert (wanted if key in SERVED else f"{name}: UNSUPPORTED") in shown
    # What 2.2 did not have, it does not list.
    assert "\tIncrementalAlterConfigs(44): UNSUPPORTED" in shown
