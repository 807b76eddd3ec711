"""A cluster goes from PLAINTEXT to SASL_SSL while it runs, in the steps that Kafka's documentation has.

1. Each broker gets a second listener, and is restarted.
2. Clients are restarted with the secured listener.
3. Brokers talk to each other by it, and are restarted.
4. The first listener goes away, with a restart again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from odradek import Admin
from odradek.errors import OdradekError
from odradek.testing.certificates import CertificateAuthority
from ports import free_port
from scenarios.faults.conftest import Judged
from scenarios.faults.run import Run
from scenarios.faults.workloads import TOPIC, Workload

pytestmark = [pytest.mark.slow, pytest.mark.faults]
PARTITIONS = 6
_MECHANISM = "SCRAM-SHA-512"
_LOGIN = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="{0}" password="{0}-secret";'
)


def _second_listener(run: Run, folder: Path, ports: list[int]) -> Callable[[int], Mapping[str, str | None]]:
    authority = CertificateAuthority()
    trusted = authority.write_trust_store(folder / "ca.pem")

    def configs(broker: int) -> Mapping[str, str | None]:
        key = authority.issue(f"broker-{broker}", hosts=("127.0.0.1",))
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{run.cluster.ports[broker]},SASL_SSL://127.0.0.1:{ports[broker]}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key.write_pem(folder / f"{broker}.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
            "sasl.enabled.mechanisms": _MECHANISM,
            "sasl.mechanism.inter.broker.protocol": _MECHANISM,
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": _LOGIN.format("broker"),
        }

    return configs


def _client_configs(folder: Path) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "sasl.mechanism": _MECHANISM,
        "sasl.jaas.config": _LOGIN.format("client"),
    }


def _roll(run: Run, configs: Callable[[int], Mapping[str, str | None]]) -> None:
    """Restart one broker after the other, the controller last, with changed configs."""
    cluster = run.cluster
    controller = cluster.controller()
    for broker in sorted(cluster.live, key=lambda one: one == controller):
        cluster.configure(broker, configs(broker))
        cluster.stop(broker)
        cluster.start(broker)
        cluster.await_all_whole(TOPIC)
        run.writing.go_on()


@pytest.mark.parametrize("workload", [Workload(), Workload("lz4", transactional=True)], ids=str)
def test_from_plaintext_to_sasl_ssl(judged: Judged, tmp_path: Path, workload: Workload) -> None:
    steps = "listener added, clients moved, brokers moved, old listener dropped"
    with judged(
        f"rolling change from PLAINTEXT to SASL_SSL: {steps}", workload, partitions=PARTITIONS
    ) as run:
        cluster = run.cluster
        ports = [free_port() for _ in cluster.ports]
        plaintext = cluster.bootstrap_servers
        with cluster.admin() as admin:
            admin.alter_user_scram_credentials(
                {(user, _MECHANISM): f"{user}-secret" for user in ("broker", "client")}
            )
        run.writing.forget_gaps()

        _roll(run, _second_listener(run, tmp_path, ports))

        cluster.client_configs = _client_configs(tmp_path)
        cluster.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        run.writing.renew()
        run.reading.renew()
        run.writing.go_on()

        _roll(run, lambda broker: {"security.inter.broker.protocol": "SASL_SSL"})
        _roll(run, lambda broker: {"listeners": f"SASL_SSL://127.0.0.1:{ports[broker]}"})

        failed = run.writing.operations - run.writing.acknowledged
        gap = run.writing.longest_gap_s
        run.notes.append(f"longest gap {gap * 1000:.0f} ms; operations that failed: {failed}")
        assert failed == 0
        with (
            pytest.raises(OdradekError),
            Admin(bootstrap_servers=plaintext, default_api_timeout_ms=500) as admin,
        ):
            admin.describe_cluster()
