"""odradek's tools beside Kafka's own of two releases, on the same broker: same words in, same lines out.

Kafka's tools run many calls in one JVM (`kafka_tools`). Where its releases differ among themselves, odradek
follows the newest; `docs/tools.md` has the rest.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from interop import kafka_peer
from interop.kafka_tools import KafkaTools, Outcome
from odradek import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer
from odradek.cli.main import main
from odradek.testing import Broker
from waiting import until

pytestmark = pytest.mark.interop

NEWEST, OLD = kafka_peer.NEWEST, "2.2.2"
#: When the first records of a topic were made, and a time between others.
BEGAN_MS = int(time.time() * 1000) - 3_600_000
BETWEEN = datetime.fromtimestamp((BEGAN_MS + 4500) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")


@pytest.fixture(scope="module")
def broker(kafka_toolchain: None) -> Iterator[Broker]:
    """A broker with topics, records and groups."""
    with Broker() as broker:
        servers = {"bootstrap_servers": broker.bootstrap_servers}
        with Admin(**servers) as admin, Producer(**servers) as producer:
            admin.create_topics(
                [
                    NewTopic("clicks", num_partitions=3, configs={"retention.ms": "86400000"}),
                    NewTopic("orders", num_partitions=1, configs={"cleanup.policy": "compact"}),
                    NewTopic("views", num_partitions=2),
                ]
            )
            for i in range(30):
                producer.send("clicks", key=b"k%d" % i, value=b"v%d" % i, partition=i % 3,
                              timestamp_ms=BEGAN_MS + i // 3 * 1000, headers=[("h", b"%d" % i)])  # fmt: skip
            producer.send("orders", value=None, key=b"k")
            producer.flush()
            idle = {("clicks", p): OffsetAndMetadata(p + 2) for p in range(3)}
            admin.alter_group_offsets("idle", idle | {("orders", 0): OffsetAndMetadata(0)})
        yield broker


def shares(member: Consumer) -> object:
    """What a member has been given, after a poll."""
    member.poll(timeout_ms=50)
    return member.assignment()


@pytest.fixture(scope="module")
def active(broker: Broker) -> Iterator[None]:
    """A static and a dynamic member of two groups, that stay."""
    servers = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    members = (
        Consumer("clicks", "orders", group_id="active", client_id="me", **servers),
        Consumer("views", group_id="static", group_instance_id="inst", client_id="st", **servers),
    )
    try:
        for member in members:
            until(lambda member=member: shares(member), "the partitions of a member", every_s=0)
        members[0].poll(timeout_ms=1000)
        members[0].commit({("clicks", p): OffsetAndMetadata(10) for p in range(3)})
        yield
    finally:
        for member in members:
            member.close()


@pytest.fixture(scope="module")
def newest(broker: Broker) -> Iterator[KafkaTools]:
    """Kafka's newest tools."""
    with KafkaTools(NEWEST) as tools:
        yield tools


@pytest.fixture(scope="module")
def old(broker: Broker) -> Iterator[KafkaTools]:
    """Kafka's tools of 2019."""
    with KafkaTools(OLD) as tools:
        yield tools


class Sides:
    """The same call on both sides."""

    def __init__(self, broker: Broker, kafka: KafkaTools) -> None:
        self.servers = broker.bootstrap_servers
        self.kafka = kafka

    def ours(self, tool: str, *words: str, stdin: str = "") -> Outcome:
        """Run odradek's tool in this process."""
        result = CliRunner().invoke(main, [tool, *words], input=stdin.encode())
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    def both(
        self, tool: str, *words: str, stdin: str = "", flag: str = "--bootstrap-server"
    ) -> tuple[Outcome, Outcome]:
        """(ours, Kafka's)."""
        words = (flag, self.servers, *words)
        return self.ours(tool, *words, stdin=stdin), self.kafka.run(tool, *words, stdin=stdin)


@pytest.fixture
def sides(broker: Broker, newest: KafkaTools) -> Sides:
    """Beside the newest."""
    return Sides(broker, newest)


@pytest.fixture
def old_sides(broker: Broker, old: KafkaTools) -> Sides:
    """Beside the old ones."""
    return Sides(broker, old)


def same_lines(ours: Outcome, theirs: Outcome) -> None:
    """Same exit code and, in whatever order, the same lines; an empty line for nothing counts as nothing."""
    assert ours.status == theirs.status == 0, (ours, theirs)
    assert sorted(filter(None, ours.out.split("\n"))) == sorted(filter(None, theirs.out.split("\n")))


def same_text(ours: Outcome, theirs: Outcome) -> None:
    """Byte for byte the same output, and the same exit code."""
    assert (ours.status, ours.out) == (theirs.status, theirs.out), (ours.err, theirs.err)


# topics


@pytest.mark.parametrize(
    "words",
    [
        ["--list"],
        ["--list", "--exclude-internal"],
        ["--list", "--topic", "(clicks|orders)"],
        ["--list", "--topic", "absent"],
        ["--describe", "--exclude-internal"],
        ["--describe", "--topic", "clicks"],
        ["--describe", "--topic", "clicks,views"],
        ["--describe", "--topics-with-overrides", "--exclude-internal"],
        ["--describe", "--under-replicated-partitions"],
        ["--describe", "--at-min-isr-partitions", "--topic", "views"],
        ["--describe", "--unavailable-partitions"],
        ["--describe", "--topic", "absent", "--if-exists"],
        ["--delete", "--topic", "absent", "--if-exists"],
        ["--create", "--topic", "clicks", "--partitions", "1", "--if-not-exists"],
    ],
)
def test_topics(sides: Sides, words: list[str]) -> None:
    same_lines(*sides.both("topics", *words))


@pytest.mark.parametrize(
    "words",
    [
        ["--create", "--topic", "clicks", "--partitions", "1", "--replication-factor", "1"],
        ["--create", "--topic", "new", "--partitions", "0"],
        ["--create", "--topic", "new", "--partitions", "1", "--replication-factor", "3"],
        ["--create", "--topic", "new", "--config", "nope=1"],
        ["--create", "--topic", "new", "--config", "retention.ms=abc"],
        ["--create", "--topic", "bad name"],
        ["--create", "--topic", "new", "--replica-assignment", "0:0"],
        ["--describe", "--topic", "absent"],
        ["--alter", "--topic", "absent", "--partitions", "2"],
        ["--alter", "--topic", "clicks", "--partitions", "1"],
        ["--delete", "--topic", "absent"],
    ],
)
def test_topics_refused_for_the_same_reason(sides: Sides, words: list[str]) -> None:
    ours, theirs = sides.both("topics", *words)
    assert ours.status == theirs.status == 1
    # Kafka's tool tells on standard output, with words of its own in front.
    reason = theirs.out.removeprefix("Error while executing topic command : ").strip()
    assert reason
    assert reason in ours.err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--list", "--create"],
        ["--create"],
        ["--alter", "--topic", "clicks"],
        ["--list", "--nosuch"],
        ["--describe", "--partitions", "1"],
        ["--create", "--topic", "new", "--partitions", "x"],
    ],
)
def test_topics_refuses_the_same_words(sides: Sides, words: list[str]) -> None:
    ours, theirs = sides.both("topics", *words)
    assert ours.status == theirs.status == 1


def test_topics_made_by_either_are_seen_by_both(sides: Sides) -> None:
    words = ("--partitions", "2", "--replication-factor", "1", "--config", "segment.bytes=1048576")
    ours = sides.ours("topics", "--bootstrap-server", sides.servers, "--create", "--topic", "by.us", *words)
    theirs = sides.kafka.run(
        "topics", "--bootstrap-server", sides.servers, "--create", "--topic", "by.them", *words
    )
    assert ours.out == "Created topic by.us.\n"
    assert theirs.out.endswith("Created topic by.them.\n")
    assert ours.err.strip() in theirs.out
    same_lines(*sides.both("topics", "--describe", "--topic", "by\\..*"))
    for name in ("by.us", "by.them"):
        assert (
            sides.ours("topics", "--bootstrap-server", sides.servers, "--delete", "--topic", name).status == 0
        )


def test_topics_of_2_2_2(old_sides: Sides) -> None:
    same_lines(*old_sides.both("topics", "--list", "--exclude-internal"))
    ours, theirs = old_sides.both("topics", "--describe", "--topic", "clicks")
    # Ids and eligible leaders have come since, and a blank after each colon of the first line.
    trimmed = re.sub("\tTopicId: [^\t]*|\tElr: .*", "", ours.out)
    first, *partitions = trimmed.splitlines()
    assert [first.replace(": ", ":"), *partitions] == theirs.out.splitlines()


# get-offsets

OFFSETS = [
    [],
    ["--topic", "clicks"],
    ["--topic", "clicks", "--partitions", "0,2"],
    ["--topic", "clicks", "--time", "-2"],
    ["--topic", "clicks", "--time", str(BEGAN_MS + 3500)],
    ["--topic", "(clicks|views)", "--time", "earliest"],
    ["--topic", "clicks", "--time", "max-timestamp"],
    ["--topic", "clicks", "--time", "2000000000000"],
    ["--topic-partitions", "clicks:1-,orders,views:-1"],
    ["--exclude-internal-topics"],
]


@pytest.mark.parametrize("words", OFFSETS)
def test_get_offsets(sides: Sides, words: list[str]) -> None:
    same_lines(*sides.both("get-offsets", *words))


@pytest.mark.parametrize(
    "words",
    [
        ["--topic", "absent"],
        ["--topic", "clicks", "--partitions", "7"],
        ["--topic", "clicks", "--partitions", "x"],
        ["--topic", "clicks", "--time", "x"],
        ["--topic", "clicks", "--topic-partitions", "clicks"],
    ],
)
def test_get_offsets_refused_for_the_same_reason(sides: Sides, words: list[str]) -> None:
    ours, theirs = sides.both("get-offsets", *words)
    assert (ours.status, ours.out) == (theirs.status, theirs.out) == (1, "")
    reason = theirs.err.removeprefix("Error occurred: ").split(". ")[0].split("\n")[0]
    assert reason.removeprefix("--partitions ") in ours.err


def test_get_offsets_of_2_2_2(old_sides: Sides) -> None:
    for words in OFFSETS[1:5]:
        same_text(*old_sides.both("get-offsets", *words, flag="--broker-list"))


# broker-api-versions


def test_api_versions(sides: Sides, old_sides: Sides) -> None:
    def lines(text: str) -> list[str]:
        kept = [line for line in text.splitlines() if "UNSUPPORTED" not in line]
        # What is usable depends on what the client speaks.
        return [re.sub(r" \[(?:usable|unusable): [^]]+\],?", "", line).removesuffix(",") for line in kept]

    ours, theirs = sides.both("broker-api-versions")
    assert ours.status == theirs.status == 0
    assert lines(ours.out) == lines(theirs.out)
    usable = re.compile(r"(\w+\(\d+\)): .*\[usable: (\d+)\]")
    by_us, by_them = dict(usable.findall(ours.out)), dict(usable.findall(theirs.out))
    assert all(int(by_us[api]) >= int(version) for api, version in by_them.items())
    older = lines(old_sides.kafka.run("broker-api-versions", "--bootstrap-server", sides.servers).out)
    # What was ElectPreferredLeaders has learned other elections.
    renamed = [line.replace("ElectPreferredLeaders", "ElectLeaders") for line in older]
    known = [line for line in renamed if not line.startswith("\tUNKNOWN")]
    assert set(known[1:]) <= set(lines(ours.out))


# consumer-groups


@pytest.mark.parametrize(
    "words",
    [
        ["--list"],
        ["--list", "--state"],
        ["--list", "--state", "Empty"],
        ["--list", "--type"],
        ["--list", "--state", "stable", "--type", "classic"],
        ["--describe", "--group", "idle"],
        ["--describe", "--group", "idle", "--group", "active"],
        ["--describe", "--group", "active", "--verbose"],
        ["--describe", "--all-groups"],
        ["--describe", "--group", "active", "--members"],
        ["--describe", "--group", "active", "--members", "--verbose"],
        ["--describe", "--group", "static", "--members"],
        ["--describe", "--group", "idle", "--members"],
        ["--describe", "--group", "active", "--state"],
        ["--describe", "--group", "active", "--state", "--verbose"],
        ["--describe", "--all-groups", "--state"],
        ["--reset-offsets", "--group", "idle", "--all-topics", "--to-earliest", "--dry-run"],
        ["--reset-offsets", "--group", "idle", "--topic", "clicks", "--to-latest", "--dry-run"],
        ["--reset-offsets", "--group", "idle", "--topic", "clicks:0,2", "--shift-by", "3", "--dry-run"],
        ["--reset-offsets", "--group", "idle", "--topic", "clicks:1", "--to-offset", "99", "--dry-run"],
        ["--reset-offsets", "--group", "idle", "--topic", "clicks", "--to-datetime", BETWEEN, "--dry-run"],
        ["--reset-offsets", "--group", "new", "--topic", "orders", "--to-current", "--dry-run"],
        ["--reset-offsets", "--group", "idle", "--all-topics", "--to-current", "--export", "--dry-run"],
        ["--reset-offsets", "--group", "idle", "--group", "new", "--topic", "clicks", "--to-latest",
         "--export", "--dry-run"],
    ],
)  # fmt: skip
def test_consumer_groups(sides: Sides, active: None, words: list[str]) -> None:
    ours, theirs = sides.both("consumer-groups", *words)
    same_lines(ours, theirs)
    if "--describe" in words:
        assert sorted(filter(None, ours.err.splitlines())) == sorted(filter(None, theirs.err.splitlines()))


@pytest.mark.parametrize(
    "words",
    [
        ["--describe"],
        ["--describe", "--group", "idle", "--members", "--state"],
        ["--list", "--state", "nope"],
        ["--delete"],
        ["--delete", "--group", "idle", "--topic", "clicks"],
        ["--reset-offsets", "--group", "idle", "--to-latest"],
        ["--reset-offsets", "--group", "idle", "--topic", "clicks", "--to-latest", "--to-earliest"],
        ["--reset-offsets", "--group", "idle", "--topic", "clicks", "--to-latest", "--execute", "--dry-run"],
        ["--reset-offsets", "--group", "idle", "--topic", "clicks:x", "--to-latest"],
        ["--reset-offsets", "--group", "new", "--topic", "clicks", "--shift-by", "1"],
    ],
)
def test_consumer_groups_refuses_the_same_words(sides: Sides, words: list[str]) -> None:
    ours, theirs = sides.both("consumer-groups", *words)
    assert ours.status == theirs.status == 1
    assert ours.out == theirs.out == ""


def test_groups_are_deleted_by_either(sides: Sides, active: None, broker: Broker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        for group in ("by-us", "by-them"):
            admin.alter_group_offsets(group, {("clicks", 0): OffsetAndMetadata(0)})
    words = ("--bootstrap-server", sides.servers, "--delete", "--group")
    ours = sides.ours("consumer-groups", *words, "by-us")
    theirs = sides.kafka.run("consumer-groups", *words, "by-them")
    assert ours.out.replace("by-us", "by-them") == theirs.out
    # Kafka's tool tells of failures on standard output and exits with 0; ours exits with 1.
    ours, theirs = sides.both("consumer-groups", "--delete", "--group", "active")
    assert (ours.status, theirs.status) == (1, 0)
    assert "* Group 'active' could not be deleted due to: " in theirs.out
    assert "* Group 'active' could not be deleted due to: " in ours.err


def test_plans_of_either_are_read_by_the_other(sides: Sides, broker: Broker, tmp_path: Path) -> None:
    group = ("--bootstrap-server", sides.servers, "--reset-offsets", "--group", "idle")
    export = (*group, "--all-topics", "--to-latest", "--export", "--dry-run")
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    ours.write_text(sides.ours("consumer-groups", *export).out, encoding="utf-8")
    theirs.write_text(sides.kafka.run("consumer-groups", *export).out, encoding="utf-8")
    same_lines(
        sides.ours("consumer-groups", *group, "--from-file", str(theirs), "--dry-run"),
        sides.kafka.run("consumer-groups", *group, "--from-file", str(ours), "--dry-run"),
    )


def test_consumer_groups_of_2_2_2(old_sides: Sides, active: None) -> None:
    same_lines(*old_sides.both("consumer-groups", "--list"))
    ours, theirs = old_sides.both("consumer-groups", "--describe", "--group", "active")
    # The group's column has come since.
    cut = [line.split()[1:] for line in ours.out.splitlines() if line]
    assert sorted(cut) == sorted(line.split() for line in theirs.out.splitlines() if line)


# Console tools

LINES = "a\nk:v\n\nüñí\n"


def test_what_either_produces_either_consumes(sides: Sides, old_sides: Sides) -> None:
    keyed = [
        word
        for text in ("parse.key=true", "key.separator=:", "ignore.error=true")
        for word in ("--property", text)
    ]
    for tools in (sides, old_sides):
        flag = "--bootstrap-server" if tools is sides else "--broker-list"
        consumed = 0
        for by, run in (("us", tools.ours), ("them", tools.kafka.run)):
            topic = f"console-{by}-{tools.kafka.version}"
            sent = run("console-producer", flag, tools.servers, "--topic", topic, *keyed, stdin=LINES)
            assert sent.status == 0, sent.err
            shown = ("--bootstrap-server", tools.servers, "--topic", topic, "--from-beginning",
                     "--property", "print.key=true", "--max-messages")  # fmt: skip
            ours = tools.ours("console-consumer", *shown, "4")
            assert ours.out == "null\ta\nk\tv\nnull\t\nnull\tüñí\n"
            assert "Processed a total of 4 messages" in ours.err
            # The old consumer goes on counting in one JVM.
            consumed += 4 if tools is old_sides else 0
            theirs = tools.kafka.run("console-consumer", *shown, str(consumed or 4))
            assert theirs.out.endswith(ours.out)


@pytest.mark.parametrize(
    "properties",
    [
        ["print.key=true", "print.headers=true", "print.offset=true", "print.partition=true"],
        ["print.timestamp=true", "print.value=false"],
        [
            "print.headers=true",
            "headers.separator=;",
            "key.separator= | ",
            "print.key=true",
            "line.separator=$",
        ],
    ],
)
def test_consumers_print_the_same(sides: Sides, properties: list[str]) -> None:
    words = ["--topic", "clicks", "--partition", "1", "--offset", "3", "--max-messages", "4"]
    words += [word for text in properties for word in ("--formatter-property", text)]
    same_text(*sides.both("console-consumer", *words))


def test_null_values_are_printed_the_same(sides: Sides) -> None:
    words = ("--topic", "orders", "--partition", "0", "--offset", "earliest", "--max-messages", "1")
    same_text(*sides.both("console-consumer", *words, "--formatter-property", "null.literal=-"))


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--topic", "t", "--include", "t"],
        ["--topic", "clicks", "--offset", "1"],
        ["--topic", "clicks", "--partition", "0", "--offset", "-2"],
        ["--topic", "clicks", "--partition", "0", "--group", "g"],
        ["--topic", "clicks", "--from-beginning", "--command-property", "auto.offset.reset=latest"],
    ],
)
def test_consumers_refuse_the_same_words(sides: Sides, words: list[str]) -> None:
    ours, theirs = sides.both("console-consumer", *words)
    assert ours.status == theirs.status == 1
    assert ours.out == theirs.out == ""


def test_producers_refuse_the_same_lines(sides: Sides) -> None:
    words = ("--topic", "orders", "--reader-property", "parse.key=true")
    ours, theirs = sides.both("console-producer", *words, stdin="no key\n")
    assert ours.status == theirs.status == 1
    reason = "No key separator found on line number 1: 'no key'"
    assert reason in ours.err
    assert reason in theirs.err


# Performance


def test_figures_have_the_same_form(sides: Sides) -> None:
    produce = ("--topic", "perf", "--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    consume = ("--topic", "perf", "--num-records", "2000", "--timeout", "5000")

    def form(outcome: Outcome) -> list[str]:
        assert outcome.status == 0, outcome
        return [re.sub(r"\d+", "9", line) for line in outcome.out.splitlines()]

    ours, theirs = sides.both("producer-perf-test", *produce)
    assert form(ours) == form(theirs)
    ours, theirs = sides.both("consumer-perf-test", *consume)
    assert form(ours) == form(theirs)


# cluster, features, groups, delete-records


@pytest.mark.parametrize(
    "words", [["cluster-id"], ["list-endpoints"], ["list-endpoints", "--include-fenced-brokers"]]
)
def test_cluster(sides: Sides, words: list[str]) -> None:
    at = ("--bootstrap-server", sides.servers)
    same_text(sides.ours("cluster", *words, *at), sides.kafka.run("cluster", *words, *at))


@pytest.mark.parametrize(
    "words",
    [
        ["describe"],
        ["upgrade", "--feature", "transaction.version=2", "--dry-run"],
        ["upgrade", "--feature", "transaction.version=9"],
        ["downgrade", "--feature", "x=1", "--dry-run"],
        ["disable", "--feature", "x"],
    ],
)
def test_features(sides: Sides, words: list[str]) -> None:
    same_text(*sides.both("features", *words))


@pytest.mark.parametrize("words", [[], ["--consumer"], ["--share"], ["--group-type", "classic"]])
def test_groups_of_all_types(sides: Sides, active: None, words: list[str]) -> None:
    same_lines(*sides.both("groups", "--list", *words))


def test_delete_records(sides: Sides, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    # What is gone already: the second side is told the same as the first.
    plan.write_text('{"partitions": [{"topic": "views", "partition": 0, "offset": 0}]}', encoding="utf-8")
    same_text(*sides.both("delete-records", "--offset-json-file", str(plan)))
