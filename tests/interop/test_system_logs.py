"""rsyslog's omkafka and syslog-ng's kafka destination: each line is there once, though brokers are killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import waiting
from interop import programs
from interop.committed import Committed, committed
from interop.compatibility import Rows
from interop.one_or_three import Brokers
from interop.served import LIMIT_S, until
from interop.tap import OURS
from odradek import Admin, NewTopic

pytestmark = [pytest.mark.interop, pytest.mark.between, pytest.mark.timeout(900)]

COUNT = 2_000
PARTITIONS = 2
KILLS = 3
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
    """A logger at work.

    Attributes:
        sent: the lines that were added to its file.
    """

    def __init__(self, lines: Path, seen: Committed) -> None:
        self.sent: list[str] = []
        self._lines = lines
        self._seen = seen

    def write(self, word: str) -> None:
        """Add lines that begin with the word."""
        lines = [f"{word}-{i}" for i in range(COUNT)]
        with self._lines.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        self.sent += lines

    def some_are_there(self) -> None:
        """Wait until more are there than before."""
        before = len(self._seen.records)
        until("more lines are there", lambda: self._seen.count() > before)

    def each_is_there_once(self) -> None:
        """Wait until all are there."""

        def missing() -> set[str]:
            self._seen.count()
            return set(self.sent) - set(self._seen.values)

        waiting.until(missing, "all lines to be there", holds=lambda rest: not rest, within_s=LIMIT_S)
        assert Counter(self._seen.values) == Counter(self.sent)


@contextmanager
def logging(logger: Logger, root: Path, bootstrap: str, folder: Path) -> Iterator[Logging]:
    """The logger at work on these brokers.

    Args:
        logger: which.
        root: where its packages are.
        bootstrap: the brokers' addresses.
        folder: where it works.
    """
    lines = folder / "lines"
    lines.touch()
    config = logger.config.format(folder=folder, brokers=bootstrap)
    (folder / "config").write_text(config, encoding="utf-8")
    words = [word.format(root=root, folder=folder) for word in logger.words.split()]
    libraries = ":".join(str(root / library) for library in LIBRARIES)
    program = programs.Program(tuple(words), {"LD_LIBRARY_PATH": libraries})
    with Admin(bootstrap_servers=bootstrap, client_id=OURS) as admin:
        admin.create_topics([NewTopic("lines", PARTITIONS)])
    with committed(bootstrap, "lines", PARTITIONS) as seen, program.serve(folder=folder):
        yield Logging(lines, seen)


@pytest.mark.parametrize("logger", LOGGERS, ids=lambda logger: logger.name.replace(", ", "-"))
def test_each_line_is_there_once_though_brokers_are_killed(
    logger: Logger, brokers: Brokers, tmp_path: Path, compatibility_row: Rows
) -> None:
    try:
        root = programs.debian_packages(*logger.packages)
    except RuntimeError as why:
        pytest.skip(str(why))
    row = compatibility_row("C", logger.name, programs.debian_release(root, logger.packages[0]), "Debian")
    with logging(logger, root, brokers.bootstrap_servers, tmp_path) as log:
        for n in range(KILLS):
            log.write(f"before-{n}")
            log.some_are_there()
            log.write(f"while-{n}")
            brokers.kill_leader("lines")
            log.write(f"after-{n}")
            if brokers.survive:
                log.each_is_there_once()
            brokers.start_again()
        log.each_is_there_once()
    row.does("produce")
    row.does("broker restart", what=brokers.restart)
    if logger.does:
        row.does("transactions", what=logger.does)
