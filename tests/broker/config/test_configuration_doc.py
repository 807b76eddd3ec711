"""docs/configuration.md is made from the tables: this keeps it so. `UPDATE_DOCS=1` writes it anew."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from odradek.broker.config.broker_config import STANDALONE_DEFAULTS, BrokerConfig
from odradek.broker.config.effect import EFFECTIVE_BROKER_CONFIGS, EFFECTIVE_TOPIC_CONFIGS
from odradek.broker.config.table import (
    BROKER_CONFIGS,
    DYNAMIC_ONLY_CONFIGS,
    GONE_CONFIGS,
    INTERNAL_CONFIGS,
    OWN_CONFIGS,
    SECTIONS,
    UPDATE_MODES,
)
from odradek.cluster.configs.config_def import ConfigKey
from odradek.cluster.configs.topic_config import SYNONYMS, TOPIC_CONFIGS, TOPIC_DOCS
from odradek.replication.replication_quota import FOLLOWER_REPLICAS, LEADER_REPLICAS
from odradek.sasl.assertions import PREFIX as ASSERTION

ROOT = Path(__file__).parents[3]
DOC = ROOT / "docs" / "configuration.md"
KNOWN = {**BROKER_CONFIGS, **GONE_CONFIGS, **DYNAMIC_ONLY_CONFIGS, **OWN_CONFIGS}

INTRODUCTION = """# Configuration

<!-- Made by tests/broker/config/test_configuration_doc.py of the code's tables; UPDATE_DOCS=1 writes it. -->

This page lists every config of topics and brokers, for those who set up a broker or look up a name. A
`server.properties` of Kafka can be used as it is, but for what asks for a login, authorization or a quorum
of KRaft. If a broker does not start, its last line says why
([tools.md](tools.md#troubleshooting-a-broker-that-does-not-start)).

## Where configs come from

- The start gives them: `odradek server --config FILE` (Java's properties format) and `--set name=value`,
  which wins over the file.
- In tests they are keywords of `odradek.testing.Broker`, with underscores: `num_partitions=3`.
- The metadata store has those that were changed while the broker runs (AlterConfigs), for this broker or
  for all brokers.

The strongest wins, in this order: set for this broker while it runs, set for all brokers while they run,
given at the start, default. A topic's own configs win over the broker's. The broker warns of names that
Kafka does not know and otherwise ignores them. A value that its config cannot have stops the start.

The names, types and defaults are those of Apache Kafka 4.4, and of older releases for configs that 4.4 does
not have. The limits are the widest that any release has. A broker that is told to be a release
(`odradek.kafka.version`) has that release's defaults ([kafka_versions.md](kafka_versions.md)).

**Where to listen.** `--host` and `--port` say where to listen *and* what to advertise, whatever the file
says of either. What they leave open is taken from the file. `--set advertised.listeners=…` has the last
word. The broker can listen on 0.0.0.0, but never advertises it. With `--host 0.0.0.0` it advertises the
host of the file's `advertised.listeners`, else this machine's name. 0.0.0.0 in `listeners` alone is
refused, as by Kafka.

**Security.** [security.md](security.md) says what is there. A broker does not start when its configs ask
for protection that it does not have, because it would serve everybody everything. The message names the
configs. They are an `authorizer.class.name` that is not Kafka's, `super.users` without an authorizer, a
class of Java's to log in by, logins or keys of delegation tokens without a listener that has SASL, classes
of policies, and several KRaft voters. Remove them, or say `--insecure` (`odradek.insecure=true`) if the
broker may do without; it then warns of each. Passwords in dynamic configs need `password.encoder.secret`.
Quotas are in [quotas.md](quotas.md).

## What can change while the broker runs

The column *update* says `read-only` for a config that is read at the start only, and `per-broker` or
`cluster-wide` for one that can change while the broker runs.

The broker judges such a change as a start would, by all configs as they would be then. It also looks at
what holds while it runs: bounds of connections must leave room for somebody, and pools of threads grow to
their double at most. What does not pass is INVALID_REQUEST, as from Kafka's brokers. `listeners`, and the
protocols of the listeners that there are, stay what they were at the start: give new ones in
`server.properties`.

A tool that asks ZooKeeper, or another release, can still write values into the store that do not pass. The
broker passes over them, at a start too, and the log says so with the reason (`a dynamic config is passed
over name=…`).

## Which configs have an effect

**●** marks the configs that this release acts upon. The others are read, checked, kept and shown to tools,
and change nothing yet. The broker warns when such a config is given, at the start or while it runs (`config
has no effect here`).

DescribeConfigs lists the configs of the release that the broker is, else those of 4.3, and whatever else
was given. Names, values, types, sources and order are Kafka's; they are compared with recorded answers of
each release from 0.11 on. So configs are listed too that change nothing here. To have them is harmless, and
at their defaults they promise nothing. These things differ:

- A broker that is alone has the defaults [below](#brokers).
- Configs that came with 4.4 are not known.
- Releases before 2.6 may have a few names in another order.
- From 4.1 on `min.insync.replicas` is one for all brokers from the start (KIP-966), as in Kafka, though
  nothing is stored for it.

`num.recovery.threads.per.data.dir` changes nothing on purpose. Threads share one interpreter, and most of a
recovery is many short steps. To read 10,000 unflushed segments of 1,000 partitions (90 MB) takes 0.9 s of
CPU without threads, and 1.8 to 2.0 s with a pool of one or two. Where batches are large there is little to
win: 1.1 GB in batches of 0.9 MB take 0.3 s of CPU, less than most disks take to read them.
"""


def _cell(text: str | None) -> str:
    if text is None:
        return ""
    return f"`{text}`".replace("|", "\\|") if text else '""'


def _row(key: ConfigKey, cells: Iterable[str]) -> str:
    limits = "" if key.validator is None else key.validator.text
    if limits == "[...]" or limits.startswith("["):
        limits = f"`{limits}`"
    fixed = [f"`{key.name}`", key.type.name.lower(), _cell(key.default), limits.replace("|", "\\|")]
    return f"| {' | '.join([*fixed, *cells])} |"


def _mark(effective: bool) -> str:
    return "●" if effective else ""


def render() -> str:
    """The page."""
    parts = [
        INTRODUCTION,
        "## Topics\n",
        "| config | type | default | values | broker config | | what it is for |",
    ]
    parts.append("|---|---|---|---|---|---|---|")
    for name, key in sorted(TOPIC_CONFIGS.items()):
        brokers = ", ".join(f"`{broker}`" for broker, _ in SYNONYMS.get(name, ()))
        parts.append(_row(key, [brokers, _mark(name in EFFECTIVE_TOPIC_CONFIGS), TOPIC_DOCS[name]]))
    alone = ", ".join(f"`{name}={value}`" for name, value in STANDALONE_DEFAULTS.items())
    parts.append(f"\n## Brokers\n\nA broker that is alone has these in place of Kafka's defaults: {alone}.")
    for section, docs in SECTIONS.items():
        parts.append(f"\n### {section}\n")
        parts.append("| config | type | default | values | update | | what it is for |")
        parts.append("|---|---|---|---|---|---|---|")
        for name in sorted(docs):
            if name in INTERNAL_CONFIGS:
                continue
            mode = UPDATE_MODES.get(name, "cluster-wide" if name in DYNAMIC_ONLY_CONFIGS else "read-only")
            parts.append(_row(KNOWN[name], [mode, _mark(name in EFFECTIVE_BROKER_CONFIGS), docs[name]]))
    return "\n".join(parts) + "\n"


def test_the_page_is_made_from_the_tables() -> None:
    text = render()
    if os.environ.get("UPDATE_DOCS"):
        DOC.write_text(text, encoding="utf-8")
    assert DOC.read_text(encoding="utf-8") == text, "run with UPDATE_DOCS=1"


VIA = {
    # Read by a property of BrokerConfig of another name.
    "advertised.host.name": "advertised_host_name",
    # Variables are replaced before there is a BrokerConfig.
    "config.providers": "given",
    "advertised.listeners": "advertised_listeners",
    "advertised.port": "advertised_port",
    "host.name": "host_name",
    "listener.security.protocol.map": "listener_security_protocol_map",
    "listeners": "listeners",
    "log.dir": "log_dir",
    "log.dirs": "log_dirs",
    "node.id": "node_id",
    "port": "port",
}
GENERATED = {
    "broker/config/table.py",
    "broker/config/declared/coordinators.py",
    "broker/config/declared/gone.py",
    "broker/config/declared/groups.py",
    "broker/config/declared/logs.py",
    "broker/config/declared/own.py",
    "broker/config/declared/remote_storage.py",
    "broker/config/declared/security.py",
    "broker/config/declared/server.py",
    "broker/config/effect.py",
    "cluster/configs/topic_config.py",
}


def _sources() -> str:
    package = ROOT / "src" / "odradek"
    assert all((package / name).is_file() for name in GENERATED)
    folders = ("broker", "cluster", "coordinators", "log", "replication", "sasl", "security")
    files = {p for folder in folders for p in (package / folder).rglob("*.py")}
    return "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(files - {package / name for name in GENERATED})
    )


def test_what_is_said_to_have_an_effect_is_used_somewhere() -> None:
    sources = _sources()
    of_topics = {broker for name in EFFECTIVE_TOPIC_CONFIGS for broker, _ in SYNONYMS.get(name, ())}
    # Put together of a prefix and their ends: tests/sasl/test_assertions.py.
    of_assertions = {name for name in EFFECTIVE_BROKER_CONFIGS if name.startswith(ASSERTION)}
    for name in EFFECTIVE_BROKER_CONFIGS - of_topics - of_assertions:
        attribute = VIA.get(name, name.replace(".", "_"))
        read = rf"(config|self)\.{attribute}\b"
        # Those of a listener are read by their names.
        assert re.search(read, sources) or re.search(rf'[".]{re.escape(name)}"', sources), name
    by_name = {"cleanup.policy", "unclean.leader.election.enable", LEADER_REPLICAS, FOLLOWER_REPLICAS}
    for name in EFFECTIVE_TOPIC_CONFIGS - by_name:
        assert re.search(rf"config\.{name.replace('.', '_')}\b", sources), name


def test_what_is_said_to_have_no_effect_is_used_nowhere() -> None:
    """Who gives it is told that it changes nothing (`BrokerConfig.without_effect`)."""
    sources = _sources()
    used = [
        name
        for name in KNOWN.keys() - EFFECTIVE_BROKER_CONFIGS
        if re.search(rf"config\.{name.replace('.', '_')}\b", sources)
    ]
    assert used == []
    of_topics = [
        name
        for name in TOPIC_CONFIGS.keys() - EFFECTIVE_TOPIC_CONFIGS
        if re.search(rf"(topic_config|log_config|rules|log\.config)\.{name.replace('.', '_')}\b", sources)
    ]
    assert of_topics == []


def test_every_name_is_known() -> None:
    assert set(TOPIC_CONFIGS) >= EFFECTIVE_TOPIC_CONFIGS
    assert set(KNOWN) >= EFFECTIVE_BROKER_CONFIGS


def test_what_is_given_without_effect_is_listed() -> None:
    config = BrokerConfig({"num.io.threads": "8", "num.partitions": "2", "no.such": "1", "process.roles": ""})
    assert config.without_effect() == ["num.io.threads", "process.roles"]
    assert config.unknown == ["no.such"]
