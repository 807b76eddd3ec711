"""Client configs: Kafka's names, meanings and defaults; `linger.ms` and `linger_ms` are the same key.

Defaults and bounds are those of Kafka's ProducerConfig, ConsumerConfig and AdminClientConfig (3.9). Kafka's
documentation tells the meaning of each key; a comment stands here only where odradek adds to it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

from odradek.client.errors import ConfigError, IllegalArgumentError
from odradek.client.security import (
    PROTOCOLS,
    SASL_CONFIGS,
    SecurityConfig,
    is_security_config,
    security_config,
)
from odradek.security.ssl_configs import SSL_CONFIGS
from odradek.util.java_text import java_trim

C = TypeVar("C", bound="CommonConfig")

_INT_MAX = 2**31 - 1


class UnknownConfigWarning(UserWarning):
    """A config that no client knows; it is ignored."""


def _key(
    default: Any = None,
    *,
    at_least: int | None = None,
    one_of: tuple[Any, ...] = (),
    takes: str = "",
    note: str = "",
) -> Any:
    # `_check_bounds` reads the bounds, for values that were set. config_dicts.py and the table in
    # docs/client/configs.md are made of all of it: `takes` is the type of a keyword, where that is not the
    # field's own; `note` is what differs from Kafka's config.
    return field(
        default=default, metadata={"at_least": at_least, "one_of": one_of, "takes": takes, "note": note}
    )


_SERIALIZER = "a callable, an object, or a name: [serializers](producer.md#serializers)"
_DESERIALIZER = "a callable, an object, or a name: [deserializers](consumer.md#deserializers)"
_STATS = "librdkafka's: a callable that gets statistics as JSON, every `statistics_interval_ms`"


@dataclass(frozen=True, kw_only=True)
class CommonConfig:
    """Configs of all clients. Times in milliseconds, sizes in bytes."""

    bootstrap_servers: tuple[tuple[str, int], ...] = _key(
        (),
        takes="str | Sequence[str | tuple[str, int]]",
        note="`host:port,host:port` or a list of such; the port may be left out (9092)",
    )
    client_id: str = _key("", note="empty: `producer-1`, `consumer-GROUP-1`, `adminclient-1` …")
    client_rack: str = ""
    metadata_max_age_ms: int = _key(300_000, at_least=0)
    request_timeout_ms: int = _key(30_000, at_least=0)
    default_api_timeout_ms: int = _key(60_000, at_least=0)
    reconnect_backoff_ms: int = _key(50, at_least=0)
    reconnect_backoff_max_ms: int = _key(1_000, at_least=0)
    retry_backoff_ms: int = _key(100, at_least=0)
    retry_backoff_max_ms: int = _key(1_000, at_least=0)
    connections_max_idle_ms: int = _key(540_000, note="negative: no limit. 300000 in Kafka's admin client")
    socket_connection_setup_timeout_ms: int = _key(10_000, at_least=0)
    socket_connection_setup_timeout_max_ms: int = _key(30_000, at_least=0)
    send_buffer_bytes: int = _key(131_072, at_least=-1, note="-1: as the operating system has it")
    receive_buffer_bytes: int = _key(
        65_536, at_least=-1, note="-1: as the operating system has it. 32768 in Kafka's producer"
    )
    security_protocol: str = _key("PLAINTEXT", note="with `ssl.*` and `sasl.*`: [security](../security.md)")
    # Not a config: what security.protocol, ssl.* and sasl.* make together.
    security: SecurityConfig = field(default_factory=SecurityConfig)
    receive_message_max_bytes: int = _key(
        _INT_MAX, at_least=1, note="librdkafka's; a longer response ends the connection"
    )
    api_version_request: bool = _key(
        True, note="librdkafka's; without it brokers count as `broker.version.fallback`"
    )
    broker_version_fallback: str = _key("0.9.0", one_of=("0.8.2", "0.9.0"), note="librdkafka's")
    # Not a config: the names of those that were set, not left at their default.
    given: frozenset[str] = frozenset()

    def validate(self, given: frozenset[str]) -> dict[str, Any]:  # noqa: ARG002
        """Check keys against each other.

        Args:
            given: the keys that were set. A rule changes a default, but refuses what was set.

        Returns: the values to change.

        Raises:
            ConfigError: they do not go together.
        """
        if not self.bootstrap_servers:
            raise ConfigError("bootstrap.servers is empty: name at least one broker as host:port")
        callback = getattr(self, "stats_cb", None)
        if callback is not None and not callable(callback):
            raise ConfigError(f"stats_cb={callback!r}: a callable is asked for")
        return {}


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(CommonConfig):
    """A producer's configs."""

    acks: int = _key(-1, one_of=(-1, 0, 1), takes='Literal["all", -1, 0, 1]', note="-1 is `all`")
    enable_idempotence: bool = True
    linger_ms: int = _key(0, at_least=0, note="5 in Kafka 4.0 and later")
    batch_size: int = _key(16_384, at_least=0)
    buffer_memory: int = _key(33_554_432, at_least=0)
    max_block_ms: int = _key(60_000, at_least=0)
    # A level is for its own codec alone (KIP-390).
    compression_type: str = _key("none", one_of=("none", "gzip", "snappy", "lz4", "zstd"))
    compression_gzip_level: int | None = _key(None, note="None: the library's own")
    compression_lz4_level: int | None = _key(None, note="None: the library's own")
    compression_zstd_level: int | None = _key(None, note="None: the library's own")
    retries: int = _key(_INT_MAX, at_least=0)
    delivery_timeout_ms: int = _key(120_000, at_least=0)
    max_in_flight_requests_per_connection: int = _key(5, at_least=1)
    max_request_size: int = _key(1_048_576, at_least=0)
    metadata_max_idle_ms: int = _key(300_000, at_least=5_000)
    partitioner: Any = _key(
        takes="Partitioner | type[Partitioner] | str | None",
        note="None, a name, or a callable: [choosing the partition](producer.md#choosing-the-partition)",
    )
    partitioner_ignore_keys: bool = False
    partitioner_adaptive_partitioning_enable: bool = True
    partitioner_availability_timeout_ms: int = _key(
        0, at_least=0, note="0: off; with adaptive partitioning alone"
    )
    key_serializer: Any = _key(takes="Serializer[K_contra]", note=_SERIALIZER)
    value_serializer: Any = _key(takes="Serializer[V_contra]", note=_SERIALIZER)
    stats_cb: Any = _key(takes="Callable[[str], object] | None", note=_STATS)
    statistics_interval_ms: int = _key(0, at_least=0, note="librdkafka's; 0: no statistics")
    interceptors: tuple[Any, ...] = _key(
        (),
        takes="Sequence[object]",
        note="objects with methods of `ProducerInterceptor`: [interceptors](observing.md#interceptors)",
    )
    transactional_id: str | None = None
    transaction_timeout_ms: int = _key(60_000, at_least=1)
    transaction_two_phase_commit_enable: bool = False

    @property
    def compression_level(self) -> int | None:
        """Return the level for the chosen codec; None: its default."""
        level: int | None = getattr(self, f"compression_{self.compression_type}_level", None)
        return level

    def validate(self, given: frozenset[str]) -> dict[str, Any]:
        """See `CommonConfig.validate`; the rules are those of Kafka's ProducerConfig."""
        changes = super().validate(given)
        if self.transactional_id is not None:
            self._check_transactional(given)
        # On by default, it gives way to other keys, with which it was off before (KIP-679; Kafka's
        # postProcessAndValidateIdempotenceConfigs).
        if self.enable_idempotence:
            reason = None
            if self.retries == 0:
                reason = "retries is 0; the idempotent producer must be allowed to retry"
            elif self.acks != -1:
                reason = f"acks is {self.acks}; the idempotent producer needs acks=all"
            elif self.max_in_flight_requests_per_connection > 5:
                reason = "max.in.flight.requests.per.connection is above 5, more than brokers remember"
            if reason is not None:
                if self.transactional_id is not None:
                    raise ConfigError(f"transactional.id needs idempotence: {reason}")
                if "enable_idempotence" in given:
                    raise ConfigError(f"enable.idempotence: {reason}")
                changes["enable_idempotence"] = False
        # Else a batch could expire before its first try is over (Kafka's
        # KafkaProducer.configureDeliveryTimeout).
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            if "delivery_timeout_ms" in given:
                raise ConfigError(
                    f"delivery.timeout.ms ({self.delivery_timeout_ms}) is less than linger.ms + "
                    f"request.timeout.ms ({self.linger_ms} + {self.request_timeout_ms})"
                )
            changes["delivery_timeout_ms"] = self.linger_ms + self.request_timeout_ms
        if self.batch_size > self.buffer_memory:
            if "batch_size" in given:
                raise ConfigError(
                    f"batch.size ({self.batch_size}) is larger than buffer.memory ({self.buffer_memory}): "
                    "no batch would fit. Lower the one or raise the other"
                )
            changes["batch_size"] = self.buffer_memory
        if not self.client_id:
            changes["client_id"] = f"producer-{self.transactional_id or next(_producer_ids)}"
        return changes

    def _check_transactional(self, given: frozenset[str]) -> None:
        if not self.transactional_id:
            raise ConfigError("transactional.id is empty")
        if not self.enable_idempotence:
            raise ConfigError("transactional.id needs idempotence: enable.idempotence is false")
        if self.transaction_two_phase_commit_enable and "transaction_timeout_ms" in given:
            raise ConfigError(
                "transaction.timeout.ms cannot be set when transaction.two.phase.commit.enable is true: "
                "such transactions are never timed out"
            )


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(CommonConfig):
    """A consumer's configs."""

    group_id: str | None = None
    group_instance_id: str | None = None

    auto_offset_reset: str = _key("latest", one_of=("latest", "earliest", "none"))
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = _key(5_000, at_least=0)
    enable_auto_offset_store: bool = _key(
        True,
        note="librdkafka's; false: commits are of what `store_offsets` was told",
    )
    max_poll_records: int = _key(500, at_least=1)
    max_poll_interval_ms: int = _key(300_000, at_least=1)
    session_timeout_ms: int = _key(45_000, at_least=1)
    heartbeat_interval_ms: int = _key(3_000, at_least=1)
    fetch_min_bytes: int = _key(1, at_least=0)
    fetch_max_wait_ms: int = _key(500, at_least=0)
    fetch_max_bytes: int = _key(52_428_800, at_least=0)
    max_partition_fetch_bytes: int = _key(1_048_576, at_least=0)
    isolation_level: str = _key("read_uncommitted", one_of=("read_uncommitted", "read_committed"))
    check_crcs: bool = True
    # 'range' is taken. The second lets a group change to cooperative rebalances by one rolling restart, which
    # leaves the first out (KIP-429).
    partition_assignment_strategy: tuple[Any, ...] = _key(
        ("range", "cooperative-sticky"),
        takes="str | Sequence[str | Assignor | type[Assignor]]",
        note="names, classes or objects: [choosing partitions](consumer.md#choosing-partitions)",
    )
    key_deserializer: Any = _key(takes="Deserializer[K_co]", note=_DESERIALIZER)
    value_deserializer: Any = _key(takes="Deserializer[V_co]", note=_DESERIALIZER)
    stats_cb: Any = _key(takes="Callable[[str], object] | None", note=_STATS)
    statistics_interval_ms: int = _key(0, at_least=0, note="librdkafka's; 0: no statistics")
    interceptors: tuple[Any, ...] = _key(
        (),
        takes="Sequence[object]",
        note="objects with methods of `ConsumerInterceptor`: [interceptors](observing.md#interceptors)",
    )
    exclude_internal_topics: bool = True
    allow_auto_create_topics: bool = True
    group_protocol: str = _key(
        "classic",
        one_of=("classic", "consumer"),
        note="`consumer` (KIP-848) is not built yet, and refused",
    )

    def validate(self, given: frozenset[str]) -> dict[str, Any]:
        """See `CommonConfig.validate`; the rules are those of Kafka's ConsumerConfig."""
        changes = super().validate(given)
        if self.group_protocol != "classic":
            raise ConfigError("group.protocol=consumer: server-side groups (KIP-848) are not built yet")
        # Without a group there is nowhere to commit to (Kafka's maybeOverrideEnableAutoCommit, KIP-289).
        if self.group_id is None:
            if "enable_auto_commit" in given and self.enable_auto_commit:
                raise ConfigError("enable.auto.commit cannot be true without a group.id")
            changes["enable_auto_commit"] = False
        elif self.group_id == "":
            raise ConfigError("group.id is empty")
        if self.group_instance_id is not None and self.group_instance_id == "":
            raise ConfigError("group.instance.id is empty")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms ({self.heartbeat_interval_ms}) must be less than session.timeout.ms "
                f"({self.session_timeout_ms})"
            )
        if not self.client_id:
            part = self.group_instance_id or next(_consumer_ids)
            changes["client_id"] = f"consumer-{self.group_id or 'null'}-{part}"
        return changes

    @property
    def isolation(self) -> int:
        """Return the isolation level's number on the wire: 0 uncommitted, 1 committed."""
        return 1 if self.isolation_level == "read_committed" else 0


@dataclass(frozen=True, kw_only=True)
class AdminConfig(CommonConfig):
    """An admin client's configs."""

    retries: int = _key(_INT_MAX, at_least=0)

    def validate(self, given: frozenset[str]) -> dict[str, Any]:
        """See `CommonConfig.validate`."""
        changes = super().validate(given)
        if not self.client_id:
            changes["client_id"] = f"adminclient-{next(_admin_ids)}"
        return changes


# For client ids, as Kafka's clients number theirs: logs and quotas can tell clients of a process apart.
_producer_ids = itertools.count(1)
_consumer_ids = itertools.count(1)
_admin_ids = itertools.count(1)

#: Kafka's name → the name here, where the two are not the same but for dots.
_RENAMED = {
    "key.deserializer": "key_deserializer",
    "partitioner.class": "partitioner",
    "interceptor.classes": "interceptors",
    "send.buffer.bytes": "send_buffer_bytes",
    "receive.buffer.bytes": "receive_buffer_bytes",
    "stats_cb": "stats_cb",
}

#: Kafka's keys that change nothing here: they are accepted, so that one properties file serves both.
_WITHOUT_EFFECT = frozenset(
    [
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "client.dns.lookup",
        "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms",
        "group.remote.assignor",
        "config.providers",
        "security.providers",
        "internal.leave.group.on.close",
    ]
)

#: Names of other clients, whose values are taken to the character; Kafka trims all of its own.
_AS_GIVEN = frozenset({"sasl_plain_username", "sasl_plain_password", "sasl_username", "sasl_password"})

_SECURITY_PREFIXES = ("ssl_", "sasl_")

#: Fields that are no configs.
_NO_KEYS = frozenset({"given", "security"})


def declared(config_class: type[CommonConfig]) -> list[Field[Any]]:
    """Return the configs of a kind of client, as they are declared."""
    return [f for f in fields(config_class) if f.name not in _NO_KEYS]


def split_mapping(
    given: tuple[str | Mapping[str, object], ...],
) -> tuple[tuple[str, ...], Mapping[str, object]]:
    """Tell a consumer's topics from a mapping of configs in front of them.

    Raises:
        IllegalArgumentError: a topic is no text, or empty.
    """
    configs: Mapping[str, object] = {}
    if given and isinstance(given[0], Mapping):
        configs, given = given[0], given[1:]
    topics = []
    for topic in given:
        if not isinstance(topic, str) or not topic:
            raise IllegalArgumentError(
                f"topics are given one by one, each as text that is not empty: {topic!r} is not"
            )
        topics.append(topic)
    return tuple(topics), configs


def kafka_name(name: str) -> str:
    """`linger_ms` → `linger.ms`; 'partitioner' → 'partitioner.class'."""
    for theirs, ours in _RENAMED.items():
        if ours == name:
            return theirs
    return name.replace("_", ".")


def python_name(name: str) -> str:
    """`linger.ms` or `linger_ms` → `linger_ms`."""
    return _RENAMED.get(name, name.replace(".", "_").replace("-", "_"))


def parse_servers(value: Any, key: str = "bootstrap.servers") -> tuple[tuple[str, int], ...]:
    """'a:9092,b:9092', ['a:9092', ('b', 9092)] or '[::1]:9092' → ((host, port), …); the port may be left out.

    Raises:
        ConfigError: a server is not of that form.
    """
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    servers = []
    for server in value or ():
        if not isinstance(server, str):
            host, port = server
            servers.append((str(host), int(port)))
            continue
        scheme, slashes, rest = server.rpartition("://")
        # A protocol in front, as it stands in `advertised.listeners`, is a common slip.
        if slashes and scheme not in PROTOCOLS:
            address = rest.partition("/")[0]
            told = f"{key}: {server!r} is a URL, and a broker is given as host:port, {address!r}"
            if scheme.lower() == "https":
                told += "; security.protocol=SSL has it speak TLS"
            raise ConfigError(told)
        host, colon, port_text = rest.rpartition(":")
        # An IPv6 address without brackets has colons, and no port.
        if not colon or (host.count(":") and not host.endswith("]")):
            host, port_text = rest, "9092"
        try:
            port = int(port_text)
        except ValueError:
            port = -1
        if not host or not 0 < port < 65_536:
            raise ConfigError(f"{key}: {server!r} is not host:port")
        servers.append((host.strip("[]"), port))
    return tuple(servers)


def _to_bool(value: Any) -> bool:
    if isinstance(value, str):
        lowered = value.strip().lower()
        if lowered in ("true", "false"):
            return lowered == "true"
        raise ValueError("neither true nor false")
    return bool(value)


def _to_int(value: Any) -> int:
    # True is an int in Python, and 0.5 would become 0: neither is meant.
    if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
        raise ValueError("not a whole number")
    return int(value)


def _to_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, Iterable):
        return tuple(value)
    return (value,)


def _to_acks(value: Any) -> int:
    try:
        return -1 if value == "all" else _to_int(value)
    except ValueError:
        raise ValueError("must be all (or -1), 0 or 1") from None


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int": _to_int,
    "int | None": lambda value: None if value is None else _to_int(value),
    "bool": _to_bool,
    "str": str,
    "str | None": lambda value: None if value is None else str(value),
    "tuple[Any, ...]": _to_tuple,
    "Any": lambda value: value,
}


def build(config_class: type[C], options: Mapping[str, Any]) -> C:
    """Make a config from options under Kafka's or Python's names, values typed or as strings.

    Warns:
        UnknownConfigWarning: per key that no client knows.

    Raises:
        ConfigError: a value out of its bounds, a combination that cannot work, or a security key that is not
            known (leaving it out silently would be worse than stopping).
    """
    fields_by_name = {f.name: f for f in declared(config_class)}
    values: dict[str, Any] = {}
    security: dict[str, Any] = {}
    for given_name, as_given in options.items():
        name = python_name(given_name)
        raw = as_given
        if isinstance(raw, str) and name not in _AS_GIVEN:
            raw = java_trim(raw)
        if name.startswith(_SECURITY_PREFIXES) and is_security_config(name.replace("_", ".")):
            if raw is not None:
                security[name.replace("_", ".")] = raw
            continue
        spec = fields_by_name.get(name)
        if spec is None:
            _refuse_or_warn(given_name, name, config_class)
            continue
        # None stands for the default, where it is no value itself.
        if raw is None and spec.type not in ("int | None", "str | None", "Any"):
            continue
        try:
            if name == "bootstrap_servers":
                value: Any = parse_servers(raw)
            elif name == "acks":
                value = _to_acks(raw)
            else:
                value = _CONVERTERS[str(spec.type)](raw)
        except ConfigError:
            raise
        except (TypeError, ValueError) as problem:
            raise ConfigError(f"{kafka_name(name)}={raw!r}: {problem}") from None
        _check_bounds(name, value, spec.metadata)
        values[name] = value
    given = frozenset(values)
    values["security"] = security_config(str(values.get("security_protocol", "PLAINTEXT")), security)
    config = config_class(**values, given=given)
    changes = config.validate(given)
    return config_class(**{**values, **changes}, given=given) if changes else config


def _check_bounds(name: str, value: Any, bounds: Mapping[str, Any]) -> None:
    at_least, one_of = bounds.get("at_least"), bounds.get("one_of")
    if at_least is not None and value < at_least:
        raise ConfigError(f"{kafka_name(name)}={value}: must be at least {at_least}")
    if one_of and value not in one_of:
        raise ConfigError(f"{kafka_name(name)}={value}: must be one of {', '.join(map(str, one_of))}")


_ALL_KNOWN = {f.name for cls in (ProducerConfig, ConsumerConfig, AdminConfig) for f in declared(cls)}


def is_config(name: str) -> bool:
    """Return whether some client takes a config under this name, Kafka's or Python's."""
    ours = python_name(name)
    kafkas = ours.replace("_", ".")
    return ours in _ALL_KNOWN or kafkas in _WITHOUT_EFFECT or is_security_config(kafkas)


def _refuse_or_warn(given_name: str, name: str, config_class: type[CommonConfig]) -> None:
    if is_config(name):
        return  # another client's key, or one without a meaning here
    hint = _hint(given_name, name, config_class)
    # A client that ignored one of these might speak in plain where it was told not to.
    if name.startswith(_SECURITY_PREFIXES):
        family = "SASL" if name.startswith("sasl_") else "TLS"
        raise ConfigError(f"{given_name}: no such config of {family} is known{hint}")
    warnings.warn(
        f"unknown config {given_name!r} for {config_class.__name__}: ignored{hint}",
        UnknownConfigWarning,
        stacklevel=4,
    )


def _hint(given_name: str, name: str, config_class: type[CommonConfig]) -> str:
    from difflib import get_close_matches

    from odradek.client.names_elsewhere import ELSEWHERE

    here = ELSEWHERE.get(name)
    if here is not None and not here.config:
        return f"; {here.remark}"
    if here is not None:
        meant, remark = python_name(here.config), here.remark
    else:
        names = [f.name for f in declared(config_class)]
        if name.startswith(_SECURITY_PREFIXES):
            names = sorted(map(python_name, SSL_CONFIGS | SASL_CONFIGS))
        meant, remark = next(iter(get_close_matches(name, names, n=1)), ""), ""
    if "." in given_name:
        meant = kafka_name(meant)
    told = f"; did you mean {meant!r}?" if meant else ""
    return f"{told} ({remark})" if remark else told
