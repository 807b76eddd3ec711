"""All brokers are restarted one after the other, and clients see no error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from odradek.testing.certificates import CertificateAuthority
from scenarios.faults.conftest import Judged
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
PARTITIONS = 6


def roll(run: Run, when: str) -> None:
    """Restart one after the other, the controller first or last."""
    run.cluster.await_all_whole(TOPIC)
    controller = run.cluster.controller()
    order = sorted(run.cluster.live, key=lambda one: (one == controller) != (when == "first"))
    assert order[0 if when == "first" else -1] == controller
    run.writing.forget_gaps()
    for broker in order:
        run.cluster.stop(broker)
        run.cluster.start(broker)
        run.cluster.await_all_whole(TOPIC)
    gap = run.writing.longest_gap_s
    failed = run.writing.operations - run.writing.acknowledged
    run.notes.append(f"longest gap {gap * 1000:.0f} ms; operations that failed: {failed}")
    assert failed == 0


@pytest.mark.parametrize(
    "workload", [Workload(), Workload("lz4", idempotent=False), Workload("zstd", transactional=True)], ids=str
)
@pytest.mark.parametrize("when", ["first", "last"])
def test_no_error_at_clients(judged: Judged, when: str, workload: Workload) -> None:
    with judged(f"rolling restart, controller {when}", workload, partitions=PARTITIONS) as run:
        roll(run, when)


_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LOGIN = _MODULE + ' required username="{0}" password="{0}-secret"{1};'
_USERS = ' user_broker="broker-secret" user_client="client-secret"'


def _behind_logins(folder: Path) -> tuple[Callable[[int], Mapping[str, str]], dict[str, Any]]:
    """Configs of brokers that speak SASL_SSL with each other and everybody, and of clients."""
    authority = CertificateAuthority()
    trusted = str(authority.write_trust_store(folder / "ca.pem"))

    def configs(broker: int) -> Mapping[str, str]:
        key = authority.issue(f"broker-{broker}", hosts=("127.0.0.1",))
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key.write_pem(folder / f"{broker}.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": trusted,
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": _LOGIN.format("broker", _USERS),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:broker;User:client",
        }

    return configs, {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": _LOGIN.format("client", ""),
    }


@pytest.mark.parametrize("workload", [Workload(), Workload("zstd", transactional=True)], ids=str)
@pytest.mark.parametrize("when", ["first", "last"])
def test_no_error_at_clients_that_log_in(
    judged: Judged, tmp_path: Path, when: str, workload: Workload
) -> None:
    own, client_configs = _behind_logins(tmp_path)
    with judged(
        f"rolling restart behind SASL_SSL and ACLs, brokers too; controller {when}",
        workload,
        partitions=PARTITIONS,
        own=own,
        protocol="SASL_SSL",
        client_configs=client_configs,
    ) as run:
        roll(run, when)
