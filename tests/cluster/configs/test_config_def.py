"""Reading and checking configs: Kafka's answers for every topic config, and the tables themselves."""

from __future__ import annotations

import pytest

from odradek.cluster.configs.config_def import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    ConfigError,
    ConfigKey,
    ConfigType,
    incremental,
    to_text,
)
from odradek.cluster.configs.topic_config import (
    SYNONYMS,
    TOPIC_CONFIGS,
    TOPIC_DOCS,
    parse_topic_configs,
    validate_topic_configs,
)
from odradek.util.java_text import java_double

from ..golden import cluster_lines


def test_every_value_of_every_topic_config_is_read_as_kafka_reads_it() -> None:
    compared = 0
    for case in cluster_lines("topic_config_values"):
        name, text = case["name"], case["value"]
        try:
            ours: dict[str, str | None] = {"parsed": to_text(parse_topic_configs({name: text})[name])}
        except ConfigError as error:
            ours = {"error": str(error)}
        theirs = {key: case[key] for key in ("parsed", "error") if key in case}
        assert ours == theirs
        compared += 1
    assert compared > 1800


def test_the_table_is_kafkas() -> None:
    newest = {row["name"]: row for row in cluster_lines("config_tables-4.4.0") if row["kind"] == "topic"}
    # For tests of Kafka's own, and in no listing.
    del newest["internal.segment.bytes"]
    older = {row["name"]: row for row in cluster_lines("config_tables") if row["kind"] == "topic"}
    assert [name for name in TOPIC_CONFIGS if name in newest] == list(newest)
    assert set(TOPIC_CONFIGS) == {*newest, *older}
    for name, key in TOPIC_CONFIGS.items():
        row = newest.get(name) or older[name]
        assert (key.type.name, key.default, key.importance) == (
            row["type"],
            row["default"],
            row["importance"].lower(),
        )
    assert all(TOPIC_DOCS[name] for name in TOPIC_CONFIGS)


def test_every_default_is_a_valid_value() -> None:
    for key in TOPIC_CONFIGS.values():
        assert to_text(key.parse(key.default)) == key.default


def test_synonyms_are_of_known_topic_configs_only() -> None:
    without = set(TOPIC_CONFIGS) - set(SYNONYMS)
    assert without == {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "errors.deadletterqueue.group.enable",
    }


def test_doubles_are_printed_as_java_does() -> None:
    for text, java in cluster_lines("doubles"):
        assert java_double(float.fromhex(text)) == java
    assert java_double(float("nan")) == "NaN"
    assert java_double(float("-inf")) == "-Infinity"


def test_unknown_names_and_contradictions_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^Unknown topic config name: no\.such$"):
        validate_topic_configs({"no.such": "1"}, {})
    with pytest.raises(ConfigError, match="conflict topic config setting"):
        validate_topic_configs({"min.compaction.lag.ms": "9"}, {"max.compaction.lag.ms": 8})
    validate_topic_configs({"min.compaction.lag.ms": "8"}, {"max.compaction.lag.ms": 8})
    with pytest.raises(ConfigError, match="Tiered Storage"):
        validate_topic_configs({"remote.storage.enable": "true"}, {})
    with pytest.raises(ConfigError, match="Zookeeper's mode"):
        validate_topic_configs({"remote.log.copy.disable": "true"}, {})


def test_a_password_is_never_in_a_complaint() -> None:
    from odradek.cluster.configs.config_def import HIDDEN, one_of

    key = ConfigKey("secret", ConfigType.PASSWORD, None, validator=one_of("x"))
    with pytest.raises(ConfigError) as caught:
        key.parse("hunter2")
    assert "hunter2" not in str(caught.value)
    assert HIDDEN in str(caught.value)


KEYS = {
    "list": ConfigKey("list", ConfigType.LIST, "a,b"),
    "text": ConfigKey("text", ConfigType.STRING, "x"),
}


@pytest.mark.parametrize(
    ("current", "operation", "after"),
    [
        ({}, ("text", SET, "1"), {"text": "1"}),
        ({"text": "1"}, ("text", DELETE, None), {}),
        ({}, ("text", DELETE, None), {}),
        ({"list": "c"}, ("list", APPEND, "d"), {"list": "c,d"}),
        ({"list": "c"}, ("list", APPEND, "c"), {"list": "c"}),
        ({}, ("list", APPEND, "c"), {"list": "a,b,c"}),
        ({}, ("list", SUBTRACT, "a"), {"list": "b"}),
        ({"list": "c,d"}, ("list", SUBTRACT, "d,e"), {"list": "c"}),
        ({"list": "c"}, ("list", SUBTRACT, "c"), {"list": ""}),
        ({"list": ""}, ("list", APPEND, "c"), {"list": "c"}),
    ],
)
def test_incremental_operations(
    current: dict[str, str], operation: tuple[str, int, str | None], after: dict[str, str]
) -> None:
    before = dict(current)
    assert incremental(current, [operation], KEYS) == after
    assert current == before


@pytest.mark.parametrize(
    ("operation", "complaint"),
    [
        (("text", APPEND, "1"), "Config value append is not allowed for config key: text"),
        (("text", SUBTRACT, "1"), "Config value subtract is not allowed for config key: text"),
        (("other", APPEND, "1"), "Unknown config name: other"),
        (("text", 9, "1"), "Unknown operations type 9"),
    ],
)
def test_incremental_operations_that_cannot_be(
    operation: tuple[str, int, str | None], complaint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        incremental({}, [operation], KEYS)
    assert str(caught.value) == complaint
