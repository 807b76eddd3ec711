"""The matrix: ours answers each case as Kafka 3.9.1 did, under the same ACLs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from odradek.broker.app import Broker as AppBroker
from odradek.broker.authorizer.requirements import REQUIREMENTS
from odradek.broker.requests.action import Action
from odradek.broker.requests.authorization import (
    Operation,
    ResourceType,
)
from odradek.broker.requests.authorizer import AuthorizableRequestContext
from odradek.testing import Broker
from odradek.wire.api import ApiKey
from waiting import until

from .acl_matrix import cases
from .acl_matrix_side import Connection, Side
from .acl_matrix_users import ADMIN

GOLDEN = Path(__file__).parents[2] / "golden" / "authorization" / "matrix-3.9.1.jsonl.gz"


def recorded() -> dict[str, Any]:
    """What Kafka answered, by the label of the case."""
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        return dict(json.loads(line) for line in lines)


def write_golden(answers: dict[str, Any]) -> None:
    """Record what Kafka answers."""
    text = "".join(json.dumps(item) + "\n" for item in answers.items())
    GOLDEN.write_bytes(gzip.compress(text.encode(), mtime=0))


def _as_user(broker: Broker, user: str, host: str) -> Connection:
    """A connection of somebody who has logged in."""
    connection = Connection(broker.port, host)

    def log_in(inside: AppBroker) -> bool:
        for listener in inside.listeners:
            for one in listener.connections:
                if (one.peer.host, one.peer.port) == connection.name:
                    one.peer.principal = f"User:{user}"
                    return True
        return False

    until(lambda: broker.call(log_in), f"the broker to accept the connection of {user}", every_s=0)
    return connection


class Recording:
    """An authorizer that keeps what it is asked about: the API, the operation, the type of the resource."""

    def __init__(self, authorizer: Any) -> None:
        self._authorizer = authorizer
        self.asked: set[tuple[int, Operation, ResourceType]] = set()

    def authorize(self, context: AuthorizableRequestContext, action: Action) -> bool:
        if action.log_if_allowed:
            self.asked.add((context.api_key, action.operation, action.resource.type))
        allowed: bool = self._authorizer.authorize(context, action)
        return allowed

    def grants_of(self, *asked: object) -> None:
        return None

    def authorize_by_type(
        self, context: AuthorizableRequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        self.asked.add((context.api_key, operation, resource_type))
        allowed: bool = self._authorizer.authorize_by_type(context, operation, resource_type)
        return allowed


def _record(broker: AppBroker) -> Recording:
    broker.authorizer = recording = Recording(broker.authorizer)
    return recording


@contextmanager
def asked_of_ours(**config: Any) -> Iterator[tuple[Side, Recording]]:
    """Our broker, with all that the matrix needs, and what its authorizer is asked."""
    config |= {
        "broker_id": 1,
        "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
        "super_users": "User:admin",
        "offsets_topic_num_partitions": 1,
        "transaction_state_log_num_partitions": 1,
        "log_retention_ms": -1,  # its records are years old
    }
    with Broker(**config) as broker:
        side = Side(lambda user, host: _as_user(broker, user, host), _as_user(broker, ADMIN, "127.0.0.1"))
        with closing(side):
            side.prepare()
            yield side, broker.call(_record)


_ELSEWHERE = {
    (ApiKey.INIT_PRODUCER_ID, Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID),
    (ApiKey.ADD_PARTITIONS_TO_TXN, Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    (ApiKey.DESCRIBE_TRANSACTIONS, Operation.DESCRIBE, ResourceType.TOPIC),
}
"""What a Kafka 3.9 with ZooKeeper is not asked, or the matrix has no case for."""


def test_ours_answers_as_kafka_did() -> None:
    with asked_of_ours(kafka_version="3.9") as (side, recording):
        answers = {case.label: side.ask(case) for case in cases()}
    expected = recorded()
    assert answers.keys() == expected.keys()
    wrong = {
        label: {"kafka": expected[label], "ours": answer}
        for label, answer in answers.items()
        if answer != expected[label]
    }
    assert not wrong, f"{len(wrong)} of {len(answers)}:\n" + "\n".join(
        f"{label}\n   kafka {both['kafka']}\n   ours  {both['ours']}" for label, both in wrong.items()
    )
    table = {
        (int(key), need.operation, need.resource_type)
        for key, needs in REQUIREMENTS.items()
        if any(case.asked.api == key for case in cases())
        for need in needs
    }
    assert recording.asked <= table, "asked, and not in the table"
    assert table - recording.asked <= _ELSEWHERE, "in the table, and never asked"
