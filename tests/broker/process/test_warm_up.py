"""Imports between requests: all of them, one module at a time, and given up when the broker stops."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.broker.apis.registry import SERVED, Handlers
from odradek.broker.process import warm_up
from odradek.broker.process.warm_up import WarmUp

STEPS = """
import json, sys
import odradek.cli.server, odradek.broker.process.main
from odradek.broker.process.warm_up import WarmUp
from odradek.broker.apis.registry import SERVED, Handlers
steps = []
have = set(sys.modules)
for _ in WarmUp.all_steps(Handlers()):
    steps.append(sorted(name for name in sys.modules.keys() - have if name.startswith("odradek.")))
    have = set(sys.modules)
import odradek.coordinators.groups.coordinator as one
print(json.dumps({
    "steps": steps,
    "left": [one.module for one in SERVED.values() if f"odradek.broker.handlers.{one.module}" not in have],
    "file": one.__spec__.origin == one.__file__,
    "finders": [str(type(finder)) for finder in sys.meta_path],
}))
"""


@pytest.fixture(scope="module")
def steps() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, timeout=120, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_step_imports_next_to_nothing_of_ours(steps: dict[str, Any]) -> None:
    """At most a folder's `__init__` beside the one module, and its compiled part."""
    assert max(map(len, steps["steps"])) <= 3
    assert sum(map(len, steps["steps"])) > 100


def test_everything_is_imported_by_ordinary_means_in_the_end(steps: dict[str, Any]) -> None:
    assert steps["left"] == []
    assert steps["file"]
    assert not any("warm_up" in finder for finder in steps["finders"])


LATER = """
import sys, threading
import odradek.cli.server, odradek.broker.process.main
from odradek.broker.process.warm_up import WarmUp
from odradek.broker.apis.registry import Handlers
from odradek.testing import Broker
from odradek import Admin, Consumer, Producer
from odradek import NewTopic
with Broker(transaction_state_log_num_partitions=1, offsets_topic_num_partitions=1) as broker:
    def use(name):
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, 1, 1)])
            admin.describe_configs([("topic", name)])
        with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name) as producer:
            producer.init_transactions()
            with producer.begin_transaction():
                producer.send(name, b"x" * 1000)
        with Consumer(name, bootstrap_servers=broker.bootstrap_servers, group_id=name,
                      auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            while not consumer.poll(timeout_ms=1000):
                pass
            consumer.commit()
    for step in broker.call(lambda one: WarmUp.all_steps(one.handlers)) if "warm" in sys.argv else ():
        pass
    loop_thread = broker._thread.ident
    late = []
    class Watch:
        def find_spec(self, name, path, target=None):
            if threading.get_ident() == loop_thread:
                late.append(name)
    sys.meta_path.insert(0, Watch())
    use("a")
print("\\n".join(late))
"""


def test_nothing_is_imported_in_the_middle_of_a_request_afterwards() -> None:
    for how in ("warm", "cold"):
        done = subprocess.run(
            [sys.executable, "-c", LATER, how], capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        late = done.stdout.decode().split()
        assert ("odradek.broker.handlers.find_coordinator" in late) == (how == "cold")
        assert how == "cold" or late == []


def test_it_goes_on_by_itself_and_can_be_stopped() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        handlers = Handlers()
        one = WarmUp(loop, handlers)
        one.start()
        async with asyncio.timeout(60):
            while not one.done:
                await asyncio.sleep(0.001)
        assert handlers.loaded.keys() == SERVED.keys()
        one.stop()
        other = WarmUp(loop, Handlers())
        other.start()
        other.stop()
        other.stop()
        await asyncio.sleep(0.02)
        assert not other.done

    asyncio.run(main())


def test_what_cannot_be_imported_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def failing(name: str, seen: set[str]) -> Iterator[str]:
        tries.append(name)
        if name.endswith(".fetch") and tries.count(name) < 3:
            raise OSError(24, "Too many open files")
        yield name

    monkeypatch.setattr(warm_up, "import_in_steps", failing)
    monkeypatch.setattr(logging.getLogger("odradek"), "propagate", True)
    handlers = Handlers()
    steps = list(WarmUp.all_steps(handlers))
    assert steps.count(warm_up.RETRY) == 2
    assert tries[-2:] == ["odradek.broker.handlers.fetch"] * 2
    assert handlers.loaded.keys() == SERVED.keys()
    (line,) = [one for one in caplog.records if one.name == warm_up.logger.name]
    assert "module=odradek.broker.handlers.fetch" in line.getMessage()
