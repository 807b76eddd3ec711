"""Every block of code of README.md and docs does what it says, page by page on an empty broker."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from odradek import Consumer, Producer, TopicPartition
from odradek.client import RawReader

from .blocks import ROOT, Block, as_printed, commands, every, fault
from .running import LIMIT_S, run, script
from .stories import is_story

BLOCKS = every()
PORT = re.compile(r"\b9092\b")
CONTROL = re.compile(r"\b8082\b")
"""The control port of a page's `odradek mock`, which is then the page's broker."""

METRICS = re.compile(r"\b9404\b")
CONSOLE = re.compile(r"\b8090\b")

#: What a block of a page takes from its reader.
GIVEN = {
    "docs/wire.md": (
        "from odradek.records.builder import build_batch\nbatch = build_batch([(0, b'k', b'v', ())])\n"
    )
}


def _in_spark(block: Block) -> bool:
    return "odradek.spark" in block.code or '.format("odradek")' in block.code


def _runs(*languages: str, spark: bool = False) -> list[Any]:
    """The blocks of these languages, as parameters."""
    return [
        pytest.param(block, id=str(block))
        for block in BLOCKS
        if block.language in languages
        and block.excerpt is None
        and _in_spark(block) == spark
        # Those programs run in pairs: test_coming_from.py.
        and not block.page.startswith("docs/coming_from/")
        and not is_story(block)  # test_stories.py
    ]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_it_runs_or_says_why_not(block: Block) -> None:
    assert fault(block) == ""
    if block.excerpt is not None:
        for path in re.findall(r"\b(?:src|tests|examples)/\S+", block.excerpt):
            assert (ROOT / path).exists(), f"{block}: there is no {path}"


FROM_FILES = [block for block in BLOCKS if block.excerpt is not None and block.excerpt.endswith(".py")]


@pytest.mark.parametrize("block", [one for one in FROM_FILES if " " not in one.excerpt], ids=str)
def test_an_excerpt_of_a_file_is_in_it(block: Block) -> None:
    assert block.excerpt is not None
    lines = iter((ROOT / block.excerpt).read_text(encoding="utf-8").splitlines())
    for line in block.code.splitlines():
        assert line in lines, f"{block}: not in {block.excerpt}, or not there: {line}"


@dataclass(frozen=True)
class RunningBroker:
    """A page's broker: its address, and the file that it logs to."""

    servers: str
    log: Path

    def metrics_port(self) -> str:
        """Return the port of its metrics, which it logs before it is ready."""
        served = re.search(r"metrics served url=http://[^/]*:(\d+)/", self.log.read_text(encoding="utf-8"))
        assert served is not None, f"no metrics in {self.log}"
        return served[1]


@contextmanager
def _broker(data: Path) -> Iterator[RunningBroker]:
    """A broker as README has it started; its metrics can be read."""
    words = [script("odradek"), "server", "--data", str(data), "--port", "0", "--metrics-port", "0"]
    log_file = data.with_suffix(".log")
    with log_file.open("wb") as log:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
    assert child.stdout is not None
    try:
        line = child.stdout.readline()
        assert line.startswith("ready "), log_file.read_text(encoding="utf-8")
        yield RunningBroker(line.split()[1], log_file)
    finally:
        child.terminate()
        child.wait(30)
        child.stdout.close()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], RunningBroker]]:
    """The broker of each page, which is empty when the page's first block comes."""
    with ExitStack() as running:

        @cache
        def of(page: str) -> RunningBroker:
            return running.enter_context(_broker(tmp_path_factory.mktemp("data")))

        yield of


@contextmanager
def _mock() -> Iterator[tuple[str, str]]:
    """A mock as a page has it started: its address for clients, and that of its control port."""
    child = subprocess.Popen([script("odradek"), "mock"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        control, ready = child.stdout.readline(), child.stdout.readline()
        yield ready.split()[1], control.split()[1]
    finally:
        child.terminate()
        child.wait(30)
        child.stdout.close()


@pytest.fixture(scope="module")
def mocks() -> Iterator[Callable[[str], tuple[str, str]]]:
    """The mock of each page, whose blocks follow each other."""
    with ExitStack() as running:

        @cache
        def of(page: str) -> tuple[str, str]:
            return running.enter_context(_mock())

        yield of


@pytest.fixture
def servers(brokers: Callable[[str], RunningBroker], block: Block) -> str:
    """The broker of the block's page."""
    return brokers(block.page).servers


def _at(servers: str, code: str) -> str:
    """The code of a page, for the broker of the tests."""
    return PORT.sub(servers.rsplit(":", 1)[1], code)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("block", _runs("python", "console"))
def test_block(
    brokers: Callable[[str], RunningBroker],
    mocks: Callable[[str], tuple[str, str]],
    block: Block,
    tmp_path: Path,
) -> None:
    """The blocks of a page run in the order in which they stand there."""
    if block.language == "python":
        program = tmp_path / "block.py"
        code = GIVEN.get(block.page, "") + _at(brokers(block.page).servers, block.code)
        program.write_text(code, encoding="utf-8")
        run([sys.executable, str(program)], tmp_path, block.prints)
        return
    code = block.code
    if CONTROL.search(code) is not None and "odradek mock" not in code:
        servers, control = mocks(block.page)
        code = CONTROL.sub(control.rsplit(":", 1)[1], code)
    else:
        servers = brokers(block.page).servers
    if "--group billing" in code:
        _commit_as_billing(servers)
    starts = "odradek server" in code or "odradek mock" in code
    if starts:  # the broker of the page has the port
        code = CONTROL.sub("0", PORT.sub("0", code))
    if METRICS.search(code) is not None:
        code = METRICS.sub("0" if starts else brokers(block.page).metrics_port(), code)
    code = CONSOLE.sub("0", code)
    for command, shown in commands(_at(servers, code)):
        printed = run(["bash", "-c", command], tmp_path, block.prints)
        if shown and block.prints is None:
            assert as_printed(shown).fullmatch(printed.rstrip()), f"{command} printed\n{printed}"


def _commit_as_billing(servers: str) -> None:
    """A group that has read a topic, and has no members now."""
    _fill(servers, "orders")
    with Consumer(bootstrap_servers=servers, group_id="billing") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.commit({TopicPartition("orders", 0): 1})


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session; it is left open where other tests have opened it."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from odradek.spark import session

    before = SparkSession.getActiveSession()
    opened = session("docs", "local[2]", log_level="OFF")
    yield opened
    if before is None:
        opened.stop()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("block", _runs("python", spark=True))
def test_spark(servers: str, block: Block, spark: Any, tmp_path: Path) -> None:
    for topic in re.findall(r'\.option\("subscribe", "(\w+)"\)', block.code):
        _fill(servers, topic)
    names = {"spark": spark}
    rows = spark.createDataFrame([("a",), ("b",), ("c",)], "value string")
    if "frame.writeStream" in block.code:
        names["frame"] = _stream(spark, servers)
    code = _at(servers, block.code).replace('"checkpoints/', f'"{tmp_path}/checkpoints/')
    exec(compile(code, str(block), "exec"), names)

    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
    for made in names.values():
        if inspect.isfunction(made) and made.__code__.co_filename == str(block):
            made(rows, 0)
        if getattr(made, "isStreaming", False):
            _read_once(made, tmp_path / "read")
    for topic in re.findall(r'\.option\("topic", "(\w+)"\)|for topic in \("(\w+)"', code):
        assert _end(servers, "".join(topic)) > 0, f"{topic} is empty"


def _fill(servers: str, topic: str) -> None:
    """Send three records."""
    with Producer(bootstrap_servers=servers) as producer:
        for value in (b"a", b"b", b"c"):
            producer.send(topic, value).result(60)


def _stream(spark: Any, servers: str) -> Any:
    """A stream of three records."""
    _fill(servers, "given")
    options = {"kafka.bootstrap.servers": servers, "subscribe": "given", "startingOffsets": "earliest"}
    return spark.readStream.format("odradek").options(**options).load().select("key", "value")


def _read_once(stream: Any, checkpoint: Path) -> None:
    """Read what there is of a stream.

    Spark gives a Python worker ten seconds to start, which a busy machine may not: then it begins again.
    """
    from pyspark.errors import StreamingQueryException

    writer = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    while True:
        try:
            return writer.trigger(availableNow=True).start().awaitTermination()
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise


def _end(servers: str, topic: str) -> int:
    """How many records and markers the topic has."""
    with RawReader(servers) as reader:
        partitions = [(topic, number) for number in reader.partitions_for(topic)]
        return sum(reader.end_offsets(partitions).values())
