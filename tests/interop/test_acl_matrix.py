"""The matrix of `broker/authorizer/acl_matrix.py`, asked of real Kafkas, 3.9.1 with ZooKeeper and the
newest, and of ours.

`UPDATE_GOLDEN=1` writes what Kafka answers into tests/golden/authorization.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from broker.authorizer.acl_matrix import cases, cases_of_kraft
from broker.authorizer.acl_matrix_side import Connection, Side
from broker.authorizer.acl_matrix_users import USERS
from broker.authorizer.test_acl_matrix import GOLDEN, asked_of_ours, recorded, write_golden
from interop import kafka_peer
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest
from ports import free_port

pytestmark = pytest.mark.interop

RECORDED = "3.9.1"


def _logged_in(port: int, user: str, host: str) -> Connection:
    connection = Connection(port, host)
    assert connection.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = f"\0{user}\0{user}".encode()
    assert connection.call(SaslAuthenticateRequest(auth_bytes=token), 1).error_code == 0
    return connection


@contextmanager
def asked_of_kafka(version: str, authorizer: str, folder: Path) -> Iterator[Side]:
    """A real Kafka whose users log in, with all that the matrix needs."""
    if reason := kafka_peer.missing_toolchain():
        pytest.skip(reason)
    port = free_port()
    users = " ".join(f'user_{one}="{one}"' for one in USERS)
    settings = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "authorizer.class.name": authorizer,
        "super.users": "User:admin;User:ANONYMOUS",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        # The matrix' records are years old, and Kafka begins to look for such half a minute after its start.
        "log.retention.ms": "-1",
    }
    with kafka_peer.RealKafka(version, folder, settings) as kafka:
        side = Side(lambda user, host: _logged_in(port, user, host), Connection(kafka.port))
        with closing(side):
            side.prepare()
            yield side


def test_kafka_answers_as_recorded(tmp_path: Path) -> None:
    with asked_of_kafka(RECORDED, "kafka.security.authorizer.AclAuthorizer", tmp_path) as kafka:
        answers = {case.label: kafka.ask(case) for case in cases()}
    if os.environ.get("UPDATE_GOLDEN"):
        write_golden(answers)
    assert answers == recorded(), GOLDEN


def test_ours_answers_as_the_newest_kafka(tmp_path: Path) -> None:
    wanted = list(cases_of_kraft())
    standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with asked_of_kafka(kafka_peer.NEWEST, standard, tmp_path) as kafka:
        theirs = {case.label: kafka.ask(case) for case in wanted}
    with asked_of_ours() as (ours, _):
        mine = {case.label: ours.ask(case) for case in wanted}
    assert mine == theirs
