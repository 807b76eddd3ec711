"""Who may connect to a broker in a test, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odradek.cluster.paths import entity_config, sanitize
from odradek.cluster.store import ensure_path, parent_of
from odradek.sasl.jaas import quote
from odradek.sasl.mechanisms import PLAIN
from odradek.sasl.scram_credentials import HASHES, ScramCredential

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices

_SCRAM = tuple(HASHES)
_MODULE = "org.apache.kafka.common.security.{}LoginModule"


@dataclass(frozen=True)
class Security:
    """The security of a broker in a test.

        with Broker(security=Security(users={"alice": "secret"})) as broker:
            producer = Producer(broker.client_configs("alice"))

    Attributes:
        users: passwords by name; with any, the listener asks for a login.
        mechanisms: how one can log in: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`.
        configs: further configs of the broker, by Kafka's names.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = (PLAIN, *_SCRAM)
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        """The listener's security protocol."""
        return "SASL_PLAINTEXT" if self.users else "PLAINTEXT"

    def broker_configs(self, port: int) -> dict[str, str]:
        """The broker's configs."""
        configs = {"listeners": f"{self.protocol}://127.0.0.1:{port}"}
        if self.users:
            configs["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
            users = " ".join(
                f"{quote(f'user_{name}')}={quote(password)}" for name, password in self.users.items()
            )
            listener = f"listener.name.{self.protocol.lower()}"
            if PLAIN in self.mechanisms:
                module = _MODULE.format("plain.Plain")
                first, password = next(iter(self.users.items()))
                own = f"username={quote(first)} password={quote(password)}"
                configs[f"{listener}.plain.sasl.jaas.config"] = f"{module} required {own} {users};"
                # The brokers of a cluster are the first of the users.
                configs["security.inter.broker.protocol"] = self.protocol
                configs["sasl.mechanism.inter.broker.protocol"] = PLAIN
        return {**configs, **self.configs}

    def add_users(self, broker: BrokerServices) -> None:
        """Write the users' SCRAM credentials, unless they are there; in the broker's thread.

        In a cluster of several only the controller can: there they are an administrator's to write.
        """
        if broker.channels is not None:
            return
        for name, password in self.users.items():
            entity = f"users/{sanitize(name)}"
            present = dict(broker.controller.image.config(entity))
            missing = [one for one in _SCRAM if one in self.mechanisms and one not in present]
            if missing:
                for mechanism in missing:
                    present[mechanism] = ScramCredential.of_password(mechanism, password).to_text()
                ensure_path(broker.controller.store, parent_of(entity_config(entity)))
                broker.controller.alter_config(entity, present)

    def client_configs(self, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """How a client logs in, under Kafka's names, such that Kafka's own clients understand it as well.

        Args:
            user: the first if None.
            mechanism: the first if None.
        """
        if not self.users:
            return {}
        name = next(iter(self.users)) if user is None else user
        mechanism = self.mechanisms[0] if mechanism is None else mechanism
        module = _MODULE.format("plain.Plain" if mechanism == PLAIN else "scram.Scram")
        login = f"username={quote(name)} password={quote(self.users.get(name, ''))}"
        return {
            "security.protocol": self.protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{module} required {login};",
        }
