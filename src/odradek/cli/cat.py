"""`odradek cat`: records out of and into topics, with the words of kcat.

`cat_consuming` prints records, by the formats of `cat_formats`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from odradek.cli.tool import Tool, bootstrap_option, client_configs, command_config_option, echo_lines
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek.client.types import ClusterDescription

_CHUNK = 2**16


@click.command(cls=Tool, name="cat")
@click.option("-C", "modes", flag_value="C", multiple=True, help="Consume: print records.")
@click.option("-P", "modes", flag_value="P", multiple=True, help="Produce: send what comes in.")
@click.option("-L", "modes", flag_value="L", multiple=True, help="List brokers, topics and partitions.")
@click.option("-Q", "modes", flag_value="Q", multiple=True, help="Ask for offsets: -t TOPIC:PARTITION:MS.")
@click.option("-G", "group", metavar="GROUP", help="Consume WORDS, topics or ^expressions, in a group.")
@bootstrap_option("-b")
@click.option("-t", "topics", multiple=True, metavar="TOPIC", help="The topic.")
@click.option("-p", "partition", type=int, help="The partition; all if left out, or chosen by key.")
@click.option(
    "-o",
    "offsets",
    multiple=True,
    metavar="OFFSET",
    help="beginning, end, stored, an offset, -N: the last N, s@MS and e@MS: from and until a time.",
)
@click.option("-e", "ends", is_flag=True, help="End behind the last record.")
@click.option("-c", "most", type=click.IntRange(1), metavar="N", help="End after N records.")
@click.option(
    "-f", "format_text", metavar="FORMAT", help=r"As '%t [%p] %o: %k = %s\n'; see the page of the tools."
)
@click.option("-J", "as_json", is_flag=True, help="Print JSON objects.")
@click.option(
    "-s", "serdes", multiple=True, metavar="[key=|value=]SERDE", help="avro, or a pack string: i, >q, …."
)
@click.option("-r", "registry", metavar="URL", help="The schema registry, for -s avro.")
@click.option("-D", "delimiter", default=r"\n", show_default=True, help="Between records.")
@click.option("-K", "key_delimiter", help="Between key and value; keys are printed or read then.")
@click.option("-O", "with_offset", is_flag=True, help="Print offsets too, with -K.")
@click.option("-Z", "nulls", is_flag=True, help="Print null as NULL; send what is empty as null.")
@click.option("-k", "key", metavar="KEY", help="The key of all records that have none.")
@click.option("-H", "headers", multiple=True, metavar="NAME=VALUE", help="A header; NAME alone: null.")
@click.option("-z", "codec", metavar="CODEC", help="Compression: gzip, snappy, lz4, zstd.")
@click.option("-l", "by_lines", is_flag=True, help="Split the file at delimiters; else a file is one record.")
@click.option("-T", "tees", is_flag=True, help="Print what is sent, too.")
@command_config_option("-F")
@click.option("-X", "properties", multiple=True, metavar="NAME=VALUE", help="A client config.")
@click.option(
    "-m",
    "limit_s",
    type=click.IntRange(1),
    default=15,
    show_default=True,
    help="Seconds to wait for brokers.",
)
@click.option("-q", "quiet", is_flag=True, help="Say nothing of ends of partitions.")
@click.option("-u", "unbuffered", is_flag=True, help="Print each record at once.")
@click.option("-E", "-v", is_flag=True, hidden=True, expose_value=False)
@click.argument("words", nargs=-1)
def command(modes: tuple[str, ...], bootstrap_server: str, **options: Any) -> None:
    """Print, send, list and ask, as kcat does. Without a mode: produce if something comes in, else consume.

    WORDS are files to send, or topics for -G.
    """
    from odradek.cli.cat_consuming import consume
    from odradek.cli.cat_formats import parse_offsets, unescape

    mode = _mode(modes, options["group"])
    topics: Sequence[str] = options["topics"] or (options["words"] if mode == "G" else ())
    if mode in "CP" and len(topics) != 1:
        raise click.UsageError("-t TOPIC missing" if not topics else "-t: give one topic")
    options["delimiter"] = unescape(options["delimiter"])
    options["key_delimiter"] = (
        None if options["key_delimiter"] is None else unescape(options["key_delimiter"])
    )
    if mode == "P" and b"" in (options["delimiter"], options["key_delimiter"]):
        raise click.UsageError("-D, -K: a delimiter may not be empty")
    configs = client_configs(
        bootstrap_server,
        options["config_file"],
        options["properties"],
        "-X",
        client_id="odradek-cat",
        default_api_timeout_ms=options["limit_s"] * 1000,
        compression_type=options["codec"] if mode == "P" else None,
        max_block_ms=options["limit_s"] * 1000 if mode == "P" else None,
    )
    if mode == "L":
        _list(configs, topics[0] if topics else None, as_json=options["as_json"])
    elif mode == "Q":
        _query(configs, topics, as_json=options["as_json"])
    elif mode == "P":
        _produce(configs, topics[0], options)
    else:
        consume(configs, topics, parse_offsets(options["offsets"]), options)


def _mode(modes: Sequence[str], group: str | None) -> str:
    chosen = set(modes) | ({"G"} if group is not None else set())
    if len(chosen) > 1:
        raise click.UsageError("one of -C, -P, -L, -Q, -G, please")
    if chosen:
        return chosen.pop()
    return "C" if sys.stdin.isatty() else "P"


# Metadata


def _list(configs: Mapping[str, Any], topic: str | None, *, as_json: bool) -> None:
    from odradek import Admin

    with Admin(**configs) as admin:
        cluster = admin.describe_cluster()
        described = admin.describe_topics()
    if topic is not None:
        if topic not in described:
            raise OdradekError(f"topic {topic!r} does not exist")
        described = {topic: described[topic]}
    partitions = {
        name: sorted(t.partitions, key=lambda p: p.partition) for name, t in sorted(described.items())
    }
    if as_json:
        rows = [
            {
                "topic": name,
                "partitions": [
                    {
                        "partition": p.partition,
                        "leader": p.leader,
                        "replicas": [{"id": broker} for broker in p.replicas],
                        "isrs": [{"id": broker} for broker in p.in_sync_replicas],
                    }
                    for p in of_topic
                ],
            }
            for name, of_topic in partitions.items()
        ]
        brokers = [{"id": n.id, "name": f"{n.host}:{n.port}"} for n in cluster.nodes]
        document = {
            "query": {"topic": topic or "*"},
            "controllerid": _controller(cluster),
            "brokers": brokers,
        }
        echo_lines([json.dumps(document | {"topics": rows}, separators=(",", ":"), ensure_ascii=False)])
        return
    lines = [f"Metadata for {topic or 'all topics'}:", f" {len(cluster.nodes)} brokers:"]
    for node in cluster.nodes:
        mark = " (controller)" if node.id == _controller(cluster) else ""
        lines.append(f"  broker {node.id} at {node.host}:{node.port}{mark}")
    lines.append(f" {len(partitions)} topics:")
    for name, of_topic in partitions.items():
        lines.append(f'  topic "{name}" with {len(of_topic)} partitions:')
        lines += [
            f"    partition {p.partition}, leader {p.leader}, replicas: {_ids(p.replicas)}, "
            f"isrs: {_ids(p.in_sync_replicas)}"
            for p in of_topic
        ]
    echo_lines(lines)


def _controller(cluster: ClusterDescription) -> int:
    return -1 if cluster.controller is None else cluster.controller.id


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _query(configs: Mapping[str, Any], words: Sequence[str], *, as_json: bool) -> None:
    from odradek import Admin, TopicPartition

    wanted: dict[TopicPartition, int] = {}
    for word in words:
        match = re.fullmatch(r"(.+):(\d+):(-?\d+)", word)
        if match is None:
            raise click.UsageError(f"-t {word}: expected TOPIC:PARTITION:MS")
        wanted[TopicPartition(match[1], int(match[2]))] = int(match[3])
    if not wanted:
        raise click.UsageError("-t TOPIC:PARTITION:MS missing")
    with Admin(**configs) as admin:
        offsets = {tp: at.offset for tp, at in admin.list_offsets(wanted).items()}
    if as_json:
        document: dict[str, dict[str, Any]] = {}
        for tp in wanted:
            of_topic = document.setdefault(tp.topic, {"topic": tp.topic})
            of_topic[str(tp.partition)] = {"partition": tp.partition, "offset": offsets[tp]}
        echo_lines([json.dumps(document, separators=(",", ":"), ensure_ascii=False)])
    else:
        echo_lines(f"{tp.topic} [{tp.partition}] offset {offsets[tp]}" for tp in wanted)


# Producing


def _produce(configs: Mapping[str, Any], topic: str, options: Mapping[str, Any]) -> None:
    """Send records. A signal aborts the transaction, if there is one.

    Raises:
        OdradekError: at least one was not delivered.
    """
    from odradek import Producer

    failed: list[BaseException] = []
    headers = [_header(word) for word in options["headers"]]
    # What was read is sent, whatever ends this: closing the producer waits for it.
    with Producer(**configs) as producer:
        transaction: AbstractContextManager[object] = nullcontext()
        if producer.config.transactional_id is not None:
            producer.init_transactions()
            transaction = producer.begin_transaction()
        with transaction:
            for count, data in enumerate(_inputs(options), 1):
                key, value = _parted(data, options)
                producer.send(
                    topic,
                    value,
                    key=key,
                    partition=None if options["partition"] in (None, -1) else options["partition"],
                    headers=headers,
                    on_delivery=lambda _, error: None if error is None else failed.append(error),
                )
                if options["tees"]:
                    sys.stdout.buffer.write(data + options["delimiter"])
                if count == options["most"]:
                    break
        producer.flush()
    if failed:
        raise OdradekError(f"{len(failed)} records were not delivered: {failed[0]}")


def _inputs(options: Mapping[str, Any]) -> Iterator[bytes]:
    """The data to be sent, a record each."""
    files = options["words"]
    if options["by_lines"] and len(files) != 1:
        raise click.UsageError("-l takes one file")
    if files and not options["by_lines"]:
        for name in files:
            yield Path(name).read_bytes()
    elif files:
        with Path(files[0]).open("rb") as file:
            yield from _split(file, options["delimiter"])
    else:
        yield from _split(sys.stdin.buffer, options["delimiter"])


def _split(file: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """The parts between delimiters; behind the last delimiter nothing is no part."""
    left = b""
    read = getattr(file, "read1", file.read)
    while data := read(_CHUNK):
        *parts, left = (left + data).split(delimiter)
        yield from parts
    if left:
        yield left


def _parted(data: bytes, options: Mapping[str, Any]) -> tuple[bytes | None, bytes | None]:
    """A record's key and value."""
    key = None if options["key"] is None else options["key"].encode("utf-8", "surrogateescape")
    value: bytes | None = data
    if options["key_delimiter"] is not None:
        before, delimiter, after = data.partition(options["key_delimiter"])
        if delimiter:
            key, value = before, after
    if options["nulls"]:
        return key or None, value or None
    return key, value


def _header(word: str) -> tuple[str, bytes | None]:
    name, equals, value = word.partition("=")
    return name, value.encode("utf-8", "surrogateescape") if equals else None
