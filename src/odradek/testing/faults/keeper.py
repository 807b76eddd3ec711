"""The faults that a test has set on a broker, or on the brokers of a cluster, and has not taken away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.testing.faults.fault import Fault
from odradek.testing.faults.set_fault import Cut, SetFault, UnmetFaultError

if TYPE_CHECKING:
    from odradek.broker.apis.registry import Handlers
    from odradek.broker.requests.peer import Peer
    from odradek.testing.faults.calls import Calls

S = TypeVar("S", bound=SetFault)


class Faulty(Protocol):
    """A broker that faults are set on: `odradek.testing.broker.Broker`."""

    @property
    def handlers(self) -> Handlers:
        """Return what the broker answers, also while it does not run."""
        ...

    @property
    def listener_names(self) -> list[str]:
        """Return the names of its listeners; none while it does not run."""
        ...

    def add_fault(self, fault: SetFault) -> None:
        """Begin with a fault, in all lives of the broker from this one on."""
        ...

    def remove_fault(self, fault: SetFault) -> None:
        """End a fault; harmless where it has ended."""
        ...

    def abort_connections(self, client_id: str, calls: Calls) -> list[Peer]:
        """Close the connections on which a client waits for an answer; each is counted.

        Returns:
            The ends of all connections that there were.
        """
        ...

    def keep_cutting(self, cut: Cut) -> None:
        """Close also the connections that a client makes from now on."""
        ...

    def requests_by_api(self) -> Counter[str]:
        """Return how many requests of each API have come in this life of the broker."""
        ...


class FaultKeeper:
    """Sets faults on one broker or several, and tells at the end which of them were not met."""

    def __init__(self) -> None:
        self._set: dict[SetFault, Sequence[Faulty]] = {}

    def set(self, fault: Fault, brokers: Sequence[Faulty], calls: Calls | None = None) -> SetFault:
        """Set a fault on brokers of one release, which count together how often it is met.

        Args:
            fault: the rule.
            brokers: which.
            calls: where they count; None for a place in this process.

        Raises:
            FaultRefusedError: it can meet no request of theirs.
        """
        return self._make(SetFault, fault, brokers, calls)

    def cut(self, client_id: str, brokers: Sequence[Faulty], calls: Calls | None = None) -> Cut:
        """Close the connections of a client, see `Cut`; for the arguments, `set`."""
        from odradek.testing.faults.checks import ALL_APIS

        fault = Fault(effect="drop", apis=(ALL_APIS,), client_id=client_id)
        cut = self._make(Cut, fault, brokers, calls)

        def keep_cutting() -> None:
            for broker in brokers:
                broker.keep_cutting(cut)

        cut.on_last = keep_cutting
        cut.peers = {peer for broker in brokers for peer in broker.abort_connections(client_id, cut.calls)}
        return cut

    def _make(self, kind: type[S], fault: Fault, brokers: Sequence[Faulty], calls: Calls | None) -> S:
        # Not before the first fault: most tests set none, and a broker is imported in a blink.
        from odradek.testing.faults.checks import FaultRefusedError, versions_met

        first = brokers[0]
        listeners = first.listener_names
        if fault.listener is not None and listeners and fault.listener not in listeners:
            raise FaultRefusedError(
                f"there is no listener {fault.listener!r}: there are {', '.join(listeners)}"
            )
        set_fault = kind(
            fault,
            versions_met(fault, first.handlers),
            self.lift,
            lambda: sum((broker.requests_by_api() for broker in brokers), Counter()),
            calls,
        )
        self._set[set_fault] = brokers
        try:
            for broker in brokers:
                broker.add_fault(set_fault)
        except BaseException:
            self.lift(set_fault)
            raise
        return set_fault

    def lift(self, fault: SetFault) -> None:
        """Take a fault away; harmless where it has been."""
        for broker in self._set.pop(fault, ()):
            broker.remove_fault(fault)

    def lift_all(self) -> None:
        """Take all faults away, met or not."""
        for fault in list(self._set):
            self.lift(fault)

    def end(self) -> UnmetFaultError | None:
        """Take all faults away; returns what to raise of the first that was not met."""
        problem = None
        for fault in list(self._set):
            try:
                if problem is None:
                    fault.check()
            except UnmetFaultError as error:
                problem = error
            self.lift(fault)
        return problem
