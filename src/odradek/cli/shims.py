"""`odradek shims`: scripts with the names of Kafka's `bin/*.sh`, so that runbooks find odradek's tools."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from odradek.cli.tool import Tool, echo_lines
from odradek.errors import OdradekError
from odradek.util.own_python import module_command

#: Kafka's script → our tool. The scripts are those of 4.3.
SCRIPTS: Mapping[str, str] = {
    f"kafka-{name}.sh": tool
    for name, tool in {
        "acls": "acls",
        "broker-api-versions": "broker-api-versions",
        "client-metrics": "client-metrics",
        "cluster": "cluster",
        "configs": "configs",
        "console-consumer": "console-consumer",
        "console-producer": "console-producer",
        "consumer-groups": "consumer-groups",
        "consumer-perf-test": "consumer-perf-test",
        "delegation-tokens": "delegation-tokens",
        "delete-records": "delete-records",
        "dump-log": "dump-log",
        "e2e-latency": "e2e-latency",
        "features": "features",
        "get-offsets": "get-offsets",
        "groups": "groups",
        "leader-election": "leader-election",
        "log-dirs": "log-dirs",
        "producer-perf-test": "producer-perf-test",
        "reassign-partitions": "reassign-partitions",
        "replica-verification": "replica-verification",
        "server-start": "server",
        "server-stop": "server-stop",
        "storage": "storage",
        "topics": "topics",
        "transactions": "transactions",
        "verifiable-consumer": "verifiable-consumer",
        "verifiable-producer": "verifiable-producer",
    }.items()
}
#: What else is in the `bin` of 4.3 and of releases with ZooKeeper.
WITHOUT_TOOL = (
    "connect-distributed.sh",
    "connect-mirror-maker.sh",
    "connect-plugin-path.sh",
    "connect-standalone.sh",
    "kafka-console-share-consumer.sh",
    "kafka-jmx.sh",
    "kafka-metadata-quorum.sh",
    "kafka-metadata-shell.sh",
    "kafka-mirror-maker.sh",
    "kafka-preferred-replica-election.sh",
    "kafka-share-consumer-perf-test.sh",
    "kafka-share-groups.sh",
    "kafka-streams-application-reset.sh",
    "kafka-streams-groups.sh",
    "kafka-verifiable-share-consumer.sh",
    "trogdor.sh",
    "zookeeper-security-migration.sh",
    "zookeeper-server-start.sh",
    "zookeeper-server-stop.sh",
    "zookeeper-shell.sh",
)
RUN_CLASS = "kafka-run-class.sh"
#: The last part of a class that `kafka-run-class.sh` is given → our tool. Older runbooks call them so.
CLASSES: Mapping[str, str] = {
    "AclCommand": "acls",
    "BrokerApiVersionsCommand": "broker-api-versions",
    "ClientMetricsCommand": "client-metrics",
    "ConfigCommand": "configs",
    "ConsoleConsumer": "console-consumer",
    "ConsoleProducer": "console-producer",
    "ConsumerGroupCommand": "consumer-groups",
    "ConsumerPerformance": "consumer-perf-test",
    "DelegationTokenCommand": "delegation-tokens",
    "DeleteRecordsCommand": "delete-records",
    "DumpLogSegments": "dump-log",
    "EndToEndLatency": "e2e-latency",
    "GetOffsetShell": "get-offsets",
    "Kafka": "server",
    "LeaderElectionCommand": "leader-election",
    "LogDirsCommand": "log-dirs",
    "ProducerPerformance": "producer-perf-test",
    "ReassignPartitionsCommand": "reassign-partitions",
    "ReplicaVerificationTool": "replica-verification",
    "TopicCommand": "topics",
    "TransactionsCommand": "transactions",
    "VerifiableConsumer": "verifiable-consumer",
    "VerifiableProducer": "verifiable-producer",
}
_HEAD = "#!/bin/sh\n# Written by `odradek shims`, which may overwrite it.\n"


@click.command(cls=Tool, name="shims")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
def command(folder: Path) -> None:
    """Write kafka-topics.sh, kafka-console-producer.sh, … into DIR: Kafka's scripts by odradek's tools.

    DIR is made if it is missing. Files that others wrote are not overwritten.
    """
    scripts = {name: _HEAD + f'exec {_words(tool)} "$@"\n' for name, tool in SCRIPTS.items()}
    scripts[RUN_CLASS] = _HEAD + _run_class()
    foreign = sorted(name for name in scripts if not _may_write(folder / name))
    if foreign:
        raise OdradekError(
            f"{folder} has files that `odradek shims` did not write: {', '.join(foreign)}. Choose another "
            "folder, or remove them. Nothing was written"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in scripts.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | 0o111)
    echo_lines([f"{folder / name}" for name in sorted(scripts)])
    click.echo(f"No tool for: {', '.join(WITHOUT_TOOL)}", err=True)


def _may_write(path: Path) -> bool:
    if not path.exists() and not path.is_symlink():
        return True
    return path.is_file() and path.read_bytes().startswith(_HEAD.encode())


def _words(*words: str) -> str:
    return shlex.join(module_command("odradek", *words))


def _run_class() -> str:
    """The script that is given the class of a tool, with or without options of its own in front."""
    lines: Iterable[str] = (
        'while [ $# -gt 0 ]; do case "$1" in -name) shift 2;; -loggc) shift;; -daemon) daemon=$1; shift;; '
        "*) break;; esac; done",
        'class=$1; [ $# -gt 0 ] && shift; case "${class##*.}" in',
        *(f"{name}) tool={tool};;" for name, tool in CLASSES.items()),
        "*) echo \"Error: odradek has no tool for the class '$class'\" >&2; exit 1;;",
        "esac",
        f'exec {_words()} "$tool" $daemon "$@"',
    )
    return "".join(f"{line}\n" for line in lines)
