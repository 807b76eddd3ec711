"""Security of a broker in a test: who may connect to it, and how."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odradek.broker.sasl.new_users import add_scram_users
from odradek.cluster.nodes import decode_config, encode_config
from odradek.cluster.paths import entity_config, sanitize
from odradek.cluster.store.store import NoNode, StoreError, ensure_path
from odradek.sasl.jaas import quote
from odradek.sasl.mechanisms import PLAIN
from odradek.sasl.scram_credentials import HASHES, ScramCredential
from odradek.sasl.scram_words import NewUser
from odradek.util.acl import AccessControlEntry, ResourcePattern

if TYPE_CHECKING:
    from odradek.broker.services import BrokerServices
    from odradek.cluster.store.store import MetadataStore
    from odradek.testing.certificates import CertificateAuthority, Issued
    from odradek.util.acl import AclBinding

_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
_SCRAM = tuple(HASHES)
_MODULE = "org.apache.kafka.common.security.{}LoginModule"


@dataclass(frozen=True)
class Security:
    """The security of a broker in a test.

        with Broker(security=Security(users={"alice": "secret"})) as broker:
            producer = Producer(broker.client_configs("alice"))

        with Broker(security=Security(client_auth="required")) as broker:
            producer = Producer(broker.client_configs("alice"))  # is User:CN=alice to the broker

    Certificates are made on the spot, which needs the package `cryptography`.

    Attributes:
        users: passwords by name; with any, the listener asks for a login.
        mechanisms: how one can log in: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`.
        configs: further configs of the broker, by Kafka's names.
        acls: who may do what; with any, or with `super_users`, the broker has an authorizer.
        super_users: principals that may do everything; the first of `users` without any.
        tls: whether the listener is encrypted; with a `client_auth` it is.
        client_auth: `ssl.client.auth`, whether clients show certificates: `none`, `requested` or `required`.
        hosts: names and addresses in the broker's certificate.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = (PLAIN, *_SCRAM)
    configs: Mapping[str, str] = field(default_factory=dict)
    acls: tuple[AclBinding, ...] = ()
    super_users: tuple[str, ...] = ()
    tls: bool = False
    client_auth: str = "none"
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1")
    _made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, security: Security | str | None) -> Security | None:
        """Return the security that a protocol's name stands for.

        Raises:
            ValueError: a protocol that takes more than a name, or is none.
        """
        if security is None or isinstance(security, Security):
            return security
        if security.upper() not in ("PLAINTEXT", "SSL"):
            raise ValueError(
                f"security={security!r}: PLAINTEXT or SSL; for logins say Security(users={{…}}, tls=True)"
            )
        return cls(tls=security.upper() == "SSL")

    @property
    def uses_tls(self) -> bool:
        """True if the listener is encrypted."""
        return self.tls or self.client_auth != "none"

    @property
    def protocol(self) -> str:
        """The listener's security protocol."""
        return ("SASL_" if self.users else "") + ("SSL" if self.uses_tls else "PLAINTEXT")

    @property
    def authority(self) -> CertificateAuthority:
        """The authority that has signed the certificates of broker and clients; it signs others, bad ones
        too.
        """
        if "authority" not in self._made:
            from odradek.testing.certificates import CertificateAuthority

            self._made["authority"] = CertificateAuthority()
        authority: CertificateAuthority = self._made["authority"]
        return authority

    @property
    def administrator(self) -> str | None:
        """The user who may do everything: a super user who can log in, else the first user; of no users the
        name in a certificate, None where nobody shows one.
        """
        names = [name.removeprefix("User:") for name in self.super_users]
        if self.users:
            return next((name for name in names if name in self.users), next(iter(self.users)))
        return None if self.client_auth == "none" else next(iter(names), "admin")

    def certificate(self, name: str) -> Issued:
        """Return a client's certificate, made when it is first asked for.

        Args:
            name: a distinguished name, or a word for `CN=word`.
        """
        issued: dict[str, Issued] = self._made.setdefault("clients", {})
        if name not in issued:
            issued[name] = self.authority.issue(name)
        return issued[name]

    def server_configs(self) -> dict[str, str]:
        """`ssl.*` of a server: its key and certificate, and whom it trusts."""
        if "broker" not in self._made:
            self._made["broker"] = self.authority.issue("broker", hosts=self.hosts)
        return {**self._made["broker"].configs(), **self.authority.trust()}

    def between_brokers(self, config_names: Collection[str]) -> dict[str, str]:
        """Return the configs by which brokers speak TLS with each other where that takes no login.

        Args:
            config_names: the names of configs that say otherwise.
        """
        if not self.uses_tls or self.users:
            return {}
        if not {"listeners", "inter.broker.listener.name"}.isdisjoint({*config_names, *self.configs}):
            return {}
        return {"security.inter.broker.protocol": self.protocol}

    def _tls_of_broker(self) -> dict[str, str]:
        # Under the listener's prefix it also counts where there are logins.
        return {
            **self.server_configs(),
            f"listener.name.{self.protocol.lower()}.ssl.client.auth": self.client_auth,
        }

    def broker_configs(self, port: int) -> dict[str, str]:
        """The broker's configs."""
        configs = {"listeners": f"{self.protocol}://127.0.0.1:{port}"}
        if self.uses_tls:
            configs |= self._tls_of_broker()
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
        if self.acls or self.super_users:
            configs["authorizer.class.name"] = _AUTHORIZER
            first_user = tuple(f"User:{name}" for name in self.users)[:1]
            configs["super.users"] = ";".join(self.super_users or first_user)
        return {**configs, **self.configs}

    def scram_users(self) -> list[NewUser]:
        """Return the users' SCRAM credentials, made anew: none without a mechanism that needs them."""
        return [
            NewUser(name, mechanism, ScramCredential.of_password(mechanism, password))
            for name, password in self.users.items()
            for mechanism in _SCRAM
            if mechanism in self.mechanisms
        ]

    async def add_users(self, broker: BrokerServices) -> None:
        """Write the users' SCRAM credentials, unless they are there; in the broker's loop.

        In a cluster of several only the controller can: that of `testing.Cluster` is told by its `start`.
        """
        controller = broker.controller

        def add() -> None:
            if controller.is_active:
                add_scram_users(controller, self.scram_users())

        if broker.channels is None:
            add()
        elif broker.config.zookeeper_connect:
            await controller.event_queue.run(add)

    async def add_acls(self, broker: BrokerServices) -> None:
        """Add the ACLs that are not there yet; in the broker's loop.

        Raises:
            KafkaError: one that cannot be.
        """
        acls = broker.acls
        if acls is None or not self.acls:
            return
        for error in await broker.controller.event_queue.run(lambda: acls.create(self.acls)):
            if error is not None:
                raise error

    def client_configs(self, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Return the configs by which a client logs in, under Kafka's names, such that Kafka's own clients
        understand them as well.

        Args:
            user: one of the users, the first if None. Where clients show certificates, the name in its
                certificate; nobody then shows one if None.
            mechanism: the first if None.
        """
        tls: dict[str, Any] = {}
        if self.uses_tls:
            tls = {"security.protocol": self.protocol, **self.authority.trust()}
            if user is not None and self.client_auth != "none":
                tls |= self.certificate(user).configs()
        if not self.users:
            return tls
        name = next(iter(self.users)) if user is None else user
        mechanism = self.mechanisms[0] if mechanism is None else mechanism
        module = _MODULE.format("plain.Plain" if mechanism == PLAIN else "scram.Scram")
        login = f"username={quote(name)} password={quote(self.users.get(name, ''))}"
        return {
            **tls,
            "security.protocol": self.protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{module} required {login};",
        }


def configs_of_client(
    servers: str, security: Security | None, user: str | None, mechanism: str | None
) -> dict[str, Any]:
    """Return the configs of a client, under Kafka's names: where its servers are, and how it logs in.

    Args:
        servers: `host:port`, by commas.
        user, mechanism: see `Security.client_configs`.
    """
    configs: dict[str, Any] = {"bootstrap.servers": servers}
    if security is not None:
        configs |= security.client_configs(user, mechanism)
    return configs


def write_security(store: MetadataStore, security: Security) -> None:
    """Write the users' SCRAM credentials, unless they are there, and the ACLs, before any broker runs.

    Raises:
        StoreError: the store cannot be written.
    """
    users: dict[str, dict[str, str]] = defaultdict(dict)
    for user in security.scram_users():
        users[user.name][user.mechanism] = user.credential.to_text()
    for name, credentials in users.items():
        path = entity_config(f"users/{sanitize(name)}")
        ensure_path(store, path)
        present = _configs(store, path)
        store.set(path, encode_config(credentials | present))
    entries: dict[ResourcePattern, set[AccessControlEntry]] = defaultdict(set)
    for binding in security.acls:
        entries[binding.pattern].add(binding.entry)
    if not entries:
        return
    # Here, as most tests have no ACLs.
    from odradek.cluster.access.acls import AclChange, change_acls, create_acl_paths

    create_acl_paths(store)
    changes = [AclChange(pattern, frozenset(added).union) for pattern, added in entries.items()]
    for result in change_acls(store, changes, {}).values():
        if isinstance(result, StoreError):
            raise result


def _configs(store: MetadataStore, path: str) -> dict[str, str]:
    try:
        return decode_config(path, store.get(path)[0])
    except NoNode:
        return {}
