"""The control port of a broker that is a process of `odradek.testing.ProcessCluster`.

Faults are there before its first request: a file beside the tickets has them. The process that started it
hears of the port by a line of its output.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.broker.app import Broker as AppBroker
from odradek.testing.broker import Broker
from odradek.testing.control.control_server import ControlServer
from odradek.testing.control.routes import OF_A_PROCESS
from odradek.testing.faults.calls import Calls
from odradek.testing.faults.tickets import SharedTickets
from odradek.util.http_routes import Request

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.testing.faults.fault import Fault

CONTROL = "control "
"""What stands before the port's address in the line that says it."""


def tickets_of(folder: Path, number: int) -> SharedTickets:
    """Return the numbers of the requests that match a fault, drawn by all processes of a cluster.

    Args:
        folder: where its faults are.
        number: the fault's.
    """
    return SharedTickets(folder / f"fault-{number}")


def faults_file(folder: Path, broker_id: int) -> Path:
    """Return the file that has the faults with which a broker begins: a list of requests to the port."""
    return folder / f"broker-{broker_id}.json"


class ControlledProcess:
    """The broker of this process, and its control port."""

    def __init__(self, folder: Path) -> None:
        """
        Args:
            folder: where the cluster's faults are.
        """
        self._folder = folder

    def make(self, config: BrokerConfig, **more: Any) -> AppBroker:
        """Make the broker, with its faults, and open the port. In the broker's loop.

        Args:
            config, more: what `odradek.broker.app.Broker` is made with.
        """
        kit = Broker(kafka_version=config.odradek_kafka_version or None)
        control = ControlServer(kit, routes=OF_A_PROCESS, calls=self._calls)
        for method, target, document in json.loads(
            faults_file(self._folder, config.broker_id).read_text(encoding="utf-8")
        ):
            response = control.handle(Request(method, target, json.dumps(document).encode()))
            assert response.status == 200, response.content
        broker = kit.take_up(lambda **for_test: AppBroker(config, **more, **for_test))
        print(f"{CONTROL}{control.url}", flush=True)  # noqa: T201 - for the process that started this one
        return broker

    def _calls(self, number: int, fault: Fault) -> Calls:
        return Calls(fault, tickets_of(self._folder, number))
