"""One client meets one case."""

from __future__ import annotations

from typing import Any, NamedTuple

from interop.faulted.cases import Case
from interop.faulted.clients import Running
from interop.faulted.hosts import GROUP, TOPIC, TRANSACTIONAL_ID, Host
from interop.faulted.outcome import ALL, Facts, outcome
from odradek.testing.faults.set_fault import SetFault
from waiting import until

FIRST, REST = range(5), range(5, 10)


class Cell(NamedTuple):
    """What a client did.

    Attributes:
        outcome: in words, see `outcome`.
        requests: how many of the API that is counted came since the fault was set.
    """

    outcome: str
    requests: int


#: How often a client is asked that does not come to the middle of its work, where the faults are:
#: kafka-python 3.0.12 is stuck in about one of sixty starts, when its metadata comes amid a join.
STARTS = 3


def meet(client: Running, case: Case) -> Cell:
    """Have the client do the work of a case, and its faults happen meanwhile.

    Raises:
        AssertionError: it never came to them.
    """
    for _ in range(STARTS):
        with Host(is_cluster=case.is_of_a_cluster) as host:
            if case.work != "create":
                host.create_topic()
            cell = _Meeting(client, case, host).cell()
            if cell is not None:
                return cell
    raise AssertionError(f"{case.name}: the client did not come to the middle of its work")


class _Meeting:
    def __init__(self, client: Running, case: Case, host: Host) -> None:
        self.client = client
        self.case = case
        self.host = host
        self.before = 0
        self.faults: list[SetFault] = []

    def cell(self) -> Cell | None:
        case, host = self.case, self.host
        if case.work == "consume":
            host.write(FIRST)
        if case.at_start:
            self._disturb()
        self.client.begin(self._words())
        line = self.client.line()
        is_half_done = line is not None and "half" in line
        if not is_half_done and not case.at_start:
            return None
        if is_half_done:
            if case.by_hand and case.work == "consume":
                host.write(REST)
            if not case.at_start:
                self._disturb()
            self.client.say("together" if case.together else "each")
            if case.faults and case.work == "consume":
                # Whoever has all records does not wait for what is to come.
                until(lambda: self._is_met() or self.client.has_line, "the fault, or the end of the work")
                host.write(REST)
            line = self.client.line()
        requests = host.requests()[case.api] - self.before
        is_met = self._is_met()
        for fault in self.faults:
            fault.lift()
        return Cell(outcome(self._facts(line, is_met=is_met)), requests)

    def _words(self) -> str:
        work, _, how = self.case.work.partition(" ")
        last = how or {"consume": GROUP, "transact": TRANSACTIONAL_ID}.get(work, "")
        return f"{work} {self.host.bootstrap_servers} {TOPIC} {last}".rstrip()

    def _disturb(self) -> None:
        self.before = self.host.requests()[self.case.api]
        self.faults = self.host.set(self.case.faults)
        if self.case.by_hand:
            getattr(self.host, self.case.by_hand)()

    def _is_met(self) -> bool:
        return all(fault.met for fault in self.faults)

    def _facts(self, line: dict[str, Any] | None, *, is_met: bool) -> Facts:
        answer = line or {"failed": "", "told": [], "acknowledged": [], "read": []}
        failed, told = answer["failed"], answer["told"]
        acknowledged, there, wanted = answer["acknowledged"], answer["read"], ALL
        if self.case.work == "create":
            wanted = [0]
            there = [0] if self.host.has_topic() else []
            acknowledged = [] if failed else [0]
        elif self.case.work == "consume":
            if acknowledged and self.host.committed() <= max(acknowledged):
                there = [number for number in there if number < self.host.committed()]
        else:
            there = self.host.written()
        return Facts(
            is_ended=line is not None,
            is_met=is_met,
            failed=failed,
            told=told,
            acknowledged=acknowledged,
            there=there,
            wanted=wanted,
        )
