"""A control port that is asked, and a client that sends."""

from __future__ import annotations

import json
from typing import Any

from odradek import Producer
from odradek.testing import Broker, Cluster
from odradek.testing.control.control_server import ControlServer
from odradek.util.http_routes import Request
from waiting import WITHIN_S

FAIL = {"effect": "fail", "apis": ["Produce"], "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}


class Asked:
    """A control port that is asked without HTTP."""

    def __init__(self, kit: Broker | Cluster) -> None:
        self.kit = kit
        self.server = ControlServer(kit)

    def __call__(self, method: str, target: str, body: Any = None) -> Any:
        """Return the content of an answer; of a refusal (status, message, remedy)."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = self.server.handle(Request(method, target, data))
        status, content = answer.status, answer.content
        if status == 200:
            return content
        assert content["error_code"] == status
        return status, content["message"], content.get("remedy", "")


def send(broker: Broker | Cluster, **config: Any) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, **config) as producer:
        producer.send("orders", b"tea").result(WITHIN_S)
