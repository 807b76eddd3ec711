"""`broker-api-versions` beside the whole of what Kafka's tool printed of a real 2.2."""

from __future__ import annotations

from pathlib import Path

from cli.conftest import RunTool
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
    wanted = [line.removesuffix(",") for line in GOLDEN.read_text(encoding="utf-8").splitlines()[1:-1]]
    assert len(wanted) == 44
    for line in wanted:
        assert line.replace("ElectPreferredLeaders", "ElectLeaders") in shown
    # What 2.2 did not have, it does not list.
    assert "\tIncrementalAlterConfigs(44): UNSUPPORTED" in shown
