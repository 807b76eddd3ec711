"""The broker's configs: read, checked, layered, and changed while it runs.

A value is, in this order: dynamic for this broker, dynamic for all brokers (KIP-226), from
`server.properties` or the command line, the default. `config.num_partitions` is `num.partitions`, already of
its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.config.listeners import (
    ALL_ADDRESSES,
    advertise,
    parse_ip_overrides,
    parse_listeners,
    parse_protocol_map,
)
from odradek.broker.config.names import (
    KNOWN,
    NAME_OF,
    base_name,
    config_name,
    find_key,
    might_be,
    synonyms_of,
    trimmed,
    update_mode,
)
from odradek.broker.config.table import (
    BROKER_CONFIGS,
    DYNAMIC_ONLY_CONFIGS,
    GONE_CONFIGS,
    OWN_CONFIGS,
    PER_BROKER,
    UPDATE_MODES,
    ConfigAttributes,
)
from odradek.cluster.configs.config_def import ConfigError, ConfigKey, ConfigValue
from odradek.cluster.configs.topic_config import SYNONYMS, TOPIC_CONFIGS
from odradek.cluster.nodes import Endpoint
from odradek.util.config_providers import ConfigProviderError, resolve
from odradek.util.properties import parse_properties

if TYPE_CHECKING:
    from odradek.broker.config.dynamic_passwords import DynamicPasswords
    from odradek.broker.config.password_encoder import PasswordEncoder
    from odradek.broker.kafka_versions.release import Release

STANDALONE_DEFAULTS: Mapping[str, str] = {
    "broker.id": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""In place of Kafka's defaults in a broker that is alone, and in the workers of one machine: those want three
brokers. A broker of a cluster over ZooKeeper has Kafka's: one copy of its transactions would be lost with one
machine, or keep all others waiting for it.
"""
_OF_BROKERS_WITH_OTHERS = ("broker.id",)
"""Those defaults that hold over ZooKeeper as well. Until the store has given the broker an id of its own
(`with_generated_id`), the id that was not given reads as 0."""

KAFKA_VERSION = "odradek.kafka.version"
"""Which release of Kafka to be; its defaults then hold for what is not given."""

# The bounds of Kafka's `KafkaConfig.validateValues`.
_LEAST_DEDUPE_BYTES = 1 << 20
_LEAST_AGES = (("segment.ms", 1, "log.roll.ms"), ("segment.jitter.ms", 0, "log.roll.jitter.ms"))

_MIN_ISR = "min.insync.replicas"
_ELIGIBLE_LEADERS_SINCE = "4.1"
"""Where eligible leader replicas (KIP-966) are on in a new cluster: they need one minimum for all brokers."""


class ConfigSource(IntEnum):
    """The origin of a config's value; the numbers are those of DescribeConfigs."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7


class Synonym(NamedTuple):
    """One place that gives a config a value. `value` is text."""

    name: str
    value: str | None
    source: ConfigSource


class BrokerConfig(ConfigAttributes):
    """The configs of one broker.

    Args:
        properties: Kafka's names to text, as from `server.properties`; variables of `config.providers` are
            replaced.
        standalone: whether `STANDALONE_DEFAULTS` hold for what is not given.

    Raises:
        ConfigError: a value is not what its config takes, or values contradict each other.
    """

    def __init__(self, properties: Mapping[str, str] | None = None, *, standalone: bool = True) -> None:
        # Blanks go after variables are replaced: a file that a provider reads may end with one.
        given = trimmed(_resolved(properties or {}))
        if "broker.id" not in given and "node.id" in given:
            given["broker.id"] = given["node.id"]
        self.given: Mapping[str, str] = dict(given)
        """The configs that were given explicitly."""
        self.unknown: list[str] = sorted(name for name in given if not might_be(name))
        """Given names that Kafka does not know: to be warned about."""
        self.release: Release | None = _release(given.get(KAFKA_VERSION))
        """The release of Kafka to be; None where nothing is said."""
        self._release_defaults = _defaults_of_release(self.release)
        # Among what was given, where `topic_default_texts` looks: logs get the defaults of the release, too.
        given = {**_without_nulls(self._release_defaults), **given}
        if standalone:
            names = _OF_BROKERS_WITH_OTHERS if given.get("zookeeper.connect") else STANDALONE_DEFAULTS
            given = {**{name: STANDALONE_DEFAULTS[name] for name in names}, **given}
        # Kafka: `KafkaConfig.populateSynonyms`.
        if "node.id" not in self.given and "broker.id" in given and self._derives_node_id():
            given["node.id"] = given["broker.id"]
        self._static: dict[str, str] = given
        """Never changed after this. Of `given` it differs by defaults that are not Kafka's newest."""
        self._passwords: DynamicPasswords | None = None
        self._dynamic_default: dict[str, str] = {}
        self._dynamic_broker: dict[str, str] = {}
        """Each layer as a whole: `put_layers` replaces both, and what the store has no more is gone."""
        self.passed_over: Mapping[str, str] = {}
        """Dynamic configs that stand in the store and are not heeded, and why (`reconfiguration`)."""
        self._effective: dict[str, str] = dict(given)
        """`_static` under both dynamic layers. Attributes that `__getattr__` has kept are parsed of it: who
        replaces it drops those that differ."""
        self._topic_defaults: dict[str, ConfigValue] | None = None
        """None until it is asked for, and again when any value changes."""
        for name, text in given.items():
            key = find_key(name)
            if key is not None:
                key.parse(text)
        self.check()
        self.static_endpoints: tuple[Endpoint, ...] = self.listener_endpoints
        """Where the broker listens, from its start to its end; see `listener_endpoints`."""

    if not TYPE_CHECKING:

        def __getattr__(self, attribute: str) -> ConfigValue:
            # Only for what is not there yet: the parsed value is then kept as an attribute.
            name = NAME_OF.get(attribute)
            if name is None:
                raise AttributeError(f"no config {config_name(attribute)!r}")
            value = self.get(name)
            self.__dict__[attribute] = value
            return value

    def get(self, name: str) -> ConfigValue:
        """A config's value, by Kafka's name.

        Raises:
            KeyError: Kafka has no such config.
        """
        key = find_key(name)
        if key is None:
            raise KeyError(name)
        text = self._effective.get(name)
        return key.parse(self._default_of(key) if text is None else text)

    def _default_of(self, key: ConfigKey) -> str | None:
        return self._release_defaults.get(key.name, key.default)

    def is_given(self, name: str) -> bool:
        """Return whether a config was given explicitly, not by default and not dynamically."""
        return name in self.given

    def without_effect(self) -> list[str]:
        """Given names that Kafka knows and that change nothing here, sorted: to be warned about."""
        from odradek.broker.config.effect import brokers_without_effect

        return brokers_without_effect(self.given)

    # --- derived values -----------------------------------------------------------------------------------

    @property
    def data_dirs(self) -> tuple[Path, ...]:
        """`log.dirs`, or else `log.dir`."""
        folders = self.log_dirs if self.log_dirs is not None else self.log_dir
        return tuple(Path(folder) for folder in folders if folder)

    @property
    def listener_endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses to listen on; an empty host is every address, port 0 any free port.

        Raises:
            ConfigError: see `parse_listeners`.
        """
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        listeners: list[str] | None = self.listeners
        # From before `listeners`, which beats them; Kafka 3.0 has them no more (KAFKA-12945).
        by_host = "listeners" not in self._effective and ("host.name" in self.given or "port" in self.given)
        if listeners is None or by_host:
            return (Endpoint("PLAINTEXT", self.host_name, self.port),)
        return parse_listeners("listeners", ",".join(listeners), protocols)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener that brokers talk to each other by."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """The advertised addresses, before ports and hosts that are left open are filled in
        (`registration_endpoints`).

        Raises:
            ConfigError: see `parse_listeners`.
        """
        if self.advertised_listeners is not None:
            text = ",".join(self.advertised_listeners)
            protocols = parse_protocol_map(self.listener_security_protocol_map)
            return parse_listeners("advertised.listeners", text, protocols, distinct_ports=False)
        endpoints = self.listener_endpoints
        if "advertised.host.name" in self.given or "advertised.port" in self.given:
            # As in the releases that had them: they stand for a listener of the protocol PLAINTEXT.
            plain = next((e for e in endpoints if e.security_protocol == "PLAINTEXT"), endpoints[0])
            return (
                plain._replace(
                    host=self.advertised_host_name or plain.host, port=self.advertised_port or plain.port
                ),
            )
        return endpoints

    def registration_endpoints(
        self, bound_ports: Mapping[str, int], default_host: str
    ) -> tuple[Endpoint, ...]:
        """Return the addresses to register, once the sockets are open.

        Args:
            bound_ports: the real port of each listener, by name.
            default_host: in place of a host that is not given.
        """
        return advertise(self.advertised_endpoints, bound_ports, default_host)

    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        """Return the values of topics that override nothing, by topic config name."""
        if self._topic_defaults is None:
            self._topic_defaults = {name: self._topic_default(name) for name in TOPIC_CONFIGS}
        return self._topic_defaults

    def topic_default_texts(self) -> dict[str, str]:
        """Those `topic_defaults` that differ from Kafka's own, as text: what a log needs to be told."""
        texts: dict[str, str] = {}
        for name, synonyms in SYNONYMS.items():
            # The first that is given counts: `log.retention.ms` before `.minutes` and `.hours`, as in Kafka's
            # `ServerTopicConfigSynonyms`.
            for synonym, factor in synonyms:
                if synonym in self._effective:
                    text = self._effective[synonym]
                    texts[name] = text if factor == 1 else str(int(text) * factor)
                    break
        return texts

    def _topic_default(self, name: str) -> ConfigValue:
        for synonym, factor in SYNONYMS.get(name, ()):
            value = self.get(synonym)
            if value is not None:
                return value * factor if factor != 1 and isinstance(value, int) else value
        return TOPIC_CONFIGS[name].parse(TOPIC_CONFIGS[name].default)

    # --- checks -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the configs against each other, as a start does (Kafka: `KafkaConfig.validateValues`).

        Raises:
            ConfigError: a broker cannot start with them.
        """
        # The messages are Kafka's, as tools and people look for them; the order is, too: the first is told.
        if not self.data_dirs:
            raise ConfigError("At least one log directory must be defined via log.dirs or log.dir.")
        self._check_logs()
        if self.broker_id < -1:
            raise ConfigError("broker.id must be greater than or equal to -1")
        if self.is_given("broker.id") and self.is_given("node.id") and self.broker_id != self.node_id:
            raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise ConfigError(
                "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
                "to prevent frequent changes in ISR"
            )
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise ConfigError("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
        overrides = parse_ip_overrides(self.max_connections_per_ip_overrides or "")
        if self.max_connections_per_ip == 0 and not overrides:
            raise ConfigError(
                "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property "
                "is set."
            )
        self._check_listeners()

    def _check_logs(self) -> None:
        defaults = self.topic_defaults()
        for name, least, label in _LEAST_AGES:
            age = defaults[name]
            if isinstance(age, int) and age < least:
                raise ConfigError(f"{label} must be greater than or equal to {least}")
        retention = defaults["retention.ms"]
        if isinstance(retention, int) and retention < 1 and retention != -1:
            raise ConfigError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
        if self.log_cleaner_threads < 1:
            raise ConfigError("log.cleaner.threads must be at least 1")
        if self.log_cleaner_dedupe_buffer_size // self.log_cleaner_threads <= _LEAST_DEDUPE_BYTES:
            raise ConfigError("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")

    def _check_listeners(self) -> None:
        names = {endpoint.listener for endpoint in self.listener_endpoints}
        if not names:
            raise ConfigError("listeners must name at least one listener")
        advertised = self.advertised_endpoints
        strange = sorted({endpoint.listener for endpoint in advertised} - names)
        if strange:
            raise ConfigError(
                "advertised.listeners listener names must be equal to or a subset of the ones defined in "
                f"listeners. Found {','.join(strange)}. The valid options based on the current configuration "
                f"are {','.join(sorted(names))}"
            )
        self._check_listeners_of_brokers({endpoint.listener for endpoint in advertised}, names)
        nonroutable = next((e.host for e in advertised if e.host in ALL_ADDRESSES), None)
        if nonroutable is not None:
            raise ConfigError(
                f"advertised.listeners cannot use the nonroutable meta-address {nonroutable}. "
                "Use a routable IP address. Without advertised.listeners the addresses of listeners are "
                "advertised; an empty host there listens on all addresses and advertises this machine's name."
            )

    def _check_listeners_of_brokers(self, advertised: set[str], names: set[str]) -> None:
        """Check the listeners that brokers talk to each other by, where they are named."""
        by_name = "inter.broker.listener.name" in self.given
        by_protocol = "security.inter.broker.protocol" in self.given
        if by_name and by_protocol:
            raise ConfigError(
                "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
            )
        listener = self.inter_broker_listener
        # A broker that is alone talks to nobody. One of a cluster that nobody could reach, itself neither,
        # would tell its clients of no brokers, for ever.
        if (by_name or by_protocol or self.zookeeper_connect) and listener not in advertised:
            raise ConfigError(
                "inter.broker.listener.name must be a listener name defined in advertised.listeners. "
                "The valid options based on currently configured listeners are "
                f"{','.join(sorted(advertised))}"
                + (
                    ""
                    if by_name or by_protocol
                    else f", and brokers talk by {listener} where no config says so"
                )
            )
        control = self.control_plane_listener_name
        if control is None:
            return
        if control.upper() not in names:
            raise ConfigError(
                f"control.plane.listener.name: {control} is not a listener name defined in listeners "
                f"({','.join(sorted(names))})"
            )
        if control.upper() == listener:
            raise ConfigError(
                "control.plane.listener.name, when defined, should have a different value from the "
                f"inter broker listener name. Currently they both have the value {listener}"
            )

    def after_change(self, configs: Mapping[str, str], *, per_broker: bool) -> BrokerConfig:
        """Return what the configs would be if these were the dynamic ones of this broker, or of all."""
        if per_broker:
            return self.with_layers(self._dynamic_default, configs)
        return self.with_layers(configs, self._dynamic_broker)

    def with_layers(self, default: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
        """Return what the configs would be with these dynamic ones of all brokers, and of this one."""
        # Without `__init__`, which would parse and check what has not changed: that was a fifth of an empty
        # broker's start.
        trial = BrokerConfig.__new__(BrokerConfig)
        trial.__dict__.update(self.__dict__)
        # Values that were parsed of the other layers.
        for name in KNOWN:
            trial.__dict__.pop(name.replace(".", "_"), None)
        trial.put_layers(default, own)
        return trial

    # --- dynamic configs (KIP-226) ------------------------------------------------------------------------

    @property
    def dynamic_passwords(self) -> DynamicPasswords:
        """The encoder of the passwords among dynamic configs; made when it is first needed."""
        if self._passwords is None:
            from odradek.broker.config.dynamic_passwords import DynamicPasswords

            secret, old = self.password_encoder_secret, self.password_encoder_old_secret
            self._passwords = DynamicPasswords(
                self._password_encoder(secret) if secret else None,
                self._password_encoder(old) if old else None,
            )
        return self._passwords

    def _password_encoder(self, secret: str) -> PasswordEncoder:
        from odradek.broker.config.password_encoder import PasswordEncoder

        return PasswordEncoder(
            secret,
            self.password_encoder_keyfactory_algorithm or PasswordEncoder._field_defaults["key_factory"],
            self.password_encoder_cipher_algorithm,
            self.password_encoder_key_length,
            self.password_encoder_iterations,
        )

    def put_layers(self, default: Mapping[str, str], own: Mapping[str, str]) -> set[str]:
        """Replace the dynamic configs of all brokers, and of this one; return the names whose values have
        changed. `reconfiguration.update_dynamic` chooses them."""
        before = self._effective
        self._dynamic_default, self._dynamic_broker = trimmed(default), trimmed(own)
        after = dict(self._static)
        for layer in (self._dynamic_default, self._dynamic_broker):
            _override(after, layer)
        self._effective = after
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        for name in changed:
            self.__dict__.pop(name.replace(".", "_"), None)
        if changed:
            self._topic_defaults = None
        return changed

    def validate_dynamic(self, configs: Mapping[str, str], *, per_broker: bool) -> None:
        """Check dynamic configs before they are written.

        Args:
            configs: all configs of the entity after the change.
            per_broker: whether they are for one broker, not for all.

        Raises:
            ConfigError: one may not be changed while brokers run, or not for all at once, or has a bad value.
        """
        # In the order of Kafka's `DynamicBrokerConfig.validateConfigs`: the first mistake is told. Names that
        # nobody knows pass, as there, since they may be a plugin's.
        fixed = (BROKER_CONFIGS, GONE_CONFIGS, OWN_CONFIGS)
        static = [n for n in configs if any(n in table for table in fixed) and self.update_mode(n) is None]
        if static:
            raise ConfigError(f"Cannot update these configs dynamically: {self._named(static)}")
        security = [n for n in configs if n.startswith("ssl.") and n in UPDATE_MODES]
        if security:
            raise ConfigError(
                "These security configs can be dynamically updated only per-listener using the listener "
                "prefix: " + self._named(security)
            )
        for name, text in configs.items():
            key = find_key(name)
            if key is not None:
                if key.is_sensitive:
                    self.dynamic_passwords.check(name)
                key.parse(text)
        if not per_broker:
            single = [name for name in configs if self.update_mode(name) == PER_BROKER]
            if single:
                raise ConfigError(
                    "Cannot update these configs at default cluster level, broker id must be specified: "
                    + self._named(single)
                )
        # Each may be alone in its layer, so that only the sum of all layers shows the conflict.
        after = dict(self._static)
        layers = (self._dynamic_default, configs) if per_broker else (configs, self._dynamic_broker)
        for layer in layers:
            _override(after, layer)
        low, high = (
            int(after.get(f"log.cleaner.{end}.compaction.lag.ms", default))
            for end, default in (("min", "0"), ("max", str(2**63 - 1)))
        )
        if low > high:
            raise ConfigError(
                f"conflict topic config setting min.compaction.lag.ms ({low}) > "
                f"max.compaction.lag.ms ({high})"
            )

    def _named(self, names: Iterable[str]) -> str:
        listed = ", ".join(sorted(names))
        # `DynamicBrokerConfig` is written in Java since 4.3, and its sets print themselves so.
        in_scala = self.release is not None and not self.release.at_least("4.3")
        return f"Set({listed})" if in_scala else f"[{listed}]"

    # --- description --------------------------------------------------------------------------------------

    def dynamic_names(self) -> Iterable[str]:
        """The names that have a dynamic value, for this broker or for all."""
        return (*self._dynamic_broker, *self.dynamic_defaults())

    def update_mode(self, name: str) -> str | None:
        """`CLUSTER_WIDE`, `PER_BROKER`, or None for what cannot change, in the release that the broker is."""
        mode = update_mode(name)
        if self.release is None or name in DYNAMIC_ONLY_CONFIGS:
            return mode
        from odradek.broker.config.kafka_kinds import mode_in

        return mode_in(self.release, name, mode)

    def _implied_defaults(self) -> dict[str, str]:
        """Return what a new cluster of the release has as dynamic configs for all brokers (KIP-966)."""
        if self.release is not None and not self.release.at_least(_ELIGIBLE_LEADERS_SINCE):
            return {}
        text = self.given.get(_MIN_ISR) or self._default_of(KNOWN[_MIN_ISR])
        return {} if text is None else {_MIN_ISR: text}

    def dynamic_defaults(self) -> Mapping[str, str]:
        """The dynamic configs for all brokers, and those that a new cluster has from the start."""
        return {**self._implied_defaults(), **self._dynamic_default}

    def text_of(self, name: str) -> str | None:
        """A config's value as text, None when it has none. Of a password too: do not show it."""
        return self._effective.get(name, self._default_of(KNOWN[name]) if name in KNOWN else None)

    def synonyms(self, name: str) -> list[Synonym]:
        """Everything that gives `name` a value, the strongest first."""
        names = synonyms_of(name)
        by_strength: list[Synonym] = []
        layers = (
            (self._dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.dynamic_defaults(), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._static, ConfigSource.STATIC_BROKER_CONFIG),
        )
        for layer, source in layers:
            by_strength += [
                Synonym(n, layer[n], source)
                for n in names
                # The defaults of a release stand in `_static`, and are told below, as DEFAULT_CONFIG.
                if n in layer and not (layer is self._static and self._is_release_default(n))
            ]
        for synonym in names:
            if synonym in DYNAMIC_ONLY_CONFIGS:
                continue
            default = self._default_of(KNOWN[synonym]) if synonym in KNOWN else None
            if default is not None:
                by_strength.append(Synonym(synonym, default, ConfigSource.DEFAULT_CONFIG))
        # As Kafka's `ConfigHelper.configSynonyms`: what stands before is of one listener alone, and does not
        # count for the config of all.
        while by_strength and by_strength[0].name != name:
            by_strength.pop(0)
        return by_strength

    def _is_release_default(self, name: str) -> bool:
        default = self._release_defaults.get(name)
        return default is not None and name not in self.given and self._static.get(name) == default

    def _derives_node_id(self) -> bool:
        """Return whether the release takes `node.id` from `broker.id` (KAFKA-13224)."""
        return self.release is None or self.release.at_least("3.1")


def read_properties(path: Path) -> dict[str, str]:
    """Read a `server.properties`: Kafka's names to text.

    Raises:
        ConfigError: it cannot be read; the file is named.
    """
    try:
        return parse_properties(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def _resolved(properties: Mapping[str, str]) -> dict[str, str]:
    try:
        return resolve(properties)
    except ConfigProviderError as error:
        raise ConfigError(str(error)) from error


def _release(text: str | None) -> Release | None:
    if text is None:
        return None
    from odradek.broker.kafka_versions.release import UnknownReleaseError, find

    try:
        return find(text)
    except UnknownReleaseError as error:
        raise ConfigError.invalid(KAFKA_VERSION, text, str(error)) from None


def _defaults_of_release(release: Release | None) -> Mapping[str, str | None]:
    if release is None:
        return {}
    from odradek.broker.kafka_versions.defaults import defaults_of

    return defaults_of(release)


def _without_nulls(configs: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in configs.items() if text is not None}


def _override(configs: dict[str, str], layer: Mapping[str, str]) -> None:
    """Put a stronger layer over `configs`; it also beats the same configs under their other names."""
    for name, text in layer.items():
        for synonym in synonyms_of(name) if base_name(name) == name else (name,):
            configs.pop(synonym, None)
        configs[name] = text
