"""The broker's configs: the table, server.properties, listeners, dynamic layers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.config.broker_config import BrokerConfig, ConfigSource
from odradek.broker.config.names import base_name, config_name, update_mode
from odradek.broker.config.reconfiguration import update_dynamic
from odradek.broker.config.table import (
    BROKER_CONFIGS,
    BROKER_DOCS,
    DYNAMIC_ONLY_CONFIGS,
    GONE_CONFIGS,
    INTERNAL_CONFIGS,
    OWN_CONFIGS,
    SECTIONS,
    UPDATE_MODES,
)
from odradek.broker.process.options import read_config
from odradek.cluster.configs.config_def import ConfigError, ConfigType, to_text
from odradek.cluster.nodes import Endpoint
from odradek.log import LogConfig
from odradek.util.properties import parse_properties

GOLDEN = Path(__file__).parents[2] / "golden" / "cluster"


def _rows(kind: str, table: str = "config_tables") -> dict[str, dict[str, Any]]:
    with gzip.open(GOLDEN / f"{table}.jsonl.gz", "rt", encoding="utf-8") as file:
        return {row["name"]: row for row in map(json.loads, file) if row["kind"] == kind}


WIDER = {
    "group.coordinator.rebalance.protocols",
    "log.segment.bytes",
    "metadata.log.segment.bytes",
}
"""Values that only older releases take are taken by all: a test wants small segments."""


def test_the_table_is_kafkas() -> None:
    theirs = _rows("broker", "config_tables-4.4.0")
    assert list(BROKER_CONFIGS) == list(theirs)
    for name, key in BROKER_CONFIGS.items():
        row = theirs[name]
        ours = (key.type.name, key.default, key.importance)
        assert ours == (row["type"], row["default"], row["importance"].lower()), name
        assert (name in INTERNAL_CONFIGS) == row["internal"], name
        if key.validator is not None and name not in WIDER:
            assert key.validator.text == row["validator"], name


def test_what_4_4_has_no_more_is_as_3_9_had_it() -> None:
    theirs = _rows("broker")
    assert set(theirs) <= {*BROKER_CONFIGS, *GONE_CONFIGS}
    assert not set(BROKER_CONFIGS) & set(GONE_CONFIGS)
    for name in theirs.keys() & GONE_CONFIGS.keys():
        key, row = GONE_CONFIGS[name], theirs[name]
        ours = (key.type.name, key.default, key.importance)
        assert ours == (row["type"], row["default"], row["importance"].lower()), name
        assert UPDATE_MODES.get(name) == row["mode"], name
        assert (name in INTERNAL_CONFIGS) == row["internal"], name


def test_what_could_change_in_3_9_can_still() -> None:
    config = BrokerConfig({"odradek.kafka.version": "3.9"})
    for name, row in _rows("broker").items():
        assert config.update_mode(name) == row["mode"], name


def test_every_default_is_valid_and_printed_as_kafka_prints_it() -> None:
    for name, key in BROKER_CONFIGS.items():
        assert to_text(key.parse(key.default)) == key.default, name


def test_the_defaults_of_a_log_are_those_of_a_topic() -> None:
    log, topic = LogConfig(), BrokerConfig().topic_defaults()
    compared = 0
    for name, value in topic.items():
        ours = getattr(log, name.replace(".", "_"), None)
        if isinstance(ours, int | float | bool):
            assert ours == value, name
            compared += 1
    assert compared > 15


def test_every_config_is_declared_once_with_a_sentence_and_has_a_value_of_its_type() -> None:
    tables = (BROKER_CONFIGS, GONE_CONFIGS, DYNAMIC_ONLY_CONFIGS, OWN_CONFIGS)
    known = {name: key for table in tables for name, key in table.items()}
    declared = [one for base in BrokerConfig.__mro__ for one in vars(base).get("declared", ())]
    assert len(known) == sum(map(len, tables)) == len(declared)
    assert set(BROKER_DOCS) == set(known) and all(BROKER_DOCS.values())
    assert {one.section for one in declared} == set(SECTIONS)
    assert all(name == name.strip() and "_" not in name for name in known)
    config = BrokerConfig()
    types: dict[ConfigType, Any] = {
        ConfigType.BOOLEAN: bool,
        ConfigType.DOUBLE: float,
        ConfigType.LIST: list,
        ConfigType.INT: int,
        ConfigType.SHORT: int,
        ConfigType.LONG: int,
    }
    for name, key in known.items():
        value = getattr(config, name.replace(".", "_"))
        assert value is None or isinstance(value, types.get(key.type, str)), name
        assert value is not None or key.default is None, name


def test_configs_of_our_own_say_so_and_are_no_dynamic_ones() -> None:
    assert all(name.startswith("odradek.") for name in OWN_CONFIGS)
    config = BrokerConfig({"odradek.event.loop.stall.ms": "80"})
    assert config.odradek_event_loop_stall_ms == 80
    assert config.unknown == config.without_effect() == []
    assert [one.value for one in config.synonyms("odradek.event.loop.stall.ms")] == ["80", "50"]
    with pytest.raises(ConfigError, match="Cannot update these configs dynamically: \\[odradek"):
        config.validate_dynamic({"odradek.event.loop.stall.ms": "9"}, per_broker=True)
    with pytest.raises(ConfigError, match=r"odradek\.event\.loop\.stall\.ms"):
        BrokerConfig({"odradek.event.loop.stall.ms": "-1"})


@pytest.mark.parametrize(
    "case",
    [json.loads(line) for line in (GOLDEN / "properties.jsonl").read_text(encoding="utf-8").splitlines()],
)
def test_properties_are_read_as_java_reads_them(case: dict[str, Any]) -> None:
    assert parse_properties(case["text"]) == case["properties"]


def test_a_broken_escape_in_the_file_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("a=1\nb=\\uXYZW", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"server\.properties: line 2"):
        read_config(path, {})


def test_values_are_typed_and_attributes_are_kept() -> None:
    config = BrokerConfig({"num.partitions": " 3 ", "auto.create.topics.enable": "False"})
    assert config.num_partitions == 3
    assert config.auto_create_topics_enable is False
    assert config.log_cleaner_min_cleanable_ratio == 0.5
    assert config.log_cleanup_policy == ["delete"]
    assert config.log_retention_ms is None
    assert config.get("num.partitions") == 3
    with pytest.raises(AttributeError, match=r"no config 'no\.such\.thing'"):
        _ = config.no_such_thing  # type: ignore[attr-defined]
    with pytest.raises(KeyError):
        config.get("no.such")
    assert config_name("num_partitions") == "num.partitions"
    assert config_name("some_new_thing") == "some.new.thing"


def test_unknown_keys_are_listed_and_do_no_harm() -> None:
    config = BrokerConfig(
        {
            "num.partitions": "2",
            "no.such": "1",
            "another": "2",
            "listener.name.internal.ssl.key.password": "x",
        }
    )
    assert config.unknown == ["another", "no.such"]


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        (
            {"num.partitions": "0"},
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        (
            {"num.partitions": "x"},
            "Invalid value x for configuration num.partitions: Not a number of type INT",
        ),
        ({"log.dirs": " , "}, "At least one log directory"),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited"),
        ({"log.retention.hours": "0"}, "log.retention.ms must be unlimited"),
        ({"broker.id": "-2"}, "broker.id must be"),
        ({"broker.id": "1", "node.id": "2"}, "You must set `node.id` to the same value"),
        ({"listeners": "PLAINTEXT://h"}, "is not NAME://HOST:PORT"),
        ({"listeners": "h:9092"}, "is not NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://:99999"}, "is not NAME://HOST:PORT"),
        ({"listeners": "CLIENT://:9092"}, "No security protocol defined for listener CLIENT"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "different port"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "different name"),
        ({"listeners": " "}, "at least one listener"),
        ({"listener.security.protocol.map": "A:NOPE"}, "not a listener and its security protocol"),
        ({"advertised.listeners": "SSL://h:1"}, "equal to or a subset"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "nonroutable"),
        ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes must be"),
        ({"replica.fetch.wait.max.ms": "40000"}, "replica.fetch.wait.max.ms should"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(properties: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(properties)
    assert complaint in str(caught.value)


def test_a_file_is_read_with_overrides_and_named_in_complaints(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# a broker\nbroker.id=7\nlog.dirs=/a,\\\n  /b\nnum.partitions=4\nzookeeper.connect=h:2181/x\n",
        encoding="utf-8",
    )
    config = read_config(path, {"num.partitions": "5"})
    assert (config.broker_id, config.node_id, config.num_partitions) == (7, 7, 5)
    assert config.data_dirs == (Path("/a"), Path("/b"))
    assert config.zookeeper_connect == "h:2181/x"
    with pytest.raises(ConfigError, match=r"server\.properties: Invalid value"):
        read_config(path, {"num.partitions": "x"})
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path / "absent", {})


def test_values_can_stand_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("key=s3cret\n", encoding="utf-8")
    kind = "org.apache.kafka.common.config.provider.FileConfigProvider"
    providers = {"config.providers": "file", "config.providers.file.class": kind}
    config = BrokerConfig({**providers, "ssl.key.password": f"${{file:{tmp_path}/secrets.properties:key}}"})
    assert config.text_of("ssl.key.password") == "s3cret"
    assert config.unknown == [] and config.without_effect() == []
    with pytest.raises(ConfigError, match="Could not read properties from file /no/such/file: No such file"):
        BrokerConfig({**providers, "ssl.key.password": "${file:/no/such/file:key}"})
    with pytest.raises(ConfigError, match="there is no such provider here"):
        BrokerConfig({**providers, "config.providers.file.class": "com.example.Vault"})


def test_a_broker_that_is_alone_needs_no_three_brokers() -> None:
    alone, cluster = BrokerConfig(), BrokerConfig(standalone=False)
    assert (alone.broker_id, cluster.broker_id) == (0, -1)
    assert alone.offsets_topic_replication_factor == 1
    assert cluster.offsets_topic_replication_factor == 3
    given = BrokerConfig({"offsets.topic.replication.factor": "2", "node.id": "4"})
    assert (given.offsets_topic_replication_factor, given.broker_id) == (2, 4)
    over_zookeeper = BrokerConfig({"zookeeper.connect": "h:2181"})
    assert over_zookeeper.broker_id == 0
    assert over_zookeeper.offsets_topic_replication_factor == 3
    assert over_zookeeper.transaction_state_log_replication_factor == 3
    assert over_zookeeper.transaction_state_log_min_isr == 2
    assert given.is_given("node.id")
    assert not alone.is_given("broker.id")


def test_listeners_and_what_is_advertised() -> None:
    config = BrokerConfig(
        {
            "listeners": "internal://0.0.0.0:0,EXTERNAL://[::1]:9094",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SSL",
            "advertised.listeners": "EXTERNAL://broker.example:443,INTERNAL://:0",
        }
    )
    assert config.listener_endpoints == (
        Endpoint("INTERNAL", "0.0.0.0", 0),
        Endpoint("EXTERNAL", "::1", 9094, "SSL"),
    )
    assert config.registration_endpoints({"INTERNAL": 4711}, "127.0.0.1") == (
        Endpoint("EXTERNAL", "broker.example", 443, "SSL"),
        Endpoint("INTERNAL", "127.0.0.1", 4711),
    )


def test_the_names_before_listeners_still_work() -> None:
    config = BrokerConfig({"host.name": "127.0.0.1", "port": "9192"})
    assert config.listener_endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 9192),)
    assert config.advertised_endpoints == config.listener_endpoints
    advertised = BrokerConfig({"port": "9192", "advertised.host.name": "h", "advertised.port": "1"})
    assert advertised.advertised_endpoints == (Endpoint("PLAINTEXT", "h", 1),)
    assert BrokerConfig({"port": "1", "listeners": "PLAINTEXT://:2"}).listener_endpoints[0].port == 2


def test_topics_get_their_defaults_from_the_broker() -> None:
    config = BrokerConfig({"log.retention.minutes": "2", "log.roll.hours": "3", "message.max.bytes": "77"})
    defaults = config.topic_defaults()
    assert defaults["retention.ms"] == 120_000
    assert defaults["segment.ms"] == 3 * 3_600_000
    assert defaults["max.message.bytes"] == 77
    assert defaults["flush.ms"] == 2**63 - 1
    assert defaults["cleanup.policy"] == ["delete"]
    assert defaults["remote.storage.enable"] is False
    assert config.topic_default_texts() == {
        "retention.ms": "120000",
        "segment.ms": "10800000",
        "max.message.bytes": "77",
    }
    both = BrokerConfig({"log.retention.ms": "5", "log.retention.hours": "1"})
    assert both.topic_defaults()["retention.ms"] == 5


def test_dynamic_configs_lie_over_static_ones() -> None:
    config = BrokerConfig({"message.max.bytes": "100", "log.retention.hours": "1"})
    assert config.message_max_bytes == 100
    changed = update_dynamic(config, {"message.max.bytes": "200", "log.retention.ms": "9"}, {})
    assert changed == {"message.max.bytes", "log.retention.ms", "log.retention.hours"}
    assert config.message_max_bytes == 200
    assert config.topic_defaults()["retention.ms"] == 9
    assert update_dynamic(config, {"message.max.bytes": "200"}, {"message.max.bytes": "300"}) == {
        "message.max.bytes",
        "log.retention.ms",
        "log.retention.hours",
    }
    assert config.message_max_bytes == 300
    assert config.topic_defaults()["retention.ms"] == 3_600_000
    assert [(s.value, s.source) for s in config.synonyms("message.max.bytes")] == [
        ("300", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("200", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("100", ConfigSource.STATIC_BROKER_CONFIG),
        ("1048588", ConfigSource.DEFAULT_CONFIG),
    ]
    update_dynamic(config, {}, {})
    assert config.message_max_bytes == 100


def test_what_must_not_be_in_the_store_is_left_out() -> None:
    config = BrokerConfig()
    bad = {"num.partitions": "9", "message.max.bytes": "x", "log.segment.bytes": "1000", "custom.thing": "1"}
    assert update_dynamic(config, bad, {}) == {"log.segment.bytes", "custom.thing"}
    assert config.num_partitions == 1


@pytest.mark.parametrize(
    ("configs", "per_broker", "complaint"),
    [
        ({"num.partitions": "2"}, True, "Cannot update these configs dynamically: [num.partitions]"),
        ({"message.max.bytes": "x"}, True, "Not a number of type INT"),
        ({"listeners": "PLAINTEXT://:1"}, False, "Cannot update these configs at default cluster level"),
        ({"ssl.protocol": "TLSv1.3"}, True, "only per-listener"),
        ({"listener.name.x.ssl.protocol": "TLSv1.3"}, False, "Cannot update these configs at default"),
        ({"listener.name.x.ssl.key.password": "p"}, True, "Passwords cannot be kept"),
        (
            {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
            True,
            "conflict",
        ),
    ],
)
def test_dynamic_configs_that_cannot_be(configs: dict[str, str], per_broker: bool, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig().validate_dynamic(configs, per_broker=per_broker)
    assert complaint in str(caught.value)


def test_dynamic_configs_that_can_be() -> None:
    config = BrokerConfig()
    config.validate_dynamic(
        {"listener.name.x.max.connections": "5", "log.retention.ms": "1"}, per_broker=False
    )
    config.validate_dynamic({"listener.name.x.ssl.protocol": "TLSv1.3", "custom": "1"}, per_broker=True)
    assert update_mode("message.max.bytes") == "cluster-wide"
    assert update_mode("listeners") == "per-broker"
    assert update_mode("advertised.listeners") is None
    assert BrokerConfig({"odradek.kafka.version": "3.9"}).update_mode("advertised.listeners") == "per-broker"
    assert update_mode("num.partitions") is None
    assert base_name("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config") == "sasl.jaas.config"


def test_a_broker_of_a_cluster_has_a_listener_for_the_others() -> None:
    """As in Kafka; one that is alone needs none."""
    alone = {"listeners": "SASL_PLAINTEXT://127.0.0.1:9092"}
    BrokerConfig(alone)
    with pytest.raises(
        ConfigError, match=r"options .* are SASL_PLAINTEXT, and brokers talk by PLAINTEXT where"
    ):
        BrokerConfig({**alone, "zookeeper.connect": "h:1"})
    BrokerConfig({**alone, "zookeeper.connect": "h:1", "security.inter.broker.protocol": "SASL_PLAINTEXT"})
    BrokerConfig({**alone, "zookeeper.connect": "h:1", "inter.broker.listener.name": "SASL_PLAINTEXT"})
