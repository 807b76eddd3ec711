"""The beginning of a connection: by ApiVersions, or by finding out which old release does not know it.

What brokers do with an ApiVersions request, as seen on real ones:

- 0.10.0 and newer answer, in version 0 with UNSUPPORTED_VERSION where they do not know the version asked.
- 0.9.0 neither answers nor hangs up; what is asked afterwards on the same connection is answered. So when
  nothing has come for `PATIENCE_MS`, ListGroups is sent behind: the answer that comes first tells. (A broker
  that was only slow answers both, in order.)
- 0.8.2 hangs up. So on a second connection it gets a Heartbeat, of no group: its classes can read that, it
  cannot serve it, and answers UNKNOWN (-1), as no other release does. Whoever answers otherwise is newer, and
  is asked for its versions once more: its hanging up was an accident. (Taking a new broker for an old one
  would cost records their headers and times.)
- Who hangs up at the Heartbeat as well is asked, on a third connection, for no offsets at all, which every
  Kafka before 4.0 answers, and then for groups. Hanging up between the two is what something that stands in
  for a 0.8.2 does; who hangs up at once is no Kafka.

What was found is remembered by address (`KnownBrokers`) for as long as the broker can be reached.
"""

from __future__ import annotations

from enum import Enum, auto

from odradek.client.config import CommonConfig
from odradek.client.core.versions import V0_8_2, V0_9_0, NodeVersions

PATIENCE_MS = 500.0
"""How long a broker may be silent after ApiVersions until it is asked something older as well."""


class Opening(Enum):
    """The way to open the conversation on a new connection, if the broker's versions are not known."""

    ASK = auto()
    """With ApiVersions."""
    FEEL = auto()
    """With a Heartbeat, which 0.8.2 answers in a way of its own."""
    GROPE = auto()
    """With ListOffsets, then ListGroups."""


Approach = Opening | NodeVersions


def after_hang_up(approach: Approach, answered: int) -> Approach | None:
    """The broker hung up during the handshake: how to try on the next connection, None to give up.

    Args:
        answered: how many requests of this handshake had been answered.
    """
    if approach is Opening.ASK and not answered:
        return Opening.FEEL
    if approach is Opening.FEEL:
        # After an answer: at ApiVersions again.
        return Opening.GROPE if not answered else V0_9_0 if answered == 1 else None
    if approach is Opening.GROPE:
        return V0_8_2 if answered == 1 else V0_9_0 if answered == 2 else None
    return None


_RELEASES = {"0.8.2": V0_8_2, "0.9.0": V0_9_0}


class KnownBrokers:
    """Brokers by address that do not know ApiVersions, and what they are.

    Args:
        all_are: what every broker is taken for, unasked: '0.8.2' or '0.9.0'; None: they are asked.
    """

    def __init__(self, all_are: str | None = None) -> None:
        self._unknown: Approach = Opening.ASK if all_are is None else _RELEASES[all_are]
        self._versions: dict[str, NodeVersions] = {}

    def approach(self, address: str) -> Approach:
        """Return how to open a connection to that address."""
        return self._versions.get(address, self._unknown)

    def learned(self, address: str, versions: NodeVersions) -> None:
        """A handshake came to its end."""
        if versions.release is not None:
            self._versions[address] = versions

    def lost(self, address: str) -> None:
        """The broker is gone; a newer one may come in its place."""
        self._versions.pop(address, None)


def known_brokers(config: CommonConfig) -> KnownBrokers:
    """A client's knowledge of brokers at first: nothing, or what its configs say."""
    return KnownBrokers(None if config.api_version_request else config.broker_version_fallback)
