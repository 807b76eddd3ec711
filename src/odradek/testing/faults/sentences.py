"""The sentences in which a test sets faults, for a broker and for a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from odradek.testing.faults.fault import Fault, Which, check_keywords
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    from typing import Unpack

    from odradek.errors import ErrorCode, KafkaError
    from odradek.testing.faults.calls import Calls
    from odradek.testing.faults.set_fault import SetFault

Apis = str | int | ApiKey | Iterable[str | int | ApiKey]
"""One API or several, by name, as "Produce", or by key; "*" for all in which the fault may be."""


class FaultSentences(ABC):
    """Faults in a sentence each: `fail`, `delay`, `hang`, `drop`, `truncate`, `throttle`.

    Each takes, beside its own, the keywords of `odradek.testing.faults.fault.Fault` that say which requests
    it meets and how often, and `broker`, a broker's id, on a cluster. Each returns the fault that is set:
    in a `with` block it ends with the block, else when the broker is stopped; then it must have been met.

    Raises:
        FaultRefusedError: it can meet no request of this broker, or Kafka would not do it.
        TypeError: there is no such keyword.
        ValueError: a value cannot be.
    """

    @abstractmethod
    def set_fault(self, fault: Fault, *, broker: int | None = None, calls: Calls | None = None) -> SetFault:
        """Set a fault that is given as data.

        Args:
            fault: the rule, as `Fault.from_json` makes one.
            broker: at this broker of a cluster alone.
            calls: where it counts; processes have such a place together.
        """

    def fail(
        self,
        apis: Apis,
        error: type[KafkaError] | KafkaError | ErrorCode | int | str,
        *,
        anyway: bool = False,
        **which: Unpack[Which],
    ) -> SetFault:
        """Answer requests with an error in place of doing their work.

        A fault that names a topic or a partition meets that part of a request alone: the work of the rest is
        done.

        Args:
            apis: which.
            error: a class of `odradek.errors`, a code, or a name as "NOT_LEADER_OR_FOLLOWER".
            anyway: also where a Kafka would not answer with it.
            which: see the class.
        """
        from odradek.testing.faults.checks import error_name

        return self._set("fail", apis, which, error=error_name(error), anyway=anyway)

    def delay(self, apis: Apis, delay_ms: float, **which: Unpack[Which]) -> SetFault:
        """Begin the work later; what the client asks behind it on the same connection waits as well.

        Args:
            apis: which.
            delay_ms: how much later, in milliseconds.
            which: see the class.
        """
        return self._set("delay", apis, which, delay_ms=delay_ms)

    def hang(self, apis: Apis, **which: Unpack[Which]) -> SetFault:
        """Do nothing, and never answer; nor what the client asks behind it on the same connection.

        Args:
            apis: which.
            which: see the class.
        """
        return self._set("hang", apis, which)

    def drop(self, apis: Apis, *, after: bool = False, **which: Unpack[Which]) -> SetFault:
        """Close the connection in place of an answer.

        Args:
            apis: which.
            after: do the work before, so that the client does not know whether it is done.
            which: see the class.
        """
        return self._set("drop", apis, which, after=after)

    def truncate(self, apis: Apis, bytes_sent: int | None = None, **which: Unpack[Which]) -> SetFault:
        """Do the work, send a part of the answer, and close the connection.

        Args:
            apis: which.
            bytes_sent: how many bytes, the size prefix included; None for half of them, and never all.
            which: see the class.
        """
        return self._set("truncate", apis, which, bytes_sent=bytes_sent)

    def throttle(self, apis: Apis, throttle_ms: int, **which: Unpack[Which]) -> SetFault:
        """Do the work, say that the client is throttled, and take nothing up from its connection for so long.

        Args:
            apis: which.
            throttle_ms: how long, in milliseconds.
            which: see the class.
        """
        return self._set("throttle", apis, which, throttle_ms=throttle_ms)

    @abstractmethod
    def cut_client(self, client_id: str, *, calls: Calls | None = None) -> SetFault:
        """Close the connections of a client; in a `with` block, also those that it makes while that lasts.

        A connection on which it waits for an answer is closed at once, any other by its next request, which
        is not worked on.

        Args:
            client_id: of whom.
            calls: see `set_fault`.
        """

    def _set(self, effect: str, apis: Apis, which: Which, **own: Any) -> SetFault:
        from odradek.testing.faults.checks import api_names

        given: dict[str, Any] = dict(which)
        check_keywords(given, list(Which.__annotations__))
        broker = given.pop("broker", None)
        versions = given.pop("versions", None)
        if isinstance(versions, int):
            versions = range(versions, versions + 1)
        if versions is not None:
            if not versions:
                raise ValueError(f"versions={versions!r}: there are none")
            given["versions"] = versions[0], versions[-1]
        return self.set_fault(Fault(effect=effect, apis=api_names(apis), **own, **given), broker=broker)
