"""The table of handlers: which one answers which API, at which versions.

A handler module registers itself on import with the `handler` decorator; the table `SERVED` says which
modules there are, so that ApiVersions can be answered without importing them. A module must register what the
table says: what is not built is not advertised.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from odradek.broker.kafka_versions.release import Release
    from odradek.broker.requests.answer import Buffers
    from odradek.broker.requests.handler_types import ErrorResponse, HandlerFunction
    from odradek.wire.api import ApiKey


logger = logging.getLogger(__name__)

Rewrite: TypeAlias = "Callable[[Any, Buffers], Buffers]"
"""`(response, its bytes with the size prefix) -> what is sent instead`."""

Encode: TypeAlias = "Callable[[Any, bytes, int], Buffers]"
"""See `odradek.wire.codec.Codec.encode_parts`."""


@dataclass(frozen=True, slots=True)
class Handler:
    """One registered handler.

    Attributes:
        api_key: the API that it answers.
        versions: the versions that it answers and that ApiVersions lists.
        function: the handler.
        error_response: makes the response for an exception that the handler did not foresee; without it a
            response with a top-level `error_code` gets that set, and any other API's connection is closed.
        rewrite: changes a response's bytes before they leave, for tests (docs/test_kit.md); None for none.
    """

    api_key: ApiKey
    versions: range
    function: HandlerFunction
    error_response: ErrorResponse | None = None
    rewrite: Rewrite | None = None


_handlers: dict[int, Handler] = {}


def handler(
    api_key: ApiKey,
    versions: range,
    *,
    error_response: ErrorResponse | None = None,
) -> Callable[[HandlerFunction], HandlerFunction]:
    """Register the decorated function as the handler of `api_key` for `versions`.

    Args:
        api_key: the API.
        versions: the versions that are served, as `range(first, last + 1)`.
        error_response: see `Handler`.

    Raises:
        ValueError: the API has a handler already, or the range is empty or has gaps.
    """
    if len(versions) == 0 or versions.step != 1:
        raise ValueError(f"handler for {api_key!r}: versions must be a range without gaps, not {versions!r}")

    def register(function: HandlerFunction) -> HandlerFunction:
        present = _handlers.get(int(api_key))
        if present is not None and present.function.__module__ != function.__module__:
            raise ValueError(f"{api_key!r} is handled by {present.function.__module__} already")
        _handlers[int(api_key)] = Handler(api_key, versions, function, error_response)
        return function

    return register


class Served(NamedTuple):
    """An API that this broker serves: the module of `odradek.broker.handlers`, the versions, and whether
    ApiVersions lists it."""

    module: str
    versions: range
    listed: bool = True


SERVED: dict[int, Served] = {
    0: Served("produce", range(14)),
    1: Served("fetch", range(19)),
    2: Served("list_offsets", range(12)),
    3: Served("metadata", range(14)),
    4: Served("controller_requests", range(8)),
    5: Served("controller_requests", range(5)),
    6: Served("controller_requests", range(9)),
    7: Served("controlled_shutdown", range(4)),
    8: Served("offset_commit", range(11)),
    9: Served("offset_fetch", range(11)),
    10: Served("find_coordinator", range(7)),
    11: Served("join_group", range(10)),
    12: Served("heartbeat", range(5)),
    13: Served("leave_group", range(6)),
    14: Served("sync_group", range(6)),
    15: Served("describe_groups", range(7)),
    16: Served("list_groups", range(6)),
    17: Served("sasl", range(2)),
    18: Served("api_versions", range(6)),
    19: Served("create_topics", range(8)),
    20: Served("delete_topics", range(7)),
    21: Served("delete_records", range(3)),
    22: Served("init_producer_id", range(7)),
    23: Served("offset_for_leader_epoch", range(5)),
    24: Served("add_partitions_to_txn", range(6)),
    25: Served("add_offsets_to_txn", range(5)),
    26: Served("end_txn", range(6)),
    27: Served("write_txn_markers", range(3)),
    28: Served("txn_offset_commit", range(7)),
    29: Served("acls", range(4)),
    30: Served("acls", range(4)),
    31: Served("acls", range(4)),
    32: Served("describe_configs", range(5)),
    33: Served("alter_configs", range(3)),
    34: Served("alter_replica_log_dirs", range(3)),
    35: Served("describe_log_dirs", range(6)),
    36: Served("sasl", range(3)),
    37: Served("create_partitions", range(4)),
    38: Served("delegation_tokens", range(4)),
    39: Served("delegation_tokens", range(3)),
    40: Served("delegation_tokens", range(3)),
    41: Served("delegation_tokens", range(4)),
    42: Served("delete_groups", range(4)),
    43: Served("elect_leaders", range(3)),
    44: Served("incremental_alter_configs", range(2)),
    45: Served("partition_reassignments", range(2)),
    46: Served("partition_reassignments", range(1)),
    47: Served("offset_delete", range(1)),
    48: Served("client_quotas", range(2)),
    49: Served("client_quotas", range(2)),
    50: Served("user_scram_credentials", range(1)),
    51: Served("user_scram_credentials", range(1)),
    55: Served("describe_quorum", range(3)),
    56: Served("alter_partition", range(4)),
    57: Served("update_features", range(3)),
    60: Served("describe_cluster", range(3)),
    61: Served("describe_producers", range(1)),
    65: Served("describe_transactions", range(1)),
    66: Served("list_transactions", range(3)),
    69: Served("consumer_group_describe", range(2)),
    71: Served("telemetry", range(1), listed=False),
    72: Served("telemetry", range(1), listed=False),
    74: Served("list_config_resources", range(2)),
    75: Served("describe_topic_partitions", range(1)),
}
"""What a broker serves, by API key. A handler that registers other versions than stand here is refused.

Telemetry is listed only by a broker that shows what clients push (`TELEMETRY`), as by a Kafka that has a
receiver for it: clients would hold up their end for their last words about it.
"""

TELEMETRY = frozenset({71, 72})


class Handlers:
    """The handlers of a broker, each imported when its API is first asked for.

    Importing all of them would be a fifth of the time that a broker takes to start.
    """

    def __init__(
        self,
        served: Mapping[int, Served] = SERVED,
        loaded: Mapping[int, Handler] | None = None,
        release: Release | None = None,
    ) -> None:
        """
        Args:
            served: what there is to import.
            loaded: handlers that need no importing; a test's own.
            release: the release of Kafka to be; None for all that there is.
        """
        self._served = served
        self.loaded = dict(loaded or {})
        """By the key of their API: those that need no importing any more."""
        self.release = release
        self.also_listed: frozenset[int] = frozenset()
        """The keys of APIs that ApiVersions lists here although `SERVED` says that it does not."""
        self.on_change: Callable[[], None] | None = None
        """Called when a handler has been replaced: whoever keeps its function takes the new one."""
        self._replaced: dict[int, Handler] = {}
        """By the key of their API: the handlers in whose place `replace` has put others."""
        self._around_all: Callable[[Handler], Handler] | None = None
        self._between_brokers = self
        if release is not None:
            self._between_brokers = Handlers(served, loaded)
            self.loaded = {
                key: limited
                for key, handler in self.loaded.items()
                if (limited := _limited(handler, release)) is not None
            }
            self._served = {key: entry for key, entry in served.items() if key in release.answered}

    @classmethod
    def of_release(cls, name: str | None) -> Handlers:
        """The handlers of a broker that is the release of Kafka of this name; all that there is without."""
        if name is None:
            return cls()
        from odradek.broker.kafka_versions.release import find

        return cls(release=find(name))

    def log_missing(self) -> None:
        """Say what of the release that the broker is to be is not there."""
        if self.release is None:
            return
        from odradek.broker.kafka_versions.report import missing_text

        missing = missing_text(self.release, {key: entry.versions for key, entry in SERVED.items()})
        logger.info("being another release kafka=%s missing=%s", self.release, missing or "-")

    @property
    def between_brokers(self) -> Handlers:
        """The handlers of what the other brokers of the cluster ask: all that there is.

        Only clients see a release in this broker. What it asks of its like, and is asked by them, no release
        that it passes for needs to have; those with KRaft have none of it.
        """
        return self._between_brokers

    @property
    def with_zookeeper(self) -> bool:
        """True if the broker is to answer as one with ZooKeeper; as one with KRaft, where nothing is said."""
        return self.release is not None and not self.release.kraft

    def get(self, api_key: int) -> Handler | None:
        """The handler of an API, None when it is not served.

        Raises:
            RuntimeError: the module does not register what `SERVED` says; a fault of ours.
        """
        handler, around = self._get(api_key), self._around_all
        return handler if handler is None or around is None else around(handler)

    def _get(self, api_key: int) -> Handler | None:
        loaded = self.loaded.get(api_key)
        if loaded is not None:
            return loaded
        entry = self._served.get(api_key)
        if entry is None:
            return None
        importlib.import_module(f"odradek.broker.handlers.{entry.module}")
        registered = _handlers.get(api_key)
        if registered is None or registered.versions != entry.versions:
            raise RuntimeError(f"{entry.module} registers {registered}, the table says {entry.versions}")
        if self.release is not None:
            registered = _limited(registered, self.release)
            if registered is None:
                return None
        self.loaded[api_key] = registered
        return registered

    def replace(self, api_key: int, around: Callable[[Handler], Handler] | None) -> None:
        """Put another handler in the place of an API's, for clients and for the other brokers.

        Args:
            api_key: the API; nothing happens where it is not served.
            around: makes it of the one that was there at first; None puts that one back.
        """
        plain = self._replaced.pop(api_key, None) or self._get(api_key)
        if plain is not None:
            if around is not None:
                self._replaced[api_key] = plain
            self.loaded[api_key] = plain if around is None else around(plain)
        if self._between_brokers is not self:
            self._between_brokers.replace(api_key, around)
        if self.on_change is not None:
            self.on_change()

    def put_around_all(self, around: Callable[[Handler], Handler] | None) -> None:
        """Put something around every handler, outside of what `replace` has put there; for tests.

        Args:
            around: makes a handler of the one that it stands around; None for nothing any more.
        """
        self._around_all = around
        if self._between_brokers is not self:
            self._between_brokers.put_around_all(around)
        if self.on_change is not None:
            self.on_change()

    def versions(self) -> list[tuple[int, range]]:
        """API keys and versions, in the order of the keys: what ApiVersions lists."""
        ranges = {key: handler.versions for key, handler in self.loaded.items()}
        ranges.update((key, entry.versions) for key, entry in self._served.items())
        ranges = {
            key: versions
            for key, versions in ranges.items()
            if key not in self._served or self._served[key].listed or key in self.also_listed
        }
        if self.release is not None:
            shown = self.release.advertised
            ranges = {key: _common(ranges[key], shown[key]) for key in ranges.keys() & shown.keys()}
        return sorted((key, versions) for key, versions in ranges.items() if versions)

    def read_as(self, api_key: int, version: int) -> int | None:
        """As which version the release answers a request of one that it does not know; None: it does not."""
        if self.release is None or api_key not in self._served:
            return None
        other = self.release.read_as(api_key, version)
        return other if other is not None and other in self._served[api_key].versions else None

    def ignores(self, api_key: int, version: int | None = None) -> bool:
        """Return whether the release leaves an unknown API, or version of a known one, without an answer."""
        if self.release is None or not self.release.is_silent:
            return False
        answered_versions = self.release.answered.get(api_key)
        return answered_versions is None or (version is not None and version not in answered_versions)

    def load_all(self) -> None:
        """Import what has not been yet."""
        for key in self._served:
            self._get(key)


def rewritten(encode: Encode, rewrite: Rewrite) -> Encode:
    """Return an encoder of responses whose bytes are changed before they leave."""

    def encode_and_rewrite(response: Any, head: bytes, size_at: int) -> Buffers:
        return rewrite(response, encode(response, head, size_at))

    return encode_and_rewrite


def _common(ours: range, theirs: range) -> range:
    return range(max(ours.start, theirs.start), min(ours.stop, theirs.stop))


def _limited(registered: Handler, release: Release) -> Handler | None:
    """A handler as a release of Kafka has it: its versions, its answers; None when it has none of ours."""
    from odradek.broker.kafka_versions.answers import aged, aged_error

    key = int(registered.api_key)
    versions = _common(registered.versions, release.answered.get(key, range(0)))
    if not versions:
        return None
    return replace(
        registered,
        versions=versions,
        function=aged(registered.function, release, key),
        error_response=aged_error(registered.error_response, release),
    )
