"""The APIs and versions of each release that are missing here, computed from its listing and ours.

`python -m odradek.broker.kafka_versions` prints the table of docs/kafka_versions.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.kafka_versions.release import Release, find, names
from odradek.wire.api import ApiKey

_OF_THE_QUORUM = {
    55: "DescribeQuorum",
    58: "Envelope",
    64: "UnregisterBroker",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    94: "UnregisterController",
}
"""The APIs of a KRaft quorum. We have no quorum, and no messages for it."""


def missing(release: Release, served: Mapping[int, range]) -> dict[int, range]:
    """The versions that a release advertises and we do not answer, by API key.

    Args:
        release: the release.
        served: our versions, by API key.
    """
    lacks = {}
    for key, theirs in sorted(release.advertised.items()):
        ours = served.get(key, range(0))
        lacking = [version for version in theirs if version not in ours and version in release.answered[key]]
        if lacking:
            lacks[key] = range(lacking[0], lacking[-1] + 1)
    return lacks


def missing_text(release: Release, served: Mapping[int, range]) -> str:
    """The same for people: `AddOffsetsToTxn, Produce 0-2`; empty when nothing is missing."""
    words = []
    for key, versions in missing(release, served).items():
        word = api_name(key)
        if key in served:
            span = str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"
            word += f" {span}"
        words.append(word)
    return ", ".join(words)


def api_name(key: int) -> str:
    """Kafka's name of an API."""
    return _OF_THE_QUORUM.get(key) or ApiKey(key).api_name


def table(served: Mapping[int, range]) -> str:
    """A Markdown table: per release how many of its APIs we serve at all its versions, and what is missing.

    Args:
        served: our versions, by API key.
    """
    rows = ["| release | facts from | APIs | whole | missing |", "|---|---|---|---|---|"]
    for name in names():
        for kraft in ("", "-kraft"):
            if kraft and not ("2.8" <= name < "4"):
                continue
            release = find(name + kraft)
            absent = missing(release, served)
            count = len(release.advertised)
            text = missing_text(release, served)
            rows.append(f"| `{release}` | {release.patch} | {count} | {count - len(absent)} | {text} |")
    return "\n".join(rows)
