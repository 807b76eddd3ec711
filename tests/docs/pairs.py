"""The programs of docs/coming_from: another client's beside ours, run on one broker and compared."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import STDOUT
from typing import Any, NamedTuple

import pytest

from interop import topics_of_kafka
from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition
from odradek.errors import KafkaError
from waiting import gathered, until

from .blocks import ROOT, Block, as_printed, blocks
from .running import run

FOLDER = ROOT / "docs" / "coming_from"
PACKAGES = {
    "confluent_kafka": "confluent_kafka",
    "kafka_python": "kafka",
    "aiokafka": "aiokafka",
    "faust": "faust",
}
"""Page → the package that has to be installed for its programs."""

CLICKS = (
    (b"user-1", b"home", 1_767_265_200_000),
    (b"user-2", b"cart", 1_767_268_800_000),
    (b"user-1", b"paid", 1_767_272_400_000),
)
"""What the topic `clicks` holds: 11:00, 12:00 and 13:00 of 2026-01-01, UTC."""

FAUST_WORDS = ("worker", "--without-web", "-l", "warn")
"""What a program of faust's is told. What it prints comes in its log, as warnings."""
_PRINTED_BY_FAUST = re.compile(r"^.*\[WARNING\] (.*?) *$", re.MULTILINE)

SERVERS = "127.0.0.1:9092"
_NAMES = ("clicks", "orders", "payments", "readers", "billing", "copier", "shop")
_NAME = re.compile(rf"\b({'|'.join(_NAMES)})\b")
_HEADING = re.compile(r"^### (.+)$", re.MULTILINE)
_DYNAMIC_TOPIC_CONFIG = 1


class Pair(NamedTuple):
    """Two programs that do the same.

    Attributes:
        page: the name of the page, without its suffix.
        shown: what the page says that both print.
    """

    page: str
    title: str
    theirs: Block
    ours: Block
    shown: str

    def __str__(self) -> str:
        return f"{self.page}-{self.title.replace(' ', '-')}"


@dataclass
class Outcome:
    """What a program did: the records, configs and committed offsets there are after it, by their names."""

    printed: str
    records: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    configs: dict[str, dict[str, str | None]] = field(default_factory=dict)
    committed: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)


def pairs(page: str) -> list[Pair]:
    """The pairs of a page: under each heading theirs, ours, and what both print.

    Raises:
        ValueError: a heading has other blocks.
    """
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    path = str((FOLDER / f"{page}.md").relative_to(ROOT))
    begin = text.index("\n## Programs\n")
    headings = [
        (text.count("\n", 0, match.start()) + 1, match[1]) for match in _HEADING.finditer(text, begin)
    ]
    of_heading: dict[str, list[Block]] = {title: [] for _, title in headings}
    for block in blocks(path, text):
        above = [title for line, title in headings if line < block.line]
        if above:
            of_heading[above[-1]].append(block)
    found = []
    for title, (theirs, ours, shown) in of_heading.items():
        if "odradek" in theirs.code or "odradek" not in ours.code or shown.language != "text":
            raise ValueError(f"{path}: {title}: theirs comes first, then ours, then what both print")
        found.append(Pair(page, title, theirs, ours, shown.code))
    return found


PAIRS = [pair for page in PACKAGES for pair in pairs(page)]


def has_package(page: str) -> bool:
    """Return whether the client that a page is about is installed."""
    return importlib.util.find_spec(PACKAGES[page]) is not None


def needs_package(page: str) -> None:
    """Skip, by name, where the client that a page is about is not installed."""
    if not has_package(page):
        pytest.skip(f"{page} is not installed")


class Stage:
    """A broker for programs: each finds `clicks` with its records, an empty `orders`, and a group `billing`
    that has read the first click. Their names are those of one program alone.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._numbers = itertools.count(1)

    def outcomes(self, pair: Pair, where: Path, python: str = sys.executable) -> tuple[Outcome, Outcome]:
        """Run theirs and ours; see `outcome`.

        Args:
            python: the Python that runs theirs.
        """
        theirs = self.outcome(pair.theirs, pair.shown, where, python)
        ours = self.outcome(pair.ours, pair.shown, where)
        if pair.theirs.prints is not None or pair.ours.prints is not None:
            # Nobody knows how far it was when the Ctrl-C came.
            theirs.committed, ours.committed = {}, {}
        return theirs, ours

    def outcome(self, block: Block, shown: str, where: Path, python: str = sys.executable) -> Outcome:
        """Run a program of a page.

        Args:
            shown: what it has to print.
            where: a folder for it.
            python: the Python that runs it.

        Raises:
            AssertionError: it failed, or printed something else.
        """
        suffix = f"_{next(self._numbers)}"
        with Admin(bootstrap_servers=self.servers) as admin:
            self._prepare(admin, suffix)
            program, errors = where / f"program{suffix}.py", where / f"errors{suffix}"
            code = _NAME.sub(rf"\g<1>{suffix}", block.code).replace(SERVERS, self.servers)
            program.write_text(code, encoding="utf-8")
            prints = block.prints and _NAME.sub(rf"\g<1>{suffix}", block.prints)
            by_faust = "import faust\n" in block.code
            words = [python, str(program), *(FAUST_WORDS if by_faust else ())]
            with errors.open("w", encoding="utf-8") as file:
                try:
                    printed = run(words, where, prints, STDOUT if by_faust else file)
                except AssertionError as failed:
                    raise AssertionError(f"{failed}\n{errors.read_text('utf-8')[-3000:]}") from None
            printed = re.sub(rf"\b({'|'.join(_NAMES)}){suffix}\b", r"\1", printed)
            if by_faust:
                printed = "\n".join(_PRINTED_BY_FAUST.findall(printed))
            told = f"{block} printed\n{printed}\n{errors.read_text('utf-8')[-3000:]}"
            assert as_printed(shown).fullmatch(printed.rstrip()), told
            outcome = Outcome(printed.rstrip())
            self._look(admin, suffix, outcome)
        return outcome

    def _prepare(self, admin: Admin, suffix: str) -> None:
        """Make what a program finds, and take away the groups of the one before, which might be listed."""
        until(lambda: _no_group(admin), "a broker without groups", every_s=0.1)
        clicks = NewTopic(f"clicks{suffix}", 1, 1, configs={"retention.ms": "-1"})
        topics_of_kafka.create(admin, clicks, NewTopic(f"orders{suffix}", 1, 1))
        with Producer(bootstrap_servers=self.servers) as producer:
            for key, value, timestamp_ms in CLICKS:
                producer.send(clicks.name, value, key, timestamp_ms=timestamp_ms)
        with Consumer(
            bootstrap_servers=self.servers, group_id=f"billing{suffix}", enable_auto_commit=False
        ) as consumer:
            consumer.assign([(clicks.name, 0)])
            consumer.commit({TopicPartition(clicks.name, 0): 1})

    def _look(self, admin: Admin, suffix: str, outcome: Outcome) -> None:
        """Note what is there."""
        wanted = {f"{name}{suffix}": name for name in _NAMES}
        for topic in wanted.keys() & set(admin.list_topics()):
            resource = ("topic", topic)
            configs = admin.describe_configs([resource])[resource]
            outcome.configs[wanted[topic]] = {
                name: entry.value for name, entry in configs.items() if entry.source == _DYNAMIC_TOPIC_CONFIG
            }
            outcome.records[wanted[topic]] = self._records(admin, topic)
        for group in wanted.keys() & {group.group_id for group in admin.list_groups()}:
            outcome.committed[wanted[group]] = {
                (wanted.get(topic, topic), partition): position.offset
                for (topic, partition), position in admin.list_group_offsets(group).items()
            }

    def _records(self, admin: Admin, topic: str) -> list[tuple[Any, ...]]:
        """What those see of a topic who read what is committed; one tuple more for an empty partition."""
        partitions = [
            TopicPartition(topic, found.partition)
            for found in admin.describe_topics([topic])[topic].partitions
        ]
        with Consumer(bootstrap_servers=self.servers, isolation_level="read_committed") as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(partitions)
            records = gathered(
                lambda: consumer.poll(100),
                lambda: all(consumer.position(tp) >= end for tp, end in ends.items()),
                f"the records of {topic}",
            )
        read = [(r.partition, r.key, r.value, r.headers) for r in records]
        return sorted(read, key=lambda record: record[0]) + [(tp.partition,) for tp in partitions]


def _no_group(admin: Admin) -> bool:
    """Delete the groups without members; return whether these were all."""
    try:
        admin.delete_groups([group.group_id for group in admin.list_groups()])
    except KafkaError:
        return False
    return True
