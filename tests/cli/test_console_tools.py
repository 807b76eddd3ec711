"""`console-producer` and `console-consumer` against a broker: what goes in comes out, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import RunTool
from odradek import Admin, Consumer, NewTopic, TopicPartition
from waiting import gathered


def values(servers: str, topic: str, partitions: int = 1) -> list[tuple[object, object, object]]:
    """(key, value, headers) of all records of a topic."""
    with Consumer(bootstrap_servers=servers) as consumer:
        all_of_it = [TopicPartition(topic, p) for p in range(partitions)]
        consumer.assign(all_of_it)
        consumer.seek_to_beginning(*all_of_it)
        ends = sum(consumer.end_offsets(all_of_it).values())
        got = gathered(lambda: consumer.poll(timeout_ms=200), ends, f"the records of {topic}")
        return [(r.key, r.value, r.headers) for r in got]


def read(tool: RunTool, topic: str, count: int, *words: str, **more: int) -> bytes:
    """What the console consumer prints of a topic's first records."""
    wanted = ("--topic", topic, "--from-beginning", "--max-messages", str(count))
    return tool("console-consumer", *wanted, *words, **more).stdout_bytes


# Producer


def test_lines_become_records(tool: RunTool, servers: str, name: str) -> None:
    done = tool("console-producer", "--topic", name, stdin=b"one\ntwo\r\n\nlast without an end")
    assert done.output == ""
    assert [v for _, v, _ in values(servers, name)] == [b"one", b"two", b"", b"last without an end"]


def test_bytes_stay_as_they_are(tool: RunTool, servers: str, name: str) -> None:
    line = bytes(b for b in range(256) if b not in b"\n")
    tool("console-producer", "--topic", name, stdin=line + b"\n")
    assert [v for _, v, _ in values(servers, name)] == [line]
    assert read(tool, name, 1) == line + b"\n"


def test_keys_and_headers(tool: RunTool, servers: str, name: str) -> None:
    words = ("--property", "parse.key=true", "--reader-property", "parse.headers=true",
             "--property", "null.marker=NIL", "--property", "ignore.error=true")  # fmt: skip
    tool("console-producer", "--topic", name, *words, stdin=b"a:1,b:NIL\tk\tv\nNIL\tNIL\tNIL\nalone\n")
    assert values(servers, name) == [
        (b"k", b"v", (("a", b"1"), ("b", None))),
        (None, None, ()),
        (None, b"alone", ()),
    ]
    shown = read(tool, name, 3, "--property", "print.headers=true", "--property", "print.key=true")
    assert shown == b"a:1,b:null\tk\tv\nNO_HEADERS\tnull\tnull\nNO_HEADERS\tnull\talone\n"


def test_a_bad_line_ends_it_and_what_was_read_before_is_sent(tool: RunTool, servers: str, name: str) -> None:
    refused = tool("console-producer", "--topic", name, "--property", "parse.key=true",
                   stdin=b"k\tv\nno key\nk\tv\n", status=1)  # fmt: skip
    assert refused.stderr == "Error: No key separator found on line number 2: 'no key'\n"
    assert values(servers, name) == [(b"k", b"v", ())]


@pytest.mark.parametrize("sync", [[], ["--sync"]])
def test_huge_lines_are_told_and_passed_over(tool: RunTool, servers: str, name: str, sync: list[str]) -> None:
    huge = b"x" * 3_000_000
    done = tool("console-producer", "--topic", name, *sync, stdin=b"a\n" + huge + b"\nb\n", status=1)
    assert "line 2 has more than 1048576 bytes (max.request.size)" in done.stderr
    assert "1 records were not delivered" in done.stderr
    assert [v for _, v, _ in values(servers, name)] == [b"a", b"b"]


def test_a_line_just_too_long_with_what_stands_around_it(tool: RunTool, servers: str, name: str) -> None:
    done = tool("console-producer", "--topic", name, stdin=b"x" * 1_048_576 + b"\nb\n", status=1)
    assert "1 records were not delivered" in done.stderr
    assert [v for _, v, _ in values(servers, name)] == [b"b"]


def test_what_the_broker_refuses_is_told(tool: RunTool, admin: Admin, servers: str, name: str) -> None:
    admin.create_topics([NewTopic(name, configs={"max.message.bytes": "1000"})])
    done = tool("console-producer", "--topic", name, "--sync", stdin=b"x" * 2000 + b"\n", status=1)
    assert "Error" in done.stderr
    again = tool("console-producer", "--topic", name, stdin=b"x" * 2000 + b"\n", status=1)
    assert f"Error when sending message to topic {name}: " in again.stderr
    assert values(servers, name) == []


def test_no_lines_are_well(tool: RunTool, admin: Admin, name: str) -> None:
    assert tool("console-producer", "--topic", name).output == ""
    assert name not in admin.list_topics()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd", ""])
def test_compression(tool: RunTool, name: str, codec: str) -> None:
    words = ("--compression-codec", codec) if codec else ("--compression-codec",)
    tool("console-producer", "--topic", name, *words, "--sync", stdin=b"v\n")
    assert read(tool, name, 1) == b"v\n"


@pytest.mark.parametrize("acks", ["0", "1", "-1", "all"])
def test_acks(tool: RunTool, name: str, acks: str) -> None:
    tool("console-producer", "--topic", name, "--request-required-acks", acks, stdin=b"v\n")
    assert read(tool, name, 1) == b"v\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--property", "nosuch=1"], "'nosuch' is not one of parse.key"),
        (["--property", "parse.key"], "is not key=value"),
        (["--property", "parse.headers=true", "--property", "headers.delimiter=,"], "may not be equal"),
        (["--property", "key.separator="], "key.separator may not be empty"),
        (["--property", "null.marker=,"], "null.marker and headers.separator may not be equal"),
        (["--compression-codec", "rar"], "compression.type"),
        (["--request-required-acks", "7"], "'7' is not one of"),
        (["--producer-property", "linger.ms=soon"], "linger.ms"),
        (["--line-reader", "org.example.Reader"], "Java classes cannot be loaded"),
        (["--batch-size", "big"], "not a valid integer"),
    ],
)
def test_producer_refuses(tool: RunTool, name: str, words: list[str], complaint: str) -> None:
    assert complaint in tool("console-producer", "--topic", name, *words, stdin=b"v\n", status=1).stderr


def test_producer_s_files_and_old_flags(tool: RunTool, servers: str, name: str, tmp_path: Path) -> None:
    reader, client = tmp_path / "reader.properties", tmp_path / "producer.properties"
    reader.write_text("parse.key=true\nkey.separator=|\n", encoding="utf-8")
    client.write_text(
        "acks=1\nenable.idempotence=false\nkey.serializer=org.example.Serializer\n", encoding="utf-8"
    )
    done = tool("console-producer", "--topic", name, "--reader-config", str(reader), "--property",
                "key.separator=:", "--producer.config", str(client), "--new-producer",
                "--line-reader", "kafka.tools.ConsoleProducer$LineMessageReader", "--timeout", "5",
                "--max-partition-memory-bytes", "1000", stdin=b"k:v\n")  # fmt: skip
    assert done.stderr == "WARNING: --new-producer has no effect: there is no other any more\n"
    assert values(servers, name) == [(b"k", b"v", ())]


def test_a_name_that_no_topic_may_have(tool: RunTool) -> None:
    refused = tool("console-producer", "--topic", "bad name", "--max-block-ms", "500", stdin=b"v\n", status=1)
    assert "bad name" in refused.stderr


# Consumer


def test_max_messages_is_exact_and_committed(tool: RunTool, admin: Admin, name: str) -> None:
    tool("console-producer", "--topic", name, stdin=b"".join(b"%d\n" % i for i in range(10)))
    words = ("console-consumer", "--topic", name, "--group", name, "--from-beginning", "--max-messages")
    first = tool(*words, "4")
    assert first.stdout == "0\n1\n2\n3\n"
    assert first.stderr == "Processed a total of 4 messages\n"
    assert admin.list_group_offsets(name)[TopicPartition(name, 0)].offset == 4
    assert tool(*words, "3").stdout == "4\n5\n6\n"
    assert tool(*words, "0").stdout == ""


def test_a_group_of_its_own_leaves_nothing_behind(tool: RunTool, admin: Admin, name: str) -> None:
    tool("console-producer", "--topic", name, stdin=b"v\n")
    read(tool, name, 1)
    left = [g.group_id for g in admin.list_groups() if g.group_id.startswith("console-consumer-")]
    assert all(not admin.list_group_offsets(group) for group in left)


def test_timeout(tool: RunTool, admin: Admin, name: str) -> None:
    admin.create_topics([name])
    done = tool("console-consumer", "--topic", name, "--from-beginning", "--timeout-ms", "300")
    assert done.stdout == ""
    assert "No message came within 300 ms" in done.stderr


def test_one_partition_from_an_offset(tool: RunTool, name: str) -> None:
    tool("console-producer", "--topic", name, stdin=b"0\n1\n2\n3\n")
    one = ("console-consumer", "--topic", name, "--partition", "0")
    two, four = ("--max-messages", "2"), ("--max-messages", "4")
    assert tool(*one, "--offset", "2", *two).stdout == "2\n3\n"
    assert tool(*one, "--offset", "earliest", *four).stdout == "0\n1\n2\n3\n"
    assert tool(*one, "--from-beginning", *four).stdout == "0\n1\n2\n3\n"
    # Nothing comes, however long that takes.
    assert tool(*one, "--offset", "latest", "--timeout-ms", "400").stdout == ""
    assert tool(*one, "--timeout-ms", "400").stdout == ""


def test_topics_by_expression(tool: RunTool, name: str) -> None:
    for i in range(2):
        tool("console-producer", "--topic", f"{name}-{i}", stdin=b"%d\n" % i)
    words = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "10000")
    both = tool("console-consumer", "--whitelist", f"{name}-.", *words).stdout
    assert sorted(both.splitlines()) == ["0", "1"]


def test_every_column(tool: RunTool, name: str) -> None:
    tool("console-producer", "--topic", name, stdin=b"v\n")
    words = [w for c in ("timestamp", "partition", "offset", "epoch", "delivery", "headers", "key")
             for w in ("--formatter-property", f"print.{c}=true")]  # fmt: skip
    columns = read(tool, name, 1, *words).decode().rstrip("\n").split("\t")
    assert columns[0].startswith("CreateTime:")
    assert columns[1:] == [
        "Partition:0", "Offset:0", "Delivery:NOT_PRESENT", "Epoch:0", "NO_HEADERS", "null", "v"
    ]  # fmt: skip


def test_deserializers(tool: RunTool, producer: object, servers: str, name: str, admin: Admin) -> None:
    from odradek import Producer

    with Producer(bootstrap_servers=servers) as sender:
        sender.send(name, key=b"k", value=(1 << 40).to_bytes(8, "big"))
        sender.send(name, key=b"k", value=b"short")
        sender.send(name, key=b"k", value=None)
    long = ("--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer")
    assert read(tool, name, 1, *long) == b"1099511627776\n"
    failed = tool("console-consumer", "--topic", name, "--from-beginning", "--group", name, *long,
                  "--max-messages", "3", status=1)  # fmt: skip
    assert failed.stdout == "1099511627776\n"
    assert f"Error: {name}-0 at offset 1: 5 bytes where 8 are a number" in failed.stderr
    # What was not printed was not committed.
    assert admin.list_group_offsets(name)[TopicPartition(name, 0)].offset == 1
    skipping = tool("console-consumer", "--topic", name, "--from-beginning", "--group", name, *long,
                    "--max-messages", "2", "--skip-message-on-error")  # fmt: skip
    assert skipping.stdout == "null\n"
    assert "Error processing message, skipping this message" in skipping.stderr


def test_the_end_is_told_to_system_tests(tool: RunTool, name: str) -> None:
    tool("console-producer", "--topic", name, stdin=b"a\n")
    words = ("--topic", name, "--from-beginning", "--max-messages", "1")
    assert tool("console-consumer", *words, "--enable-systest-events").stdout == "a\nshutdown_complete\n"


def test_counting_only(tool: RunTool, name: str) -> None:
    tool("console-producer", "--topic", name, stdin=b"a\nb\n")
    words = ("--topic", name, "--from-beginning", "--max-messages", "2")
    counted = tool(
        "console-consumer", *words, "--formatter", "org.apache.kafka.tools.consumer.NoOpMessageFormatter"
    )
    assert counted.stdout == ""
    assert counted.stderr == "Processed a total of 2 messages\n"


def test_consumer_s_files(tool: RunTool, name: str, tmp_path: Path) -> None:
    tool("console-producer", "--topic", name, stdin=b"v\n")
    formatter, client = tmp_path / "formatter.properties", tmp_path / "consumer.properties"
    formatter.write_text("print.key=true\nkey.separator=|\n", encoding="utf-8")
    client.write_text(
        f"group.id={name}\nauto.offset.reset=earliest\nkey.deserializer=org.example.D\n", encoding="utf-8"
    )
    words = ("--formatter-config", str(formatter), "--consumer.config", str(client))
    assert read(tool, name, 1, *words, "--property", "null.literal=-") == b"-|v\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "Exactly one of --include/--topic is required."),
        (["--topic", "t", "--include", "t"], "Exactly one of --include/--topic is required."),
        (["--include", "t", "--partition", "0"], "The topic is required when partition is specified."),
        (["--topic", "t", "--offset", "0"], "The partition is required when offset is specified."),
        (["--topic", "t", "--partition", "0", "--offset", "0", "--from-beginning"], "cannot be specified"),
        (["--topic", "t", "--partition", "0", "--offset", "-2"], "offset value '-2' is incorrect"),
        (["--topic", "t", "--partition", "0", "--offset", "x"], "offset value 'x' is incorrect"),
        (["--topic", "t", "--partition", "0", "--group", "g"], "group and partition cannot be specified"),
        (["--topic", "t", "--partition", "-1"], "-1"),
        (["--topic", "t", "--group", "g", "--consumer-property", "group.id=h"], "do not match"),
        (["--topic", "t", "--from-beginning", "--consumer-property", "auto.offset.reset=latest"], "Can't"),
        (["--topic", "t", "--max-messages", "x"], "not a valid integer"),
        (["--topic", "t", "--timeout-ms", "soon"], "not a valid integer"),
        (["--topic", "t", "--property", "print.colour=true"], "'print.colour' is not one of"),
        (["--topic", "t", "--formatter", "org.example.Formatter"], "Java classes cannot be loaded"),
        (["--topic", "t", "--value-deserializer", "org.example.D"], "Java classes cannot be loaded"),
        (["--topic", "t", "--isolation-level", "chaos"], "is not one of"),
        (["--include", "a(", "--timeout-ms", "100"], "not a regular expression"),
    ],
)  # fmt: skip
def test_consumer_refuses(tool: RunTool, words: list[str], complaint: str) -> None:
    refused = tool("console-consumer", *words, status=1)
    assert complaint in refused.stderr
    assert refused.stdout == ""


def test_a_partition_that_does_not_exist(tool: RunTool, admin: Admin, name: str) -> None:
    admin.create_topics([name])
    refused = tool("console-consumer", "--topic", name, "--partition", "5", status=1)
    assert f"Topic '{name}' has no partition 5; it has 1, from 0 on" in refused.stderr


def test_a_topic_that_does_not_exist_is_waited_for(tool: RunTool, name: str) -> None:
    waited = tool("console-consumer", "--topic", name, "--timeout-ms", "200")
    assert f"WARNING: topic '{name}' does not exist; waiting for it" in waited.stderr
