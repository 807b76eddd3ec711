"""`odradek consumer-groups` against a broker: lists, tables, resets, deletions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.conftest import RunTool
from odradek import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from odradek.cli.group_tables import end_offsets, group_rows, member_rows, offset_rows, remark
from odradek.client.types import GroupDescription, GroupListing, MemberDescription
from odradek.testing import Broker

#: When the records of `group` were made: 100 ms apart, within what retention leaves.
BEGAN_MS = int(time.time() * 1000) - 3_600_000


@pytest.fixture
def group(admin: Admin, producer: Producer, name: str) -> str:
    """A group without members, at offsets 3 and 4 of 10 in the two partitions of the topic of its name."""
    admin.create_topics([NewTopic(name, num_partitions=2)])
    for i in range(20):
        producer.send(name, value=b"%d" % i, partition=i % 2, timestamp_ms=BEGAN_MS + i // 2 * 100)
    producer.flush()
    admin.alter_group_offsets(name, {(name, 0): OffsetAndMetadata(3), (name, 1): OffsetAndMetadata(4)})
    return name


@contextmanager
def member(servers: str, group: str, topic: str, **configs: object) -> Iterator[Consumer]:
    """A member that has its partitions."""
    with Consumer(topic, bootstrap_servers=servers, group_id=group, client_id="me", **configs) as consumer:
        deadline = time.monotonic() + 60
        while not consumer.assignment():
            consumer.poll(timeout_ms=50)
            assert time.monotonic() < deadline
        yield consumer


def rows(text: str) -> list[list[str]]:
    """A table's cells; the blank line before it is left out."""
    lines = text.splitlines()
    assert lines[0] == ""
    return [line.split() for line in lines[1:] if line]


def committed(admin: Admin, group: str) -> dict[int, int]:
    return {p.partition: o.offset for p, o in admin.list_group_offsets(group).items()}


# Lists


def test_list(tool: RunTool, group: str, servers: str) -> None:
    assert group in tool("consumer-groups", "--list").stdout.splitlines()
    with member(servers, f"{group}-b", group):
        table = tool("consumer-groups", "--list", "--state", "--type").stdout.splitlines()
        assert table[0].split() == ["GROUP", "TYPE", "STATE"]
        found = {line.split()[0]: line.split()[1:] for line in table[1:]}
        assert found[group] == ["Classic", "Empty"]
        assert found[f"{group}-b"] == ["Classic", "Stable"]
        stable = tool("consumer-groups", "--list", "--state", "stable").stdout
        assert f"{group}-b " in stable
        assert f"{group} " not in stable
        assert f"{group} " in tool("consumer-groups", "--list", "--state", "stable, EMPTY").stdout
        assert f"{group} " not in tool("consumer-groups", "--list", "--type", "consumer").stdout


def test_list_refuses_unknown_states(tool: RunTool) -> None:
    refused = tool("consumer-groups", "--list", "--state", "asleep", status=1)
    assert "Invalid state list 'asleep'. Valid states are: Assigning" in refused.stderr
    assert "Valid types are: Classic" in tool("consumer-groups", "--list", "--type", "new", status=1).stderr


def test_rows_of_a_list_are_as_wide_as_kafka_s() -> None:
    lines = group_rows([GroupListing("g", "consumer", "Empty", "classic")], with_type=True, with_state=True)
    assert lines == [f"{'GROUP':<25} {'TYPE':<20} {'STATE':<20}", f"{'g':<25} {'Classic':<20} {'Empty':<20}"]
    old = group_rows([GroupListing("x" * 30, "consumer")], with_type=False, with_state=True)
    assert old[1] == f"{'x' * 30:<40} {'Unknown':<20}"


# Describe


def test_describe_without_members(tool: RunTool, group: str) -> None:
    described = tool("consumer-groups", "--describe", "--group", group)
    assert described.stderr == f"\nConsumer group '{group}' has no active members.\n"
    assert rows(described.stdout) == [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST",
         "CLIENT-ID"],
        [group, group, "0", "3", "10", "7", "-", "-", "-"],
        [group, group, "1", "4", "10", "6", "-", "-", "-"],
    ]  # fmt: skip


def test_describe_with_members(tool: RunTool, group: str, servers: str) -> None:
    with member(servers, group, group) as consumer:
        member_id = consumer.group_generation()[1]
        described = tool("consumer-groups", "--describe", "--group", group, "--verbose")
        assert described.stderr == ""
        assert rows(described.stdout)[1][-3:] == [member_id, "/127.0.0.1", "me"]
        assert rows(described.stdout)[0][3] == "LEADER-EPOCH"
        members = tool("consumer-groups", "--describe", "--group", group, "--members").stdout
        assert rows(members)[1] == [group, member_id, "/127.0.0.1", "me", "2"]
        verbose = tool("consumer-groups", "--describe", "--group", group, "--members", "--verbose").stdout
        assert rows(verbose)[1][-3:] == [f"{group}:0,1", "-", "-"]
        state = tool("consumer-groups", "--describe", "--group", group, "--state").stdout
        assert rows(state)[1] == [group, servers, "(0)", "range", "Stable", "1"]


def test_describe_static_members(tool: RunTool, group: str, servers: str) -> None:
    with member(servers, group, group, group_instance_id="inst"):
        members = tool("consumer-groups", "--describe", "--group", group, "--members").stdout
        assert rows(members)[0][2] == "GROUP-INSTANCE-ID"
        assert rows(members)[1][2] == "inst"


def test_describe_several_groups(tool: RunTool, group: str, admin: Admin) -> None:
    admin.alter_group_offsets(f"{group}-b", {(group, 0): OffsetAndMetadata(1)})
    both = tool("consumer-groups", "--describe", "--group", f"{group}-b", "--group", group).stdout
    assert [line.split()[0] for line in both.splitlines() if line] == [
        "GROUP", group, group, "GROUP", f"{group}-b"
    ]  # fmt: skip
    everything = tool("consumer-groups", "--describe", "--all-groups", "--state").stdout
    assert f"\n{group}-b " in everything


def test_describe_what_does_not_exist(tool: RunTool, group: str) -> None:
    described = tool("consumer-groups", "--describe", "--group", "absent", "--group", group, status=1)
    assert described.stderr.endswith("Error: Consumer group 'absent' does not exist.\n")
    assert group in described.stdout


def test_describe_after_a_topic_was_deleted(tool: RunTool, group: str, admin: Admin) -> None:
    other = f"{group}-gone"
    admin.create_topics([other])
    admin.alter_group_offsets(group, {(other, 0): OffsetAndMetadata(0)})
    admin.delete_topics([other])
    described = tool("consumer-groups", "--describe", "--group", group)
    assert [group, group, "0", "3", "10", "7", "-", "-", "-"] in rows(described.stdout)
    reset = tool("consumer-groups", "--reset-offsets", "--group", group, "--all-topics", "--to-earliest",
                 "--execute")  # fmt: skip
    assert [row[1:] for row in rows(reset.stdout)[1:]] == [[group, "0", "0"], [group, "1", "0"]]


def test_ends_of_partitions_that_do_not_exist_are_left_out(admin: Admin, group: str) -> None:
    wanted = [TopicPartition(group, 0), TopicPartition(group, 7), TopicPartition("absent", 0)]
    assert end_offsets(admin, wanted) == {TopicPartition(group, 0): 10}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "exactly one action"),
        (["--list", "--delete"], "exactly one action"),
        (["--describe"], "[all-groups], [group]"),
        (["--describe", "--group", "g", "--all-groups"], "[all-groups], [group]"),
        (["--describe", "--group", "g", "--members", "--state"], "at most one of these options"),
        (["--delete"], "[all-groups], [group]"),
        (["--delete", "--group", "g", "--topic", "t"], "topic-specific offset deletion"),
        (["--delete-offsets", "--group", "g"], "takes the following options: [group], [topic]"),
        (["--list", "--timeout", "soon"], "not a valid integer"),
        (["--reset-offsets", "--group", "g", "--topic", "t"], "exactly one of these options"),
        (["--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--to-earliest"], "exactly one"),
        (["--reset-offsets", "--group", "g", "--to-latest"], "--all-topics, --topic"),
        (["--reset-offsets", "--group", "g", "--topic", "t", "--all-topics", "--to-latest"], "Only one of"),
        (["--reset-offsets", "--all-topics", "--to-latest"], "[all-groups], [group]"),
        (["--reset-offsets", "--group", "g", "--topic", "t", "--shift-by", "x"], "not a valid integer"),
        (["--reset-offsets", "--group", "g", "--topic", "t", "--to-datetime", "soon"], "is not like"),
        (["--reset-offsets", "--group", "g", "--topic", "t", "--by-duration", "1h"], "is not like"),
        (["--reset-offsets", "--group", "g", "--from-file", "/nonexistent"], "does not exist"),
        (
            ["--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--dry-run", "--execute"],
            "only accepts one of [execute] and [dry-run]",
        ),
    ],
)  # fmt: skip
def test_words_that_do_not_go_together(tool: RunTool, words: list[str], complaint: str) -> None:
    refused = tool("consumer-groups", *words, status=1)
    assert complaint in refused.stderr
    assert refused.stdout == ""


def test_regular_expressions(run: RunTool) -> None:
    assert run("consumer-groups", "--validate-regex", "a.*").exit_code == 0
    for none in ("a(", "(?=a)", "a++"):
        # Brokers read RE2, which has neither looks ahead nor possessive quantifiers.
        refused = run("consumer-groups", "--validate-regex", none)
        assert refused.exit_code == 1
        assert "RE2" in refused.output


# Tables as functions


def described(state: str = "Stable", *members: MemberDescription) -> GroupDescription:
    return GroupDescription("g", state, "consumer", "range", members, None)


def test_members_with_most_partitions_come_first_and_idle_ones_are_shown() -> None:
    one = MemberDescription("m1", None, "c1", "/h", b"", (TopicPartition("t", 2),))
    two = MemberDescription("m2", None, "c2", "/h", b"", (TopicPartition("t", 0), TopicPartition("t", 1)))
    idle = MemberDescription("m3", None, "c3", "/h", b"", ())
    at = {TopicPartition("t", 0): OffsetAndMetadata(5), TopicPartition("u", 0): OffsetAndMetadata(1)}
    ends = {TopicPartition("t", 0): 9, TopicPartition("t", 2): 4}
    lines = offset_rows(described("Stable", one, idle, two), at, ends)
    assert [line.split()[1:] for line in lines[1:]] == [
        ["t", "0", "5", "9", "4", "m2", "/h", "c2"],
        ["t", "1", "-", "-", "-", "m2", "/h", "c2"],
        ["t", "2", "-", "4", "-", "m1", "/h", "c1"],
        ["-", "-", "-", "-", "-", "m3", "/h", "c3"],
        ["u", "0", "1", "-", "-", "-", "-", "-"],
    ]
    assert offset_rows(described("Empty"), {}, {}) == []
    assert member_rows(described("Stable", one))[1] == (
        f"{'g':<15} {'m1':<15} {'/h':<15} {'c1':<15} {'1':<15} "
    )


def test_remarks() -> None:
    assert remark(described("Stable")) == ""
    assert remark(described("PreparingRebalance")) == "Warning: Consumer group 'g' is rebalancing."


# Resets

RESETS = [
    (["--to-earliest"], [0, 0]),
    (["--to-latest"], [10, 10]),
    (["--to-current"], [3, 4]),
    (["--to-offset", "5"], [5, 5]),
    (["--to-offset", "500"], [10, 10]),
    (["--to-offset", "-3"], [0, 0]),
    (["--shift-by", "2"], [5, 6]),
    (["--shift-by", "-2"], [1, 2]),
    (["--shift-by", "-4"], [0, 0]),
    (["--to-datetime", "1999-12-31T23:59:59.999"], [0, 0]),
    (["--to-datetime", "2999-12-31T23:59:59.999"], [10, 10]),
    (["--by-duration", "P1D"], [0, 0]),
    (["--by-duration", "PT0S"], [10, 10]),
]


@pytest.mark.parametrize(("target", "expected"), RESETS)
def test_reset_targets(
    tool: RunTool, admin: Admin, group: str, target: list[str], expected: list[int]
) -> None:
    reset = tool("consumer-groups", "--reset-offsets", "--group", group, "--topic", group, *target)
    assert "No action will be performed as the --execute option is missing" in reset.stderr
    assert rows(reset.stdout) == [
        ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"],
        *([group, group, str(p), str(offset)] for p, offset in enumerate(expected)),
    ]
    assert committed(admin, group) == {0: 3, 1: 4}
    done = tool("consumer-groups", "--reset-offsets", "--group", group, "--all-topics", *target, "--execute")
    assert done.stdout == reset.stdout
    assert committed(admin, group) == dict(enumerate(expected))


def test_reset_between_records(tool: RunTool, group: str) -> None:
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((BEGAN_MS + 250) // 1000))
    when = f"{second}.{(BEGAN_MS + 250) % 1000:03}"
    for text in (when, f"{when}Z", f"{when}+00:00"):
        reset = tool("consumer-groups", "--reset-offsets", "--group", group, "--topic", f"{group}:1",
                     "--to-datetime", text, "--dry-run")  # fmt: skip
        assert rows(reset.stdout)[1:] == [[group, group, "1", "3"]]


def test_reset_of_some_partitions(tool: RunTool, admin: Admin, group: str) -> None:
    tool("consumer-groups", "--reset-offsets", "--group", group, "--topic", f"{group}:1", "--to-earliest",
         "--execute")  # fmt: skip
    assert committed(admin, group) == {0: 3, 1: 0}


def test_reset_warns_when_it_goes_to_the_end_of_the_log(tool: RunTool, group: str) -> None:
    reset = tool("consumer-groups", "--reset-offsets", "--group", group, "--topic", f"{group}:0",
                 "--to-offset", "11", "--dry-run")  # fmt: skip
    assert reset.stderr == (
        f"New offset (11) is higher than latest offset for topic partition {group}-0. "
        "Value will be set to 10\n"
    )


@pytest.mark.parametrize(
    ("topic", "complaint"),
    [
        ("absent", "Topic 'absent' does not exist"),
        ("GROUP:9", 'The partitions "GROUP-9" do not exist'),
        ("GROUP:x", "Invalid partition 'x' specified in topic arg 'GROUP:x'"),
        ("GROUP:", "Invalid partition ''"),
    ],
)
def test_reset_refuses_partitions(tool: RunTool, group: str, topic: str, complaint: str) -> None:
    words = ("--reset-offsets", "--group", group, "--topic", topic.replace("GROUP", group), "--to-latest")
    refused = tool("consumer-groups", *words, "--execute", status=1)
    assert complaint.replace("GROUP", group) in refused.stderr


def test_reset_of_an_active_group_changes_nothing_and_the_others_are_done(
    tool: RunTool, admin: Admin, group: str, servers: str
) -> None:
    admin.alter_group_offsets(f"{group}-b", {(group, 0): OffsetAndMetadata(1)})
    with member(servers, group, group, enable_auto_commit=False):
        done = tool("consumer-groups", "--reset-offsets", "--group", group, "--group", f"{group}-b",
                    "--topic", f"{group}:0", "--to-latest", "--execute", status=1)  # fmt: skip
    assert f"if the group '{group}' is inactive, but the current state is Stable." in done.stderr
    assert rows(done.stdout)[1:] == [[f"{group}-b", group, "0", "10"]]
    assert committed(admin, group) == {0: 3, 1: 4}
    assert committed(admin, f"{group}-b") == {0: 10}


def test_reset_makes_a_group(tool: RunTool, admin: Admin, group: str) -> None:
    new = f"{group}-new"
    words = ("--reset-offsets", "--group", new, "--topic", group, "--execute")
    refused = tool("consumer-groups", *words, "--shift-by", "1", status=1)
    assert f"Cannot shift offset for partition {group}-0 since there is no current" in refused.stderr
    tool("consumer-groups", *words, "--to-current")
    assert committed(admin, new) == {0: 10, 1: 10}


def test_export_and_import(tool: RunTool, admin: Admin, group: str, tmp_path: Path) -> None:
    words = ("--reset-offsets", "--group", group)
    exported = tool("consumer-groups", *words, "--all-topics", "--to-current", "--export").stdout
    assert exported == f"{group},0,3\n{group},1,4\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported, encoding="utf-8")
    tool("consumer-groups", *words, "--all-topics", "--to-latest", "--execute")
    assert committed(admin, group) == {0: 10, 1: 10}
    tool("consumer-groups", *words, "--from-file", str(file), "--execute")
    assert committed(admin, group) == {0: 3, 1: 4}


def test_export_and_import_of_several_groups(tool: RunTool, admin: Admin, group: str, tmp_path: Path) -> None:
    other = f"{group}-b"
    admin.alter_group_offsets(other, {(group, 0): OffsetAndMetadata(1)})
    both = ("--reset-offsets", "--group", group, "--group", other)
    exported = tool("consumer-groups", *both, "--all-topics", "--to-current", "--export").stdout
    assert exported == f"{group},{group},0,3\n{group},{group},1,4\n{other},{group},0,1\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported, encoding="utf-8")
    tool("consumer-groups", *both, "--all-topics", "--to-earliest", "--execute")
    tool("consumer-groups", *both, "--from-file", str(file), "--execute")
    assert committed(admin, group) == {0: 3, 1: 4}
    assert committed(admin, other) == {0: 1}
    third = tool("consumer-groups", "--reset-offsets", "--group", "third", "--from-file", str(file), status=1)
    assert "No reset plan for group third found" in third.stderr


@pytest.mark.parametrize("text", ["t,0", "t,0,x", "t,x,0", "a,b,c,d,e", "nonsense"])
def test_bad_rows_of_a_file_are_named(tool: RunTool, group: str, tmp_path: Path, text: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"{group},0,1\n{text}\n", encoding="utf-8")
    refused = tool("consumer-groups", "--reset-offsets", "--group", group, "--from-file", str(file),
                   "--execute", status=1)  # fmt: skip
    assert f"{file} line 2: not [group,]topic,partition,offset: {text}" in refused.stderr


# Deletions


def test_delete(tool: RunTool, admin: Admin, group: str, servers: str) -> None:
    active = f"{group}-active"
    with member(servers, active, group):
        words = ("--delete", "--group", group, "--group", active, "--group", "absent")
        done = tool("consumer-groups", *words, status=1)
    assert done.stdout == f"These consumer groups were deleted successfully: '{group}'\n"
    assert f"* Group '{active}' could not be deleted due to: " in done.stderr
    assert "* Group 'absent' could not be deleted due to: " in done.stderr
    assert group not in {g.group_id for g in admin.list_groups()}
    whole = tool("consumer-groups", "--delete", "--group", active)
    assert whole.stdout == f"Deletion of requested consumer groups ('{active}') was successful.\n"


def test_delete_offsets(tool: RunTool, admin: Admin, group: str, servers: str) -> None:
    words = ("--delete-offsets", "--group", group, "--topic", f"{group}:0")
    assert tool("consumer-groups", *words).stdout == (
        f"Request succeeded for deleting offsets from group {group}.\n\n"
        f"TOPIC{' ' * 10} PARTITION  STATUS         \n"
        f"{group:<15} 0          Successful     \n"
    )
    assert committed(admin, group) == {1: 4}
    with member(servers, group, group):
        refused = tool("consumer-groups", *words, status=1)
    assert "is subscribed to the topic" in refused.stdout
    assert "1 of 1 offsets could not be deleted" in refused.stderr
    missing = tool("consumer-groups", "--delete-offsets", "--group", "nobody", "--topic", group, status=1)
    assert [row[2][:6] for row in rows(missing.stdout)[1:]] == ["Error:", "Error:"]


def test_delete_offsets_needs_a_broker_that_can(run: RunTool) -> None:
    with Broker(kafka_version="2.2") as old:
        with Admin(bootstrap_servers=old.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
            admin.alter_group_offsets("g", {("t", 0): OffsetAndMetadata(3)})
        words = ("--bootstrap-server", old.bootstrap_servers, "--delete-offsets", "--group", "g")
        refused = run("consumer-groups", *words, "--topic", "t")
    assert refused.exit_code == 1
    assert "The broker does not serve OffsetDelete" in refused.stderr
