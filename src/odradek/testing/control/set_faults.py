"""Faults that were set over a control port, by their numbers there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.testing.control.words import ControlRefusedError
from odradek.testing.faults.checks import ALL_APIS
from odradek.testing.faults.fault import Fault
from odradek.testing.faults.set_fault import UnmetFaultError

if TYPE_CHECKING:
    from collections.abc import Callable

    from odradek.testing.control.controlled import Controlled
    from odradek.testing.faults.calls import Calls
    from odradek.testing.faults.set_fault import SetFault

_MOST = 1000


class SetFaults:
    """Faults by number, from 1. A fault is shown as JSON, with its counts."""

    def __init__(
        self, controlled: Controlled, calls: Callable[[int, Fault], Calls | None] = lambda *_: None
    ) -> None:
        """
        Args:
            controlled: the broker or the cluster.
            calls: gives a fault of a number the place where it is counted; None for one of its own.
        """
        self._controlled = controlled
        self._calls = calls
        self._set: dict[int, SetFault] = {}
        self._last = 0

    def set(self, document: dict[str, Any], number: int | None = None) -> dict[str, Any]:
        """Set a fault.

        Args:
            document: as `Fault.to_json` has it, and `broker`: on that one of a cluster alone.
            number: its own; one that is there already is taken away before. None for the next.

        Raises:
            ControlRefusedError: there are too many, or there is no such broker.
            FaultRefusedError, TypeError, ValueError: see `FaultSentences.set_fault`.
        """
        rule = {name: value for name, value in document.items() if name != "broker"}
        fault = Fault.from_json(rule)
        broker = document.get("broker")
        if broker is not None:
            if isinstance(broker, bool) or not isinstance(broker, int):
                raise ControlRefusedError(400, f"broker is {broker!r:.80}", "it is a whole number")
            self._controlled.of_cluster()
            self._controlled.broker_id(broker)
        number = self._number(number)
        if number in self._set:
            self.lift(number)
        return self._keep(
            number, self._controlled.kit.set_fault(fault, broker=broker, calls=self._calls(number, fault))
        )

    def cut_client(self, client_id: str, *, lasts: bool, id: int | None) -> dict[str, Any]:
        """Close a client's connections.

        Args:
            client_id: whose.
            lasts: also those that it makes later, until the fault is lifted.
            id: its number, see `set`.

        Raises:
            ControlRefusedError: there are too many faults.
        """
        number = self._number(id)
        if number in self._set:
            self.lift(number)
        calls = self._calls(number, Fault(effect="drop", apis=(ALL_APIS,), client_id=client_id))
        cut = self._controlled.kit.cut_client(client_id, calls=calls)
        return self._keep(number, cut.__enter__() if lasts else cut)

    def _number(self, number: int | None) -> int:
        if number is None:
            number = self._last + 1
        elif not 1 <= number < 2**31:
            raise ControlRefusedError(400, f"a fault's id is {number}", "it is counted from 1")
        if number not in self._set and len(self._set) >= _MOST:
            raise ControlRefusedError(409, f"there are {_MOST} faults", "DELETE /faults takes them away")
        return number

    def _keep(self, number: int, fault: SetFault) -> dict[str, Any]:
        self._set[number] = fault
        self._last = max(self._last, number)
        return self.report(number)

    def report(self, number: int) -> dict[str, Any]:
        """Return a fault with its counts.

        Raises:
            ControlRefusedError: there is none of that number.
        """
        fault = self._set.get(number)
        if fault is None:
            raise ControlRefusedError(404, f"there is no fault {number}", "GET /faults lists them")
        return {
            "id": number,
            "fault": fault.fault.to_json(),
            "sentence": str(fault.fault),
            "matched": fault.calls.matched,
            "met": fault.met,
            "missed": fault.calls.commonest,
        }

    def reports(self) -> list[dict[str, Any]]:
        """Return all faults in the order in which they were set."""
        return [self.report(number) for number in tuple(self._set)]

    def lift(self, number: int) -> dict[str, Any]:
        """Take a fault away; return it, with `unmet`: what there is to say if no request met it, or None.

        Raises:
            ControlRefusedError: there is none of that number.
        """
        shown = self.report(number)
        fault = self._set.pop(number)
        fault.lift()
        return shown | {"unmet": _unmet(fault)}

    def lift_all(self) -> list[dict[str, Any]]:
        """Take all faults away; see `lift`."""
        return [self.lift(number) for number in tuple(self._set)]

    def unmet(self) -> list[dict[str, Any]]:
        """Return the faults that no request has met, each with `unmet`: a text about it."""
        return [
            self.report(number) | {"unmet": text}
            for number, fault in tuple(self._set.items())
            if (text := _unmet(fault)) is not None
        ]


def _unmet(fault: SetFault) -> str | None:
    try:
        fault.check()
    except UnmetFaultError as error:
        return str(error)
    return None
