"""The lines that tell of what a client cannot reach: at the first failure, and once a minute while that
lasts.

It goes on trying by itself, so that a program whose broker is not there would be silent for ever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

logger = logging.getLogger("odradek.client")

AGAIN_MS = 60_000.0
"""After so long it is told again."""

ORDINARY_MS = 10_000.0
"""For so long things fail that are nothing out of the ordinary: a coordinator moves, a leader is elected."""

MUTE_MS = 5_000.0
"""After so long it is told that a server which takes connections has not said anything."""


@dataclass(slots=True)
class Outage:
    """One failure that lasts. Times are monotonic milliseconds.

    Attributes:
        since_ms: when it was first seen.
        told_ms: when it was told last.
    """

    since_ms: float
    told_ms: float | None = None

    def is_due(self, now_ms: float, after_ms: float) -> bool:
        """Return whether to tell of it: when it has lasted for `after_ms`, then every `AGAIN_MS`."""
        if now_ms - self.since_ms < after_ms:
            return False
        return self.told_ms is None or now_ms - self.told_ms >= AGAIN_MS


class Outages:
    """The outages of one client at present. Takes the time from its caller, monotonic milliseconds.

    Args:
        client_id: for the lines.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._by_symptom: dict[str, Outage] = {}

    def failed(self, symptom: str, problem: object, now_ms: float, *, after_ms: float = 0.0) -> None:
        """It failed once more: log a warning if that is due.

        Args:
            symptom: what cannot be done: "127.0.0.1:9092 cannot be reached".
            problem: why.
            after_ms: how long it may fail without a word, where that is nothing out of the ordinary.
        """
        outage = self._by_symptom.get(symptom)
        if outage is None:
            outage = self._by_symptom[symptom] = Outage(now_ms)
        if not outage.is_due(now_ms, after_ms):
            return
        if outage.told_ms is None:
            logger.warning("client %s: %s: %s; it is tried again", self._client_id, symptom, problem)
        else:
            lasting_s = (now_ms - outage.since_ms) / 1000
            logger.warning("client %s: %s, for %.0f s now: %s", self._client_id, symptom, lasting_s, problem)
        outage.told_ms = now_ms

    def ended(self, symptom: str, now_ms: float) -> None:
        """It worked. That is told where the failure was."""
        outage = self._by_symptom.pop(symptom, None)
        if outage is not None and outage.told_ms is not None:
            logger.info(
                "client %s: over after %.0f s: %s",
                self._client_id,
                (now_ms - outage.since_ms) / 1000,
                symptom,
            )

    def __bool__(self) -> bool:
        """Return whether anything cannot be reached."""
        return bool(self._by_symptom)


def unreachable(address: str) -> str:
    """Return what `Outages` is told of a server."""
    return f"{address} cannot be reached"


def without_address(problem: object, address: str) -> str:
    """Return an error's text without the address in front."""
    return str(problem).removeprefix(f"{address}: ").removeprefix(f"{address} ")


def hung_up_hint(protocol: str) -> str:
    """Return what it may be due to that a server hangs up before it has said a word.

    Args:
        protocol: this side's `security.protocol`.
    """
    if protocol.endswith("SSL"):
        return f"does it speak TLS at all? this side does (security.protocol={protocol})"
    if protocol.startswith("SASL"):
        return f"does it take logins without TLS? (security.protocol={protocol})"
    return f"does it speak TLS, or want a login? this side does not (security.protocol={protocol})"


def mute_hint(timeout_ms: float, protocol: str) -> str:
    """Return what is said of a server that takes connections and says nothing."""
    return (
        f"connected, but it has said nothing within {timeout_ms:.0f} ms: is it a Kafka broker, and is its "
        f"security.protocol {protocol}?"
    )


def silent(address: str) -> str:
    """Return what `Outages` is told of a broker that owes an answer."""
    return f"{address} does not answer"
