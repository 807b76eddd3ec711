"""The table of `docs/compatibility.md`, gathered while the tests run.

A test tells its `Row` what a client has done; the outcome is the test's own. Rows travel as properties of the
test's report, so they arrive from xdist's workers as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PROPERTY = "compatibility"
#: What a client may have done, in the order of the table's columns.
COLUMNS = (
    "produce",
    "consume",
    "group",
    "commit, resume",
    "rebalance",
    "broker restart",
    "transactions",
    "offsets by time",
    "admin",
    "login",
    "throttled",
)
#: What stands under `login`, in this order.
LOGINS = (
    "TLS",
    "client certificate",
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "OAUTHBEARER, unsigned",
    "GSSAPI",
)
#: Worst first.
RESULTS = ("failed", "known to fail", "skipped", "passed")

HEAD = """\
# Compatibility

This page says which clients of Kafka work with an odradek broker, in which releases, and what each was seen
to do. Find your client in the table of its language. Each client was installed from its registry and ran
against one broker, or three where a cell says so. The test run writes this page (`make compatibility`);
nobody edits it.

A cell says what was done and worked. "–" means that the client does not have the function, or that another
row of the same client shows it. `produce` names the codecs that were written and read back. `login` names
the ways in which the client connected to listeners with TLS or a login. `throttled` names what a quota
slowed down as Apache Kafka's broker does.
"""
NOTES_HEAD = """\
## What to know of them

Seen in these runs, with Apache Kafka as with this broker.
"""
REQUESTS_HEAD = """\
## What they asked

The newest version of each API that went from the client to the broker.
"""


@dataclass
class Row:
    """What one release of one client does.

    Attributes:
        family: what the rows are sorted by first: `Java`, `Go` ….
        client, version: its name and its release.
        registry: where it comes from.
        did: column → what was done: codecs, or `yes`.
        requests: API name → the newest version that it sent.
        notes: what its users have to know, in sentences.
        result: one of `RESULTS`, with the reason behind a colon.
    """

    family: str
    client: str
    version: str
    registry: str
    did: dict[str, str] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    result: str = ""

    def does(self, *columns: str, what: str = "yes") -> None:
        """Note that these were done and held."""
        for column in columns:
            assert column in COLUMNS, column
            before = self.did.get(column, "")
            if before in ("", "yes"):
                self.did[column] = what
            else:
                new = [one for one in what.split("; ") if one not in ("yes", *before.split("; "))]
                self.did[column] = "; ".join([before, *new])

    def asked(self, seen: dict[int, int]) -> None:
        """Note the requests that a tap has seen: API key → newest version."""
        from odradek.wire.api import ApiKey

        for key, version in seen.items():
            name = ApiKey(key).api_name if key in set(ApiKey) else str(key)
            self.requests[name] = max(version, self.requests.get(name, -1))


Rows = Callable[..., Row]
"""The fixture `compatibility_row`: makes a row of that family, client, release and registry."""


def result_of(outcome: str, reason: str, *, expected_to_fail: bool) -> str:
    """The words for a test's outcome (`passed`, `failed`, `skipped`)."""
    if expected_to_fail and outcome != "failed":
        return f"known to fail: {reason}"
    if outcome == "skipped":
        return f"skipped: {reason.removeprefix('Skipped: ')}"
    return outcome


def merged(rows: Iterable[dict[str, Any]]) -> list[Row]:
    """One row for each release of each client; the worst result of its tests counts."""
    found: dict[tuple[str, str, str], Row] = {}
    for values in rows:
        row = Row(**values)
        present = found.setdefault((row.family, row.client, row.version), row)
        if present is row:
            continue
        for column, what in row.did.items():
            present.does(column, what=what)
        for name, version in row.requests.items():
            present.requests[name] = max(version, present.requests.get(name, -1))
        present.notes += [note for note in row.notes if note not in present.notes]
        present.result = min(
            present.result, row.result, key=lambda result: RESULTS.index(result.split(":")[0])
        )
    return sorted(found.values(), key=_order)


def _order(row: Row) -> tuple[str, str, list[int], str]:
    return row.family, row.client, [int(part) for part in re.findall(r"\d+", row.version)], row.version


def _cell(row: Row, column: str) -> str:
    done = row.did.get(column, "–")
    if column == "login" and done != "–":
        return "; ".join(sorted(done.split("; "), key=LOGINS.index))
    return done


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def document(rows: Iterable[dict[str, Any]]) -> str:
    """The page."""
    from odradek.wire.api import ApiKey

    table = merged(rows)
    families = list(dict.fromkeys(row.family for row in table))
    keys = {key.api_name: int(key) for key in ApiKey}
    text = HEAD
    for family in families:
        text += f"\n## {family}\n\n"
        text += _line(("client", "version", "from", *COLUMNS, "result"))
        text += _line(["---"] * (len(COLUMNS) + 4))
        for row in table:
            if row.family == family:
                done = [_cell(row, column) for column in COLUMNS]
                text += _line((row.client, row.version, row.registry, *done, row.result))
    if any(row.notes for row in table):
        text += "\n" + NOTES_HEAD + "\n"
        text += "".join(f"- {row.client} {row.version}: {note}\n" for row in table for note in row.notes)
    text += "\n" + REQUESTS_HEAD + "\n" + _line(("client", "version", "API and newest version"))
    text += _line(["---"] * 3)
    for row in table:
        if row.requests:
            names = sorted(row.requests, key=lambda name: keys.get(name, 10_000))
            asked = ", ".join(f"{name} {row.requests[name]}" for name in names)
            text += _line((row.client, row.version, asked))
    return text


class Collector:
    """The part of a pytest run that gathers rows and writes the page at its end.

    Beside the page lie the rows by test, as JSON: a run of some tests, such as those that have failed among
    all the others, renews theirs and keeps the rest.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take the rows of a finished test."""
        if report.when != "teardown":
            return
        rows = [row for name, row in report.user_properties if name == PROPERTY]
        if rows:
            self.rows[report.nodeid] = rows

    def pytest_sessionfinish(self) -> None:
        """Write the page."""
        if not self.rows:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = self.path.with_suffix(".json")
        before = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        by_test = before | self.rows
        kept.write_text(json.dumps(by_test, indent=1, sort_keys=True), encoding="utf-8")
        # In one order, whichever ran when.
        self.path.write_text(
            document(row for test in sorted(by_test) for row in by_test[test]), encoding="utf-8"
        )


def as_property(row: Row) -> tuple[str, dict[str, Any]]:
    """A row as a property of a test's report."""
    return PROPERTY, asdict(row)
