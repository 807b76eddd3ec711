"""docs/faults_and_clients.md: written from what clients did, and read by the test that they still do it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from interop.faulted.cases import Case
from interop.faulted.hosts import Host
from interop.faulted.meeting import Cell
from odradek.testing import Fault

PAGE = Path(__file__).parents[3] / "docs" / "faults_and_clients.md"

HEAD = """\
# What clients do when a broker fails

Each client met the same faults, one at a time, at a broker of `odradek.testing`; this page tells what became
of its work. It is for whoever writes a client, chooses one, or wonders what an application has to be ready
for. `make faulted-clients` writes the page from what happened, and nobody edits it; `make interop` requires
that it still happens. The faults are sentences of [testing.md](testing.md), which any test may say.

## The work

A producer writes ten records to one partition with `acks=all`, each in a batch by itself, and each when the
one before is acknowledged; "together" means that the last five are sent at once. It ends at its first error.
A transactional producer writes two transactions of five records. A consumer is the only member of its group;
it reads ten records and commits after each poll that returned some. When a poll or a commit fails, it polls
again, and commits again. Faults are there from the middle of the work on, or "from the start".

All clients have a time-out of 1.5 s for a request, of 6 s for a call or the delivery of a record, and of 6 s
for a session, with a heartbeat each 0.3 s. All else is as it comes, but for what these need: aiokafka
has one time-out for requests and deliveries, which is 1.5 s here; franz-go asks for metadata, after which it
tries again, each 0.25 s at most, in place of 5 s.

## What the words mean

| words | meaning |
| --- | --- |
| recovered | all records are there once and in order, and the caller saw no error |
| N duplicates | so many records are in the log, or were read, once more |
| out of order | records are in the log in another order than they were sent in |
| told NAME | the caller saw this error, went on, and all was well |
| failed: NAME | the work ended with this error; the name is the library's |
| timed out: NAME | the same, and the error is one of time |
| yet done | the caller was told of a failure, and what failed has been done |
| hung | records are missing, and there was no error either until the test ended it |
| lost N | so many records were acknowledged and are not there |
| not met | the client never sent what the fault waited for |

In parentheses: how many requests of the counted API came from the moment the fault was there until the work
was over. A cell with "or" has what happened in different runs.
"""

WORK = {
    "produce idempotent": "an idempotent producer",
    "produce plain": "a producer, not idempotent",
    "consume": "a consumer in a group",
    "transact": "a transactional producer",
    "create": "an administrator creates the topic",
}


class Filled:
    """What a client did in one case, in one run or more."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.outcomes = sorted({cell.outcome for cell in cells})
        self.fewest = min(cell.requests for cell in cells)
        self.most = max(cell.requests for cell in cells)

    def __str__(self) -> str:
        """The text of the table's cell."""
        count = f"{self.fewest}" if self.fewest == self.most else f"{self.fewest}–{self.most}"
        return f"{' or '.join(self.outcomes)} ({count})"

    @classmethod
    def read(cls, text: str) -> Filled:
        """The cell of such a text."""
        told = re.fullmatch(r"(.*) \((\d+)(?:–(\d+))?\)", text)
        assert told is not None, text
        counts = (int(told[2]), int(told[3] or told[2]))
        return cls([Cell(words, count) for words in told[1].split(" or ") for count in counts])

    @property
    def cells(self) -> list[Cell]:
        """Cells that make this one."""
        return [Cell(told, count) for told in self.outcomes for count in (self.fewest, self.most)]

    def holds(self, cell: Cell) -> bool:
        """Whether that is what stands here; the number of requests is one of time, and compared loosely."""
        return cell.outcome in self.outcomes and self.fewest // 2 - 2 <= cell.requests <= 2 * self.most + 2


def sentence(fault: Fault) -> str:
    """A fault as a test says it."""

    def shown(value: object) -> str:
        return f'"{value}"' if isinstance(value, str) else f"{value}"

    own = {"fail": fault.error, "delay": fault.delay_ms, "throttle": fault.throttle_ms}.get(fault.effect)
    words = [shown(api) for api in fault.apis]
    if own is not None:
        words.append(shown(own))
    names = ("after", "topic", "nth", "times")
    words += [f"{name}={shown(value)}" for name in names if (value := getattr(fault, name))]
    if fault.versions is not None:
        words.append(f"versions=range({fault.versions[0]}, {fault.versions[1] + 1})")
    return f"`{fault.effect}({', '.join(words)})`"


def row_head(case: Case) -> tuple[str, str, str]:
    """What stands in front of a row: the faults, the work, and the API that is counted."""
    faults = ", ".join(map(sentence, case.faults))
    if case.by_hand:
        faults = (getattr(Host, case.by_hand).__doc__ or "").removesuffix(".")
    work = (
        WORK[case.work]
        + (", together" if case.together else "")
        + (", from the start" if case.at_start else "")
    )
    return faults, work, case.api


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def document(
    cases: Sequence[Case], versions: Mapping[str, str], filled: Mapping[tuple[str, str], Filled]
) -> str:
    """The page.

    Args:
        cases: the rows.
        versions: of the clients, by name, in the order of the columns.
        filled: the cells, by the names of case and client.
    """
    text = HEAD + "\n## What they did\n\n"
    text += _line(["fault", "met by", "counted", *versions]) + _line(["---"] * (3 + len(versions)))
    for case in cases:
        text += _line([*row_head(case), *(str(filled[case.name, client]) for client in versions)])
    text += "\nThe releases were\n\n"
    text += _line(["client", "version"]) + _line(["---"] * 2)
    return text + "".join(map(_line, versions.items()))


def read(text: str, cases: Sequence[Case]) -> tuple[dict[str, str], dict[tuple[str, str], Filled]]:
    """The versions and the cells of the page, see `document`."""
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    heads = [index for index, row in enumerate(rows) if row[0] in ("fault", "client")]
    table, releases = rows[heads[0] : heads[1]], rows[heads[1] + 2 :]
    clients = table[0][3:]
    by_head = {tuple(row[:3]): row[3:] for row in table[2:]}
    filled = {
        (case.name, client): Filled.read(cell)
        for case in cases
        for client, cell in zip(clients, by_head.get(row_head(case), ()), strict=False)
    }
    return dict(releases), filled
