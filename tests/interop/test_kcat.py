"""kcat does what its users ask of it, on one broker that is killed and on three of which one is."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from interop import kafka_peer, members
from interop.compatibility import Rows
from interop.conftest import OdradekServer
from interop.one_or_three import Brokers
from interop.row_names import RowName
from interop.tap import OURS
from odradek import Admin, NewTopic
from waiting import WITHIN_S

pytestmark = [pytest.mark.interop, pytest.mark.between, pytest.mark.timeout(900)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KCAT = shutil.which("kcat")
METADATA_LIMIT_S = 60
"""So long it waits for what it has to know of the brokers; its own 5 seconds a busy machine misses."""
READS = ("-C", "-o", "beginning", "-e", "-q")
#: It goes on without a broker; nothing is written twice.
PATIENTLY = ("-E", "-X", "enable.idempotence=true")


class Kcat:
    """kcat at a broker, with a topic of two partitions: `lines`."""

    def __init__(self, bootstrap: str) -> None:
        if KCAT is None:
            pytest.skip("not on this machine: kcat")
        self.words = (KCAT, "-b", bootstrap, "-m", str(METADATA_LIMIT_S))
        with Admin(bootstrap_servers=bootstrap, client_id=OURS) as admin:
            admin.create_topics([NewTopic("lines", 2)])

    def row(self) -> RowName:
        """Its row of docs/compatibility.md."""
        said = self.run("-V")
        released = re.search(r"Version (\S+)", said)
        assert released is not None, said
        return "C", "kcat", released[1], "Debian"

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start it."""
        pipe = subprocess.PIPE
        return subprocess.Popen([*self.words, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: str, stdin: str = "") -> str:
        """What it prints."""
        done = subprocess.run(
            [*self.words, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=kafka_peer.TOOL_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read(self, *words: str) -> list[str]:
        """The lines of the topic."""
        return self.run(*READS, "-t", "lines", *words).splitlines()


def lines(word: str, count: int = 2_000) -> list[str]:
    """Lines that begin with a word, of more than one of the blocks that kcat reads."""
    return [f"{word}-{i}" for i in range(count)]


def test_on_one_broker(tapped: OdradekServer, compatibility_row: Rows) -> None:
    kcat = Kcat(tapped.bootstrap_servers)
    row = compatibility_row(*kcat.row())
    listed = json.loads(kcat.run("-L", "-J", "-t", "lines"))
    assert [len(topic["partitions"]) for topic in listed["topics"]] == [2]
    row.does("admin", what="describe")
    for codec in CODECS:
        sent = "".join(f"key:{codec}-{i}\n" for i in range(10))
        kcat.run("-P", "-t", "lines", "-p", "0", "-K", ":", "-H", "n=1", "-z", codec, stdin=sent)
    row.does("produce", what=" ".join(CODECS))
    wanted = [f"0 {n} key n=1 {CODECS[n // 10]}-{n % 10}" for n in range(10 * len(CODECS))]
    assert kcat.read("-f", "%p %o %k %h %s\n") == wanted
    assert len(kcat.read("-p", "0", "-o", "-5")) == 5
    row.does("consume")
    assert kcat.run("-Q", "-t", "lines:0:0").split() == ["lines", "[0]", "offset", "0"]
    assert kcat.run("-Q", "-t", "lines:0:-1").split()[-1] == str(len(wanted))
    row.does("offsets by time")

    group = ("-q", "-X", "auto.offset.reset=earliest", "-G", "kcat")
    taken = [kcat.run(*group, "-c", str(count), "lines").splitlines() for count in (20, 30)]
    assert taken[0] + taken[1] == [line.split()[-1] for line in wanted]
    row.does("group", "commit, resume")

    transactional = ("-P", "-t", "lines", "-p", "1", "-X", "transactional.id=kcat")
    kcat.run(*transactional, stdin="committed\n")
    child = kcat.start(*transactional)
    try:
        assert child.stdin is not None
        child.stdin.write("aborted\n" * 2_000)  # it reads by blocks
        child.stdin.flush()
        uncommitted = ("-p", "1", "-X", "isolation.level=read_uncommitted")
        members.until("the transaction's lines are there", lambda: "aborted" in kcat.read(*uncommitted))
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=WITHIN_S)
    finally:
        child.kill()
        child.wait(WITHIN_S)
    assert kcat.read("-p", "1") == ["committed"]
    row.does("transactions", what="commit, abort")


def written_while(kcat: Kcat, *events: Callable[[], Any]) -> None:
    """Write on with one kcat while each of the events happens; each line is there once."""
    child = kcat.start("-P", "-t", "lines", *PATIENTLY)
    try:
        assert child.stdin is not None
        words = ["first", *(f"after {event.__name__}" for event in events)]
        for word, event in zip(words, [*events, None], strict=True):
            child.stdin.write("".join(f"{line}\n" for line in lines(word)))
            child.stdin.flush()
            if event is not None:
                event()
        _, told = child.communicate(timeout=kafka_peer.TOOL_LIMIT_S)
    finally:
        child.kill()
        child.wait(WITHIN_S)
    assert child.returncode == 0, told
    wanted = [line for word in words for line in lines(word)]
    assert Counter(kcat.read()) == Counter(wanted)


def test_writes_on_while_a_broker_is_killed(brokers: Brokers, compatibility_row: Rows) -> None:
    kcat = Kcat(brokers.bootstrap_servers)
    row = compatibility_row(*kcat.row())

    def kill() -> None:
        members.until("the first lines are there", lambda: bool(kcat.read()))
        brokers.kill_leader("lines")

    written_while(kcat, kill, brokers.start_again)
    row.does("broker restart", what=brokers.restart)
