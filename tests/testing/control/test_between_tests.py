"""The control port lets time pass, and cleans up between two tests."""

from __future__ import annotations

import pytest

from odradek.testing import Broker, Cluster, ManualClock
from odradek.testing.ports import lasting_port

from .asked import FAIL, Asked, send

HOUR_MS = 3_600_000


def test_time_passes_when_it_is_told_to() -> None:
    with Broker(clock=ManualClock()) as broker:
        port = Asked(broker)
        port("POST", "/topics", {"name": "orders", "configs": {"retention.ms": f"{HOUR_MS}"}})
        port("POST", "/seed", {"topic": "orders", "records": ["tea"]})
        before = port("GET", "/")["clock_ms"]
        assert port("POST", "/clock/advance", {"minutes": 55}) == {"now_ms": before + 55 * 60_000}
        assert port("GET", "/topics")["orders"]["partitions"][0]["start"] == 0
        assert port("POST", "/clock/advance", {"minutes": 9.5, "seconds": 30}) == {
            "now_ms": before + 65 * 60_000
        }
        assert port("GET", "/topics")["orders"]["partitions"][0]["start"] == 1
        for days in (-1, 1e300):
            status, _, remedy = port("POST", "/clock/advance", {"days": days})
            assert (status, remedy) == (400, "it is 0 to 36500")
        # A broker that is paused is let alone by it.
        port("POST", "/pause")
        assert port("POST", "/clock/advance", {"hours": 1}) == {"now_ms": before + 125 * 60_000}
        port("POST", "/resume")
        port.server.close()


def test_a_clock_has_to_be_asked_for(odradek_broker: Broker) -> None:
    port = Asked(odradek_broker)
    assert port("GET", "/")["clock_ms"] is None
    assert port("POST", "/clock/advance", {"hours": 1}) == (
        409,
        "its time is the machine's",
        "odradek mock --clock has one that waits for this",
    )
    port.server.close()


def test_the_seed_of_what_is_not_ready() -> None:
    with Broker(unready=True, seed=7) as broker:
        port = Asked(broker)
        assert port("GET", "/")["unready_seed"] == 7
        port.server.close()


def test_what_a_test_has_made_is_taken_away() -> None:
    address_port = lasting_port()
    with Broker(port=address_port) as broker:
        port = Asked(broker)
        port("POST", "/seed", {"topic": "articles", "records": ["tea"]})
        assert port("POST", "/keep") == {}
        port("POST", "/requests")
        port("POST", "/seed", {"topic": "orders", "records": ["milk"]})
        port("POST", "/faults", FAIL)
        send(broker)
        port("POST", "/pause")
        assert port("POST", "/clean_up") == {"bootstrap_servers": f"127.0.0.1:{address_port}"}
        assert set(port("GET", "/topics")) == {"articles"}
        assert port("GET", "/records?topic=articles")["matched"] == 1
        assert port("GET", "/faults") == []
        assert "requests" not in port("GET", "/requests")
        port("POST", "/kill")
        assert port("POST", "/keep")[0] == 409
        assert port("POST", "/clean_up")["bootstrap_servers"] == broker.bootstrap_servers
        port.server.close()


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_clean_up_tells_of_a_fault_that_was_not_met(brokers: int) -> None:
    with Broker() if brokers == 1 else Cluster(brokers) as kit:
        port = Asked(kit)
        port("POST", "/topics", {"name": "orders"})
        port("POST", "/faults", FAIL)
        status, message, remedy = port("POST", "/clean_up")
        assert (status, message) == (
            409,
            "no request met this fault: fail with NOT_LEADER_OR_FOLLOWER: Produce times=2",
        )
        assert "may_be_unmet" in remedy
        # All is clean nevertheless.
        assert (port("GET", "/topics"), port("GET", "/faults")) == ({}, [])
        assert port("POST", "/clean_up") == {"bootstrap_servers": kit.bootstrap_servers}
        port.server.close()
