"""What `odradek server` makes of a file, `--set`, `--host` and `--port`."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.broker.process.options import read_config, warn_of
from odradek.cluster.configs.config_def import ConfigError


def places(
    tmp_path: Path, file: str, host: str | None = None, port: int | None = None, **settings: str
) -> tuple[str, str]:
    """Where it listens, and what it advertises, before anything is bound."""
    path = tmp_path / "server.properties"
    path.write_text(file, encoding="utf-8")
    given = {name.replace("_", "."): text for name, text in settings.items()}
    config = read_config(path, given, host=host, port=port)
    return (
        " ".join(one.connection_string for one in config.listener_endpoints),
        " ".join(one.connection_string for one in config.advertised_endpoints),
    )


LISTENS = "listeners=PLAINTEXT://10.0.0.5:9092\n"
ADVERTISES = "advertised.listeners=PLAINTEXT://public:19092\n"
OLD = "host.name=10.0.0.5\nport=9092\nadvertised.host.name=public\nadvertised.port=19092\n"
TWO = (
    "listeners=IN://10.0.0.5:9092,OUT://:9093\nlistener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT\n"
    "advertised.listeners=OUT://public:443,IN://in:9092\n"
)


@pytest.mark.parametrize(
    ("file", "host", "port", "listens", "advertises"),
    [
        ("", None, None, "PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://127.0.0.1:9092"),
        ("", None, 1, "PLAINTEXT://127.0.0.1:1", "PLAINTEXT://127.0.0.1:1"),
        ("", "h", None, "PLAINTEXT://h:9092", "PLAINTEXT://h:9092"),
        ("", "::1", None, "PLAINTEXT://[::1]:9092", "PLAINTEXT://[::1]:9092"),
        ("", "0.0.0.0", 1, "PLAINTEXT://0.0.0.0:1", "PLAINTEXT://:1"),
        ("", "::", 1, "PLAINTEXT://[::]:1", "PLAINTEXT://:1"),
        (ADVERTISES, None, None, "PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://public:19092"),
        (LISTENS, None, None, "PLAINTEXT://10.0.0.5:9092", "PLAINTEXT://10.0.0.5:9092"),
        (LISTENS, None, 1, "PLAINTEXT://10.0.0.5:1", "PLAINTEXT://10.0.0.5:1"),
        (LISTENS, "h", None, "PLAINTEXT://h:9092", "PLAINTEXT://h:9092"),
        (LISTENS + ADVERTISES, None, 1, "PLAINTEXT://10.0.0.5:1", "PLAINTEXT://public:1"),
        (LISTENS + ADVERTISES, None, 0, "PLAINTEXT://10.0.0.5:0", "PLAINTEXT://public:0"),
        (LISTENS + ADVERTISES, "h", None, "PLAINTEXT://h:9092", "PLAINTEXT://h:19092"),
        (LISTENS + ADVERTISES, "h", 1, "PLAINTEXT://h:1", "PLAINTEXT://h:1"),
        (LISTENS + ADVERTISES, "0.0.0.0", None, "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://public:19092"),
        ("listeners=PLAINTEXT://0.0.0.0:9\n", "h", None, "PLAINTEXT://h:9", "PLAINTEXT://h:9"),
        ("listeners=PLAINTEXT://0.0.0.0:9\n", "0.0.0.0", None, "PLAINTEXT://0.0.0.0:9", "PLAINTEXT://:9"),
        (OLD, None, None, "PLAINTEXT://10.0.0.5:9092", "PLAINTEXT://public:19092"),
        (OLD, None, 1, "PLAINTEXT://10.0.0.5:1", "PLAINTEXT://public:1"),
        (OLD, "h", None, "PLAINTEXT://h:9092", "PLAINTEXT://h:19092"),
        (TWO, None, 1, "IN://10.0.0.5:1", "IN://in:1"),
    ],
)
def test_options_win(
    file: str, host: str | None, port: int | None, listens: str, advertises: str, tmp_path: Path
) -> None:
    assert places(tmp_path, file, host, port) == (listens, advertises)


def test_what_is_set_to_be_advertised_is_the_last_word(tmp_path: Path) -> None:
    given = {"advertised_listeners": "PLAINTEXT://proxy:443"}
    assert places(tmp_path, LISTENS + ADVERTISES, "0.0.0.0", 1, **given) == (
        "PLAINTEXT://0.0.0.0:1",
        "PLAINTEXT://proxy:443",
    )


@pytest.mark.parametrize(
    "file", ["listeners=PLAINTEXT://0.0.0.0:9\n", "host.name=0.0.0.0\n", "listeners=PLAINTEXT://[::]:9\n"]
)
def test_all_addresses_are_not_advertised(file: str, tmp_path: Path) -> None:
    for port in (None, 1):
        with pytest.raises(ConfigError, match="nonroutable meta-address"):
            places(tmp_path, file, port=port)


def test_a_fault_in_the_file_names_it(tmp_path: Path) -> None:
    for text in ("listeners=nonsense\n", "port=x\n", "num.partitions=x\n", "advertised.listeners=SSL://h\n"):
        with pytest.raises(ConfigError, match=r"server\.properties: "):
            places(tmp_path, text, port=1)
    with pytest.raises(ConfigError, match="absent cannot be read"):
        read_config(tmp_path / "absent", {})


def test_unknown_configs_are_told_with_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    warn_of(read_config(None, {"log.retension.hours": "1", "num.partition": "1", "zzz": "1"}))
    log_lines = [record.getMessage() for record in caplog.records]
    assert [line.removeprefix("unknown config is ignored name=") for line in log_lines] == [
        "log.retension.hours nearest=log.retention.hours,log.retention.ms,log.retention.minutes",
        "num.partition nearest=num.partitions",
        "zzz",
    ]
