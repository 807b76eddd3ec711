"""Classes of unittest with a broker that is clean for each of their tests."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

from odradek import Producer
from odradek.testing import AsyncBrokerTestCase, BrokerTestCase
from waiting import WITHIN_S


class Orders(BrokerTestCase):
    broker_config = {"num_partitions": 3}
    ports: set[int] = set()

    def setUp(self) -> None:  # without super()
        self.producer = Producer(bootstrap_servers=self.broker.bootstrap_servers)
        self.addCleanup(self.producer.close)
        self.ports.add(self.broker.port)

    def test_one(self) -> None:
        self.send()

    def test_other(self) -> None:
        self.send()

    def send(self) -> None:
        self.assertEqual(self.broker.topics(), {})
        self.producer.send("orders", b"tea", partition=2).result(WITHIN_S)
        self.broker.assert_records("orders", [{"value": "tea", "offset": 0}])


class Tasks(AsyncBrokerTestCase):
    async def test_one(self) -> None:
        await self.send()

    async def test_other(self) -> None:
        await self.send()

    async def send(self) -> None:
        self.assertEqual(await self.broker.aio.topics(), {})
        await self.broker.aio.seed("orders", ["tea"])
        await self.broker.aio.assert_records("orders", ["tea"])


@unittest.skip("its broker is never made")
class Skipped(BrokerTestCase):
    def test_nothing(self) -> None:
        raise AssertionError


def run(*cases: Any) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.TestSuite(cases).run(result)
    return result


def test_the_class_is_clean_and_gone() -> None:
    Orders.ports.clear()
    result = run(Orders("test_one"), Orders("test_other"))
    assert (result.testsRun, result.failures, result.errors) == (2, [], [])
    assert len(Orders.ports) == 2
    assert Orders.broker.broker is None


def test_a_fault_that_was_not_met_is_told() -> None:
    class Unmet(BrokerTestCase):
        def test_it(self) -> None:
            self.broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER")

    ((_, text),) = run(Unmet("test_it")).failures
    assert "no request met this fault" in text


def test_unittest_runs_them(tmp_path: Path) -> None:
    program = tmp_path / "test_orders.py"
    program.write_text(
        """
from odradek.testing import BrokerTestCase

class Orders(BrokerTestCase):
    def test_it(self):
        self.broker.seed("orders", ["tea"])
        self.broker.assert_records("orders", ["tea"])
""",
        encoding="utf-8",
    )
    subprocess.run(
        [sys.executable, "-m", "unittest", "-v", "test_orders"], cwd=tmp_path, check=True, timeout=WITHIN_S
    )
