"""Each config that a client declares is read somewhere, or its values are refused but for one."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import odradek
from odradek.client.config import AdminConfig, CommonConfig, ConsumerConfig, ProducerConfig, build
from odradek.client.errors import ConfigError

PACKAGE = Path(odradek.__file__).parent
CONFIG = PACKAGE / "client/config.py"

BY_OTHER_NAMES = {
    # The one of the codec, see `ProducerConfig.compression_level`.
    "compression_gzip_level": "compression_level",
    "compression_lz4_level": "compression_level",
    "compression_zstd_level": "compression_level",
    "security_protocol": "security",
}
ONE_VALUE = {"group_protocol": ("classic", "consumer")}
"""Configs of which one value is what there is, and another one of Kafka's that is refused."""

DECLARED = sorted({one.name for of in (ProducerConfig, ConsumerConfig, AdminConfig) for one in fields(of)})


def _sources() -> str:
    files = [*(PACKAGE / "client").rglob("*.py"), *(PACKAGE / "spark").rglob("*.py")]
    return "\n".join(path.read_text(encoding="utf-8") for path in files if path != CONFIG)


SOURCES = _sources()


@pytest.mark.parametrize("name", [one for one in DECLARED if one not in ONE_VALUE])
def test_a_declared_config_is_read(name: str) -> None:
    attribute = BY_OTHER_NAMES.get(name, name)
    assert re.search(rf"\b_?config\.{attribute}\b", SOURCES), f"nobody reads {name}"


@pytest.mark.parametrize("name", ONE_VALUE)
def test_what_is_not_there_is_refused(name: str) -> None:
    there, refused = ONE_VALUE[name]
    servers = {"bootstrap_servers": "localhost"}
    assert getattr(build(ConsumerConfig, {**servers, name: there}), name) == there
    with pytest.raises(ConfigError, match=name.replace("_", ".")):
        build(ConsumerConfig, {**servers, name: refused})


def test_all_are_looked_at() -> None:
    assert {one.name for one in fields(CommonConfig)} <= set(DECLARED)
    assert set(BY_OTHER_NAMES) | set(ONE_VALUE) <= set(DECLARED)
