"""rsyslog's omkafka and syslog-ng's kafka destination: each line is there once, though brokers are killed."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pytest

from interop import compatibility, kafka_peer, members, programs
from interop.cluster_of_processes import cluster_or_skip
from interop.conftest import OdradekServer
from interop.tap import OURS
from odradek import Admin, Consumer, NewTopic
from waiting import WITHIN_S

pytestmark = [pytest.mark.interop, pytest.mark.between, pytest.mark.timeout(900)]

COUNT = 2_000
#: Where Debian's packages have their libraries.
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/syslog-ng")

RSYSLOG = """\
global(workDirectory="{folder}")
module(load="imfile")
module(load="omkafka")
template(name="line" type="string" string="%msg%")
ruleset(name="kafka") {{
  action(type="omkafka" broker=["{brokers}"] topic="lines" template="line"
         confParam=["enable.idempotence=true"] action.resumeRetryCount="-1" action.resumeInterval="1"
         resubmitOnFailure="on" keepFailedMessages="on" failedMsgFile="{folder}/failed")
}}
input(type="imfile" file="{folder}/lines" tag="lines" ruleset="kafka")
"""
SYSLOG_NG = """\
@version: 3.38
source lines {{ file("{folder}/lines" flags(no-parse) follow-freq(0.1)); }};
destination kafka {{
  kafka-c(bootstrap-servers("{brokers}") topic("lines") message("$MSG") {options});
}};
log {{ source(lines); destination(kafka); flags(flow-control); }};
"""
IDEMPOTENT = 'config("enable.idempotence" => "true")'
TRANSACTIONAL = 'sync-send(yes) batch-lines(100) batch-timeout(100) config("transactional.id" => "syslog-ng")'


class Logger(NamedTuple):
    """A program that sends what is added to a file to the topic `lines`.

    Attributes:
        name: as its users call it, and what it was told.
        packages: of Debian's; the first tells its release.
        words: of its command line; {root} is where the packages are, {folder} where it works.
        config: of the file that the words name as {folder}/config.
        does: what stands under `transactions`.
    """

    name: str
    packages: tuple[str, ...]
    words: str
    config: str
    does: str = ""


def _syslog_ng(how: str, options: str, does: str = "") -> Logger:
    return Logger(
        f"syslog-ng, {how}",
        (
            "syslog-ng-core",
            "syslog-ng-mod-rdkafka",
            "libivykis0",
            "libnet1",
            "libpcre3",
            "libwrap0",
            "librdkafka1",
        ),
        "{root}/usr/sbin/syslog-ng -F --no-caps -f {folder}/config"
        " --module-path={root}/usr/lib/syslog-ng/3.38 --persist-file={folder}/persist"
        " --control={folder}/control --pidfile={folder}/pid",
        SYSLOG_NG.replace("{options}", options),
        does,
    )


LOGGERS = [
    Logger(
        "rsyslog, idempotent",
        ("rsyslog", "rsyslog-kafka", "libestr0", "libfastjson4", "librdkafka1"),
        "{root}/usr/sbin/rsyslogd -n -f {folder}/config -i {folder}/pid"
        " -M {root}/usr/lib/x86_64-linux-gnu/rsyslog",
        RSYSLOG,
    ),
    _syslog_ng("idempotent", IDEMPOTENT),
    _syslog_ng("transactional", TRANSACTIONAL, "commit"),
]


class Logging:
    """A logger at work."""

    def __init__(self, logger: Logger, bootstrap: str, folder: Path) -> None:
        try:
            self.root = programs.debian_packages(*logger.packages)
        except RuntimeError as why:
            pytest.skip(str(why))
        self.row = ("C", logger.name, programs.debian_release(self.root, logger.packages[0]), "Debian")
        self.folder = folder
        self.lines = folder / "lines"
        self.lines.touch()
        config = logger.config.format(folder=folder, brokers=bootstrap)
        (folder / "config").write_text(config, encoding="utf-8")
        words = [word.format(root=self.root, folder=folder) for word in logger.words.split()]
        libraries = ":".join(str(self.root / library) for library in LIBRARIES)
        self.program = programs.Program(tuple(words), {"LD_LIBRARY_PATH": libraries})
        self.sent: list[bytes] = []
        self.read: list[bytes] = []
        at = {"bootstrap_servers": bootstrap, "client_id": OURS}
        with Admin(**at) as admin:
            admin.create_topics([NewTopic("lines", 2)])
        self.consumer = Consumer(
            "lines", **at, group_id="look", auto_offset_reset="earliest", isolation_level="read_committed"
        )
        self.child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Logging:
        self.child = self.program.serve(folder=self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.child is not None
        self.child.kill()
        self.child.wait(WITHIN_S)
        self.consumer.close()
        if error is not None:
            told = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
            error.add_note(f"{len(self.read)} of {len(self.sent)} lines; {told[-4000:]}")

    def write(self, word: str) -> None:
        """Add lines that begin with the word."""
        values = [f"{word}-{i}".encode() for i in range(COUNT)]
        with self.lines.open("ab") as file:
            file.write(b"".join(value + b"\n" for value in values))
        self.sent += values

    def _poll(self) -> int:
        self.read += [record.value or b"" for record in self.consumer.poll(timeout_ms=200)]
        return len(set(self.read))

    def some_are_there(self) -> None:
        """Wait until more are there than before."""
        before = len(self.read)
        members.until("more lines are there", lambda: self._poll() > before, kafka_peer.TOOL_LIMIT_S)

    def each_is_there_once(self) -> None:
        """Wait until all are there."""
        members.until("all lines are there", lambda: self._poll() == len(self.sent), kafka_peer.TOOL_LIMIT_S)
        assert Counter(self.read) == Counter(self.sent)


@pytest.mark.parametrize("logger", LOGGERS, ids=lambda logger: logger.name.replace(", ", "-"))
class TestLoggers:
    """Each on one broker and on three."""

    def test_its_only_broker_is_killed(
        self,
        logger: Logger,
        tapped: OdradekServer,
        tmp_path: Path,
        compatibility_row: Callable[..., compatibility.Row],
    ) -> None:
        with Logging(logger, tapped.bootstrap_servers, tmp_path) as logging:
            row = compatibility_row(*logging.row)
            for n in range(3):
                logging.write(f"before-{n}")
                logging.some_are_there()
                logging.write(f"while-{n}")
                tapped.stop(signal.SIGKILL)
                logging.write(f"after-{n}")
                tapped.start()
            logging.each_is_there_once()
            row.does("produce", "broker restart")
            if logger.does:
                row.does("transactions", what=logger.does)

    def test_one_of_three_brokers_is_killed(
        self, logger: Logger, tmp_path: Path, compatibility_row: Callable[..., compatibility.Row]
    ) -> None:
        with (
            cluster_or_skip(tmp_path) as cluster,
            Logging(logger, cluster.bootstrap_servers, tmp_path) as logging,
        ):
            row = compatibility_row(*logging.row)
            logging.write("before")
            logging.some_are_there()
            logging.write("while")
            killed = cluster.leaders("lines")[0]
            cluster.kill(killed)
            logging.write("after")
            logging.each_is_there_once()
            cluster.start(killed)
            row.does("broker restart", what="one of three killed")
