"""One release of Kafka: which requests it answers, and how it refuses the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from odradek.broker.kafka_versions.apis import RELEASES, versions_of

KRAFT_SUFFIX = "-kraft"
_FIRST_KRAFT = "2.8"
_ONLY_KRAFT = "4.0"

_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _OFFSET_FETCH, _FIND_COORDINATOR = 0, 1, 2, 3, 9, 10

_UNANNOUNCED = frozenset({71, 72})
"""Telemetry: advertised only by a broker that has a plugin which takes the metrics."""

_ANSWERED_OTHERWISE: Mapping[str, Mapping[int, range | None]] = {
    # The client's classes have JoinGroup and Heartbeat, the broker has not; it is the other way round with
    # what brokers and their controller send each other.
    "0.8.2": {4: range(1), 5: range(1), 6: range(1), 7: range(1), 11: None, 12: None},
    # The client cannot write version 0, the broker reads it.
    **{name: {7: range(2)} for name in ("0.9", "0.10.0", "0.10.1", "0.10.2", "0.11")},
}
"""The versions that a broker answers in place of those of its listing. None: it answers none."""

_LEAST_PRODUCE_FROM_4_0 = 0
"""The lowest version that a broker from 4.0 on advertises, although it answers from 3 on: librdkafka infers
from the lowest version what a broker is able to do (KAFKA-18659)."""

_UNCHECKED: Mapping[str, frozenset[int]] = {
    "0.8.2": frozenset({_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _OFFSET_FETCH, _FIND_COORDINATOR}),
    "0.9": frozenset({_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _OFFSET_FETCH}),
    "0.10.0": frozenset({_FETCH}),
}
"""Requests whose version the broker does not look at: it reads and answers the nearest one that it knows."""

_LAST_ERROR_CODES = (
    "0.8.2:20 0.9:31 0.10.0:35 0.10.1:43 0.10.2:44 0.11:55 1.0:60 1.1:71 2.0:72 2.1:76 2.2:81 2.3:82 2.4:87 "
    "2.5:88 2.6:88 2.7:96 2.8:104 3.0:105 3.1:106 3.2:106 3.3:108 3.4:108 3.5:112 3.6:113 3.7:119 3.8:120 "
    "3.9:127 4.0:129 4.1:133 4.2:133 4.3:133 4.4:136"
)
"""The highest error code of each release; all below it, it has too."""


class UnknownReleaseError(ValueError):
    """There is no such release of Kafka, or we have no record of it; the message names those there are."""


@dataclass(frozen=True)
class Release:
    """A release of Kafka, as one broker of it.

    Attributes:
        name: the minor release, `2.2`.
        patch: the patch release that the facts are from, `2.2.2`.
        kraft: whether it is a broker with KRaft, else one with ZooKeeper.
    """

    name: str
    patch: str
    kraft: bool

    def __str__(self) -> str:
        return self.name + (KRAFT_SUFFIX if self.kraft and not self.at_least(_ONLY_KRAFT) else "")

    def at_least(self, name: str) -> bool:
        """Return whether this is the release `name` or a later one."""
        return _ORDER[self.name] >= _ORDER[name]

    @cached_property
    def advertised(self) -> Mapping[int, range]:
        """The listing of the release's ApiVersions, by API key; 0.8.2 and 0.9 have no ApiVersions."""
        missing = [k for k, versions in _ANSWERED_OTHERWISE.get(self.name, {}).items() if versions is None]
        by_key = versions_of(self.name, kraft=self.kraft)
        for key in missing:
            del by_key[key]
        if self.at_least("4.0"):
            by_key[_PRODUCE] = range(_LEAST_PRODUCE_FROM_4_0, by_key[_PRODUCE].stop)
        return {key: versions for key, versions in by_key.items() if key not in _UNANNOUNCED}

    @cached_property
    def answered(self) -> Mapping[int, range]:
        """The versions that the release answers, by API key."""
        by_key: dict[int, range] = versions_of(self.name, kraft=self.kraft)
        for key, versions in _ANSWERED_OTHERWISE.get(self.name, {}).items():
            if versions is None:
                del by_key[key]
            else:
                by_key[key] = versions
        return by_key

    def read_as(self, key: int, version: int) -> int | None:
        """As which version a request of another one is read and answered; None: it is refused.

        Args:
            key: the API key.
            version: one that is not in `answered`.
        """
        if key not in _UNCHECKED.get(self.name, ()):
            return None
        versions = self.answered[key]
        return versions[0] if version < versions[0] else versions[-1]

    @property
    def names_versions_when_refusing(self) -> bool:
        """Return whether UNSUPPORTED_VERSION to ApiVersions names the versions that there are (KIP-511)."""
        return self.at_least("2.4")

    @property
    def is_silent(self) -> bool:
        """Return whether a request that the broker does not know is neither answered nor a reason to close.

        0.9.0.0 and 0.9.0.1 have an exception there that nobody catches.
        """
        return self.name == "0.9"

    @property
    def is_before_groups(self) -> bool:
        """Return whether JoinGroup and Heartbeat are read, and answered with an error (`before_groups`)."""
        return self.name == "0.8.2"

    @property
    def last_error_code(self) -> int:
        """The highest error code that the release knows."""
        return int(dict(word.split(":") for word in _LAST_ERROR_CODES.split())[self.name])


_ORDER = {name: place for place, name in enumerate(RELEASES)}


def find(text: str) -> Release:
    """The release of that name.

    Args:
        text: `2.2` or any patch release of it, `2.2.1`; from 2.8 to 3.9 also `3.9-kraft`, a broker with KRaft
            where `3.9` is one with ZooKeeper.

    Raises:
        UnknownReleaseError: there is none.
    """
    name = text.strip()
    kraft = name.endswith(KRAFT_SUFFIX)
    name = name.removesuffix(KRAFT_SUFFIX)
    parts = name.split(".")
    release_name = next((n for n in (".".join(parts[:3]), ".".join(parts[:2])) if n in RELEASES), None)
    if (
        release_name is None
        or len(parts) > release_name.count(".") + 3
        or not all(part.isdecimal() for part in parts)
    ):
        raise UnknownReleaseError(f"{text!r} is none of Kafka's releases {', '.join(RELEASES)}")
    if kraft and _ORDER[release_name] < _ORDER[_FIRST_KRAFT]:
        raise UnknownReleaseError(f"{text!r}: Kafka has KRaft from {_FIRST_KRAFT} on")
    return Release(release_name, RELEASES[release_name], kraft or _ORDER[release_name] >= _ORDER[_ONLY_KRAFT])


def names() -> list[str]:
    """All minor releases, oldest first."""
    return list(RELEASES)


def newest() -> str:
    """The newest one."""
    return list(RELEASES)[-1]
