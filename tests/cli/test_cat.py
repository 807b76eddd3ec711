"""`odradek cat` beside what kcat prints; where kcat is there, both are asked."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from click.testing import Result

from cli.conftest import RunTool
from odradek import Admin, NewTopic, Producer
from odradek.cli.cat_formats import CatFormatError, pack_deserializer, parse_offsets, unescape

KCAT = shutil.which("kcat")


@pytest.fixture
def cat(run: RunTool, servers: str) -> RunTool:
    """Run it; the result's exit code must be `status`."""

    def call(*words: str, stdin: bytes = b"", status: int = 0) -> Result:
        result = run("cat", "-b", servers, *words, stdin=stdin)
        assert result.exit_code == status, (result.output, result.exception)
        return result

    return call


@pytest.fixture
def topic(admin: Admin, producer: Producer, name: str) -> str:
    """Two partitions: three records, of which the second has no value, and the third no key; and one."""
    admin.create_topics([NewTopic(name, num_partitions=2)])
    headers = [("a", b"1"), ("b", None), ("a", b"x,y=z")]
    producer.send(name, b"v0", key=b"k0", partition=0, timestamp_ms=1000, headers=headers)
    producer.send(name, None, key=b"k1", partition=0, timestamp_ms=2000)
    producer.send(name, b"v2", partition=0, timestamp_ms=3000)
    producer.send(name, b'"\n', key=b"", partition=1, timestamp_ms=1500)
    producer.flush()
    return name


FORMAT = r"%t %p %o %k %K %s %S %T %h %%\x41\101\n"


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["-p0"], "v0\n\nv2\n"),
        (["-p1"], '"\n\n'),
        (["-p0", "-Z", "-K:"], "k0:v0\nk1:NULL\nNULL:v2\n"),
        (["-p0", "-O", "-K", ":"], "k0:0:v0\nk1:1:\n:2:v2\n"),
        (["-p0", "-Z", "-K:", "-f", "x%k"], "xk0xk1xNULL"),
        (
            ["-p0", "-f", FORMAT],
            "T 0 0 k0 2 v0 2 1000 a=1,b=NULL,a=x,y=z %Ae\n"
            "T 0 1 k1 2  -1 2000  %Ae\nT 0 2  -1 v2 2 3000  %Ae\n",
        ),
        (["-p0", "-o", "s@1500", "-o", "e@3000"], "\n"),
        (["-p0", "-o", "s@1000", "-o", "e@2500"], "v0\n\n"),
        (["-p0", "-o", "-1"], "v2\n"),
        (["-p0", "-o1", "-c1"], "\n"),
        (["-p0", "-D;"], "v0;;v2;"),
        (["-p0", "-o", "end"], ""),
        (
            ["-J", "-p0"],
            '{"topic":"T","partition":0,"offset":0,"tstype":"create","ts":1000,"broker":0,'
            '"headers":["a","1","b",null,"a","x,y=z"],"key":"k0","payload":"v0"}\n'
            '{"topic":"T","partition":0,"offset":1,"tstype":"create","ts":2000,"broker":0,"key":"k1",'
            '"payload":null}\n'
            '{"topic":"T","partition":0,"offset":2,"tstype":"create","ts":3000,"broker":0,"key":null,'
            '"payload":"v2"}\n',
        ),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_records_are_printed(cat: RunTool, servers: str, topic: str, words: list[str], printed: str) -> None:
    call = ("-C", "-t", topic, "-e", "-q", *words)
    expected = printed.replace("T", topic)
    assert cat(*call).stdout == expected
    # One word of each kind is shown to kcat too: it is slow to begin.
    if KCAT is not None and words in (["-p0", "-f", FORMAT], ["-J", "-p0"]):
        theirs = subprocess.run(
            [KCAT, "-b", servers, "-m", "60", *call], capture_output=True, timeout=120, check=True
        )
        assert theirs.stdout.decode() == expected


def test_ends_are_told(cat: RunTool, topic: str) -> None:
    told = cat("-C", "-t", topic, "-p", "0", "-e").stderr
    assert told == f"% Reached end of topic {topic} [0] at offset 3: exiting\n"
    assert len(cat("-C", "-t", topic, "-e").stdout.splitlines()) == 5


def test_a_group_reads_on(cat: RunTool, topic: str) -> None:
    words = ("-G", topic, "-o", "beginning", "-q")
    first = cat(*words, "-c", "1", "-f", "%p:%o\n", f"^{topic}").stdout
    rest = cat(*words, "-e", "-f", "%p:%o\n", topic).stdout
    assert sorted((first + rest).split()) == ["0:0", "0:1", "0:2", "1:0"]


def test_records_are_sent(cat: RunTool, topic: str) -> None:
    words = ("-P", "-t", topic, "-p", "1", "-K:", "-Z", "-H", "a=b", "-H", "c")
    cat(*words, stdin=b"k:v\nnokey\n:e\nk2:")
    teed = cat("-P", "-t", topic, "-p", "1", "-D;", "-T", "-c", "1", "-k", "fixed", stdin=b"a;b;")
    assert teed.stdout == "a;"
    read = cat("-C", "-t", topic, "-p", "1", "-o", "1", "-e", "-q", "-f", r"%k|%s|%S|%K|%h\n")
    assert read.stdout.splitlines() == [
        "k|v|1|1|a=b,c=NULL",
        "|nokey|5|-1|a=b,c=NULL",
        "|e|1|-1|a=b,c=NULL",
        "k2||-1|2|a=b,c=NULL",
        "fixed|a|1|5|",
    ]


def test_metadata_and_offsets(cat: RunTool, servers: str, topic: str) -> None:
    assert cat("-L", "-t", topic).stdout.splitlines() == [
        f"Metadata for {topic}:",
        " 1 brokers:",
        f"  broker 0 at {servers} (controller)",
        " 1 topics:",
        f'  topic "{topic}" with 2 partitions:',
        "    partition 0, leader 0, replicas: 0, isrs: 0",
        "    partition 1, leader 0, replicas: 0, isrs: 0",
    ]
    document = json.loads(cat("-L", "-t", topic, "-J").stdout)
    assert document["brokers"] == [{"id": 0, "name": servers}]
    assert document["topics"][0]["partitions"][1] == {
        "partition": 1,
        "leader": 0,
        "replicas": [{"id": 0}],
        "isrs": [{"id": 0}],
    }
    words = ("-Q", "-t", f"{topic}:0:1500", "-t", f"{topic}:1:99999999")
    assert cat(*words).stdout == f"{topic} [0] offset 1\n{topic} [1] offset -1\n"
    assert json.loads(cat(*words[:3], "-J").stdout) == {
        topic: {"topic": topic, "0": {"partition": 0, "offset": 1}}
    }


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-C", "-t", "T", "-p", "7"], "partition 7 does not exist"),
        (["-C", "-t", "absent"], "topic 'absent' does not exist"),
        (["-C", "-t", "T", "-f", "%z"], "Unsupported formatter: %z"),
        (["-C", "-t", "T", "-s", "value=i"], "truncated, expected 4 bytes to unpack i but only 2 bytes"),
        (["-C", "-t", "T", "-s", "avro"], "-s avro needs -r URL"),
        (["-C", "-t", "T", "-o", "soon"], "-o soon: expected beginning"),
        (["-Q", "-t", "T:0"], "expected TOPIC:PARTITION:MS"),
        (["-C", "-P", "-t", "T"], "one of -C, -P, -L, -Q, -G"),
        (["-P"], "-t TOPIC missing"),
        (["-P", "-t", "T", "-D", ""], "-D, -K: a delimiter may not be empty"),
        (["-P", "-t", "T", "-K", ""], "-D, -K: a delimiter may not be empty"),
    ],
)
def test_cat_refuses(cat: RunTool, topic: str, words: list[str], complaint: str) -> None:
    refused = cat(
        *(word if word.startswith("-") else word.replace("T", topic) for word in words), "-e", status=1
    )
    assert complaint in refused.stderr


def test_avro_by_a_registry(cat: RunTool, producer: Producer, name: str) -> None:
    pytest.importorskip("fastavro")
    from odradek.serdes import AvroSerializer, SchemaRegistryClient, SerializationContext
    from odradek.testing import SchemaRegistry

    schema = '{"type":"record","name":"R","fields":[{"name":"n","type":"int"},{"name":"b","type":"bytes"}]}'
    with SchemaRegistry() as registry:
        serialize = AvroSerializer(SchemaRegistryClient(url=registry.url), schema)
        context = SerializationContext(name, "value")
        producer.send(name, serialize({"n": 1, "b": b"\xff"}, context), key=b"k")
        producer.send(name, b"bad", key=b"k")
        producer.flush()
        words = ("-C", "-t", name, "-e", "-q", "-s", "value=avro", "-r", registry.url)
        assert cat(*words, "-c", "1", "-K=").stdout == 'k={"n":1,"b":"ÿ"}\n'
        good, bad = map(json.loads, cat(*words, "-J").stdout.splitlines())
        assert good["payload"] == {"n": 1, "b": "ÿ"}
        assert bad["payload"] is None
        assert bad["payload_error"]


def test_the_little_languages() -> None:
    assert unescape(r"\n\t\x00\65\q") == b"\n\t\x00Aq"
    assert pack_deserializer(">hHs")(b"\xff\xff\x00\x01rest") == b"-11rest"
    assert pack_deserializer("<i$")(b"\x01\x00\x00\x00") == b"1"
    with pytest.raises(CatFormatError, match="3 bytes remain"):
        pack_deserializer("b$")(b"1234")
    with pytest.raises(CatFormatError, match="no deserializer 'json'"):
        pack_deserializer("json")
    assert parse_offsets(["-5"]).start == -5
