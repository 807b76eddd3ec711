"""Workers behind logins and ACLs: deaths, restarts one by one and of all, a kill -9 of who runs them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from broker.process.test_workers_live import LIMIT_S, Workers, until
from odradek import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    Admin,
    Consumer,
    NewTopic,
    PatternType,
    Producer,
    ResourcePattern,
    ResourceType,
)
from odradek.errors import TopicAuthorizationError
from scenarios.faults.page import Page, Row

pytestmark = [pytest.mark.slow, pytest.mark.faults]


MECHANISM = "SCRAM-SHA-256"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{_PLAIN} username="broker" password="inner" user_broker="inner";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker",
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
}


def secured(data: Path) -> Workers:
    config = data.parent / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()), encoding="utf-8")
    return Workers(data, "--config", str(config))


def login(user: str, password: str, mechanism: str = MECHANISM) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


#: Two for each look, one while a worker is away.
WRITES = 9

BROKER = login("broker", "inner", "PLAIN")
ALICE = login("alice", "wonderland")
MALLORY = login("mallory", "malice")


def allow(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """To Alice."""
    return AclBinding(
        ResourcePattern(kind, name, PatternType.LITERAL),
        AccessControlEntry("User:alice", "*", operation, AclPermissionType.ALLOW),
    )


def send(address: str, value: bytes) -> None:
    with Producer(bootstrap_servers=address, acks="all", **ALICE) as producer:
        producer.send("clicks", value=value).result(LIMIT_S)


def wait_until_allowed(workers: Workers) -> None:
    """Wait until every worker knows the ACLs: those of whom nothing was asked see them by a watch."""
    for address in workers.addresses:

        def allowed(address: str = address) -> bool:
            with Producer(bootstrap_servers=address, **ALICE) as producer:
                try:
                    return bool(producer.partitions_for("clicks"))
                except TopicAuthorizationError:
                    return False

        until(allowed, lambda: workers.lines)


def read(address: str, number: int) -> list[bytes]:
    values: list[bytes] = []
    with Consumer(
        "clicks", bootstrap_servers=address, group_id="readers", auto_offset_reset="earliest", **ALICE
    ) as consumer:

        def poll() -> bool:
            values.extend(bytes(one.value or b"") for one in consumer.poll(100))
            return len(values) >= number

        until(poll, lambda: values)
    return sorted(values)


def check(workers: Workers) -> None:
    """Alice may write through every worker, Mallory through none."""
    for address in workers.addresses:
        send(address, b"more")
        with (
            Producer(bootstrap_servers=address, acks="all", **MALLORY) as producer,
            pytest.raises(TopicAuthorizationError),
        ):
            producer.send("clicks", value=b"never").result(LIMIT_S)


def test_logins_and_acls_outlive_deaths_and_restarts(page: Page, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with secured(data) as workers:
        with Admin(bootstrap_servers=workers.bootstrap_servers, **BROKER) as admin:
            admin.alter_user_scram_credentials(
                {("alice", MECHANISM): "wonderland", ("mallory", MECHANISM): "malice"}
            )
            admin.create_topics([NewTopic("clicks", 4)])
            admin.create_acls(
                [
                    allow(ResourceType.TOPIC, "clicks", AclOperation.READ),
                    allow(ResourceType.TOPIC, "clicks", AclOperation.WRITE),
                    allow(ResourceType.GROUP, "readers", AclOperation.READ),
                ]
            )
        wait_until_allowed(workers)
        check(workers)
        os.kill(workers.pids(0)[-1], signal.SIGKILL)
        send(workers.addresses[1], b"more")
        workers.says("worker 0 ready", 2)
        check(workers)
        workers.process.send_signal(signal.SIGUSR1)
        workers.says("all workers have been restarted")
        check(workers)
        workers.stop()
    with secured(data) as workers:
        check(workers)
        found = read(workers.addresses[0], WRITES)
        assert found == [b"more"] * WRITES
        # Nobody removes the socket of the store; the workers stop as their inputs end.
        workers.process.kill()
        assert (data / "workers/store.sock").exists()
        workers.ended()
        assert (data / "workers/store.sock").exists()
    with secured(data) as workers:
        check(workers)
        workers.stop()
        assert not (data / "workers/store.sock").exists()
    page.add(
        Row(
            "workers behind SCRAM and ACLs: one killed, all restarted, who runs them killed",
            "idempotent",
            WRITES,
            len(found),
            0,
            "who may not write is refused by both after each",
        )
    )
