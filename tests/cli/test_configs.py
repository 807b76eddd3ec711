"""`odradek configs` against a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import RunTool
from odradek import Admin
from odradek.util.java_text import java_double


def test_configs_of_a_topic(tool: RunTool, admin: Admin, name: str) -> None:
    admin.create_topics([name])
    where = ("--entity-type", "topics", "--entity-name", name)
    told = f"Completed updating config for topic {name}.\n"
    change = "retention.ms=1000,cleanup.policy=[compact,delete]"
    assert tool("configs", "--alter", *where, "--add-config", change).stdout == told
    assert tool("configs", "--describe", "--topic", name).stdout.splitlines() == [
        f"Dynamic configs for topic {name} are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy="
        "compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
    ]
    assert "\n  flush.ms=9223372036854775807 " in tool("configs", "--describe", *where, "--all").stdout
    assert tool("configs", "--alter", *where, "--delete-config", "retention.ms,cleanup.policy").stdout == told
    assert tool("configs", "--describe", *where).stdout == f"Dynamic configs for topic {name} are:\n"
    again = tool("configs", "--alter", *where, "--delete-config", "retention.ms", status=1)
    assert again.stderr == "Error: Invalid config(s): retention.ms\n"
    assert (
        f"Dynamic configs for topic {name} are:\n"
        in tool("configs", "--describe", "--entity-type", "topics").stdout
    )


def test_configs_of_brokers(tool: RunTool, tmp_path: Path) -> None:
    file = tmp_path / "more.properties"
    file.write_text("log.cleaner.threads=2\n", encoding="utf-8")
    assert (
        tool("configs", "--alter", "--broker", "0", "--add-config-file", str(file)).stdout
        == "Completed updating config for broker 0.\n"
    )
    assert (
        tool(
            "configs",
            "--alter",
            "--entity-type",
            "brokers",
            "--entity-default",
            "--add-config",
            "log.cleaner.threads=3",
        ).stdout
        == "Completed updating default config for brokers in the cluster.\n"
    )
    described = tool("configs", "--describe", "--entity-type", "brokers").stdout.splitlines()
    assert [line for line in described if "log.cleaner.threads" in line or "configs" in line] == [
        "Dynamic configs for broker 0 are:",
        "  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=3, DEFAULT_CONFIG:log.cleaner.threads=1}",
        "Default configs for brokers in the cluster are:",
        "  log.cleaner.threads=3 sensitive=false "
        "synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=3}",
    ]
    for words in (("--broker", "0"), ("--broker-defaults",)):
        tool("configs", "--alter", *words, "--delete-config", "log.cleaner.threads")
    assert "log.cleaner.threads" not in tool("configs", "--describe", "--entity-type", "brokers").stdout


ENTITIES = [
    (("--user", "{n}"), "user-principal '{n}'", "user {n}"),
    (("--entity-type", "users", "--entity-name", "{n} ü/%"), "user-principal '{n} ü/%'", "user {n} ü/%"),
    (("--client", "{n}"), "client-id '{n}'", "client {n}"),
    (
        ("--entity-type", "users", "--entity-name", "{n}", "--entity-type", "clients", "--entity-name", "c"),
        "user-principal '{n}', client-id 'c'",
        "user {n}",
    ),
    (
        ("--entity-type", "clients", "--entity-default", "--entity-type", "users", "--entity-name", "{n}"),
        "user-principal '{n}', the default client-id",
        None,
    ),
    (
        ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "{n}"),
        "the default user-principal, client-id '{n}'",
        None,
    ),
]


@pytest.mark.parametrize(("words", "described", "told"), ENTITIES)
def test_quotas(tool: RunTool, name: str, words: tuple[str, ...], described: str, told: str | None) -> None:
    where = [word.format(n=name) for word in words]
    added = (
        "producer_byte_rate=1024,consumer_byte_rate=20000000,request_percentage=12.5,"
        "controller_mutation_rate=0.5"
    )
    done = tool("configs", "--alter", *where, "--add-config", added).stdout
    kind = where[1] if where[0] == "--entity-type" else where[0][2:] + "s"
    assert done == (
        f"Completed updating default config for {kind} in the cluster.\n"
        if told is None
        else f"Completed updating config for {told.format(n=name)}.\n"
    )
    assert tool("configs", "--describe", *where).stdout == (
        f"Quota configs for {described.format(n=name)} are consumer_byte_rate=2.0E7, "
        "controller_mutation_rate=0.5, producer_byte_rate=1024.0, request_percentage=12.5\n"
    )
    tool("configs", "--alter", *where, "--delete-config", "consumer_byte_rate,producer_byte_rate")
    tool(
        "configs",
        "--alter",
        *where,
        "--delete-config",
        "request_percentage",
        "--delete-config",
        "controller_mutation_rate",
    )
    assert tool("configs", "--describe", *where).stdout == ""


def test_quotas_of_all_of_a_type(tool: RunTool, name: str) -> None:
    for number in (2, 1):
        tool("configs", "--alter", "--user", f"{name}-{number}", "--add-config", "producer_byte_rate=1")
    tool("configs", "--alter", "--user-defaults", "--add-config", "producer_byte_rate=5")
    found = tool("configs", "--describe", "--entity-type", "users").stdout.splitlines()
    assert found[0] == "Quota configs for the default user-principal are producer_byte_rate=5.0"
    assert [line for line in found if name in line] == [
        f"Quota configs for user-principal '{name}-{number}' are producer_byte_rate=1.0" for number in (1, 2)
    ]
    tool("configs", "--alter", "--user-defaults", "--delete-config", "producer_byte_rate")


def test_connection_rates_of_addresses(tool: RunTool) -> None:
    for words, described in ((("--ip", "10.1.2.3"), "ip '10.1.2.3'"), (("--ip-defaults",), "the default ip")):
        tool("configs", "--alter", *words, "--add-config", "connection_creation_rate=100000")
        line = f"Quota configs for {described} are connection_creation_rate=100000.0\n"
        assert tool("configs", "--describe", *words).stdout == line
        tool("configs", "--alter", *words, "--delete-config", "connection_creation_rate")


def test_scram_credentials(tool: RunTool, name: str) -> None:
    where = ("--entity-type", "users", "--entity-name", name)
    assert tool("configs", "--describe", *where).stdout == ""
    added = "SCRAM-SHA-256=[iterations=8192,password=alice-secret],SCRAM-SHA-512=[password=x]"
    tool("configs", "--alter", *where, "--add-config", added)
    tool("configs", "--alter", *where, "--add-config", "producer_byte_rate=7")
    assert tool("configs", "--describe", *where).stdout == (
        f"Quota configs for user-principal '{name}' are producer_byte_rate=7.0\n"
        f"SCRAM credential configs for user-principal '{name}' are "
        "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096\n"
    )
    tool("configs", "--alter", *where, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    tool("configs", "--alter", *where, "--delete-config", "producer_byte_rate")
    assert tool("configs", "--describe", *where).stdout == ""


USER, ADD = ("--entity-type", "users", "--entity-name", "u"), ("--add-config", "producer_byte_rate=1")
REFUSED = [
    ((*USER, *ADD), "Command must include exactly one action: --describe, --alter"),
    (("--describe", *USER, *ADD), 'Option "[describe]" can\'t be used with option "[add-config]"'),
    (("--alter", *ADD), "At least one entity type must be specified"),
    (("--alter", "--entity-type", "cats", *ADD), "Invalid entity type cats, the entity type must be one of"),
    (("--alter", *USER, "--entity-type", "topics", "--entity-name", "t", *ADD), "Only 'users' and 'clients'"),
    (("--alter", *USER, *USER, *ADD), "Duplicate entity type(s) specified: users"),
    (("--alter", "--entity-type", "users", *ADD), "An entity-name or default entity must be specified"),
    (("--alter", "--entity-type", "topics", *ADD), "An entity name must be specified with --alter of topics"),
    (
        ("--alter", *USER, "--entity-type", "clients", *ADD),
        "An entity name must be specified for every entity type",
    ),
    (("--alter", *USER), "At least one of --add-config, --add-config-file, or --delete-config"),
    (
        ("--alter", *USER, "--client", "c", *ADD),
        "should not be used in conjunction with specific entity flags",
    ),
    (("--alter", "--broker", "one", *ADD), "must be a valid integer broker id, but it is: one"),
    (("--describe", "--entity-type", "topics", "--entity-default"), "--entity-default must not be specified"),
    (("--alter", *USER, "--add-config", "producer_byte_rate"), 'in the format "key=val"'),
    (("--alter", *USER, "--add-config", "produ cer=1"), "Invalid character found for config key: produ cer"),
    (("--alter", *USER, "--add-config", "producer_byte_rate=a"), "Cannot parse quota configuration value"),
    (
        ("--alter", *USER, "--add-config", "retention.ms=1"),
        "Only quota and SCRAM credential configs can be added",
    ),
    (("--alter", *USER, "--delete-config", "producer_byte_rate"), "Invalid config(s): producer_byte_rate"),
    (
        ("--alter", "--client", "c", "--add-config", "SCRAM-SHA-256=[password=secret]"),
        "Only quota configs can be added",
    ),
    (("--alter", "--ip", "10.0.0.1", *ADD), "Only connection quota configs can be added for 'ips'"),
    (
        ("--alter", "--user-defaults", "--add-config", "SCRAM-SHA-256=[password=secret]"),
        "is not allowed with User SCRAM",
    ),
    (("--alter", *USER, "--add-config", "SCRAM-SHA-256=secret"), "Invalid credential property SCRAM-SHA-256"),
    (
        ("--alter", *USER, "--add-config", "SCRAM-SHA-256=[iterations=1,password=secret]"),
        "Iterations 1 is less than the minimum 4096",
    ),
    (
        ("--alter", *USER, "--add-config", "SCRAM-SHA-256=[password=secret],producer_byte_rate=1"),
        "Cannot alter both quota and SCRAM credential configs simultaneously",
    ),
    (("--alter", "--topic", "absent-topic", "--add-config", "retention.ms=1"), "has no such topic"),
]


@pytest.mark.parametrize(("words", "why"), REFUSED)
def test_what_cannot_be_is_refused_in_kafkas_words(tool: RunTool, words: tuple[str, ...], why: str) -> None:
    refused = tool("configs", *words, status=1)
    assert why in refused.stderr
    assert "secret" not in refused.output


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (1024.0, "1024.0"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12_345_678.9, "1.23456789E7"),
        (9.223372036854775e18, "9.223372036854775E18"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (1e-5, "1.0E-5"),
        (-2.5e10, "-2.5E10"),
        (123456789012345680.0, "1.2345678901234568E17"),
        (51255482385.67197, "5.125548238567197E10"),
        (13944062929963.682, "1.3944062929963682E13"),
    ],
)
def test_numbers_are_written_as_java_does(number: float, text: str) -> None:
    assert java_double(number) == text
