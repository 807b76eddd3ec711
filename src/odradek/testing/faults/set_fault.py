"""A fault that a test has set, until it is lifted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from odradek.testing.faults.calls import Calls

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from odradek.broker.requests.peer import Peer
    from odradek.testing.faults.fault import Fault


class UnmetFaultError(AssertionError):
    """No request has met a fault: the test did not test what it was for."""


class SetFault:
    """A fault that is set. In a `with` block it ends with the block, and must have been met.

    Attributes:
        fault: the rule.
        versions: which versions of which APIs it may meet, by API key.
        calls: the requests that were looked at.
    """

    def __init__(
        self,
        fault: Fault,
        versions: dict[int, tuple[int, ...]],
        lift: Callable[[SetFault], None],
        requests: Callable[[], Counter[str]],
        calls: Calls | None = None,
    ) -> None:
        """
        Args:
            fault, versions, calls: see the attributes; it has calls of its own without.
            lift: takes the fault away.
            requests: tells how many requests of each API have come so far.
        """
        self.fault = fault
        self.versions = versions
        self.calls = calls or Calls(fault)
        self._lift = lift
        self._requests = requests
        self._before = requests()

    @property
    def met(self) -> int:
        """The number of requests that it has met."""
        return self.calls.met

    def misses(self, context: Any) -> str | None:  # noqa: ARG002
        """Return why a request is not met although its names are, None where it is."""
        return None

    def lift(self) -> None:
        """Take the fault away. What hangs goes on hanging until its connection ends."""
        self._lift(self)

    def check(self) -> None:
        """Check that it was met.

        Raises:
            UnmetFaultError: it was not; the message has the requests that came nearest.
        """
        if self.met or self.fault.may_be_unmet:
            return
        lines = [f"no request met this fault: {self.fault}"]
        lines += [f"  near: {line}" for line in self.calls.nearest]
        came = self._requests() - self._before
        shown = ", ".join(f"{api} {count}" for api, count in sorted(came.items()))
        lines.append(f"  since it was set there came: {shown or 'no requests'}")
        raise UnmetFaultError("\n".join(lines))

    def __enter__(self) -> Self:
        """Go on."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the fault away, and check that it was met; not where the block has failed anyhow."""
        self.lift()
        if kind is None:
            self.check()


class Cut(SetFault):
    """A fault that closes a client's connections: those that there are, or all while a `with` block lasts.

    Whose a connection is, is known when it asks for something: one that waits for an answer is closed at
    once, any other by its next request, which is not worked on.

    Attributes:
        peers: the ends of the connections that there were when it was set.
        lasts: whether it meets those that are made later, too.
        on_last: told that it lasts from now on.
    """

    peers: Collection[Peer] = ()
    lasts = False
    on_last: Callable[[], object] = staticmethod(lambda: None)

    def misses(self, context: Any) -> str | None:
        """See `SetFault.misses`."""
        return None if self.lasts or context.peer in self.peers else "a connection that was made later"

    def check(self) -> None:
        """See `SetFault.check`: outside a block the client may be silent for good."""
        if self.lasts:
            super().check()

    def __enter__(self) -> Self:
        """Close the connections that are made from now on, too."""
        self.lasts = True
        self.on_last()
        return self
