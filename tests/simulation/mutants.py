"""Rules of the broker and of its clients left out on purpose, one at a time: the simulation has to find each
of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from client.sequence_mutants import inferred
from odradek.broker.membership import membership
from odradek.broker.membership.state_changes import StateChanges
from odradek.cluster.controller import elections
from odradek.log.folders.offline_logs import OfflineLogs
from odradek.log.partition import flushing
from odradek.log.partition.readable_log import ReadableLog
from odradek.log.producers.producer_state import ProducerState
from odradek.replication import reading
from odradek.replication.leadership import Leadership
from odradek.replication.replica_fetcher import ReplicaFetcher

Mutant = Callable[[], AbstractContextManager[Any]]


def _no_epoch_check() -> AbstractContextManager[Any]:
    """Fetches of followers that are in an older or newer epoch are answered."""
    return mock.patch.object(Leadership, "check_leader_epoch", lambda self, epoch: None)


def _no_divergence_check() -> AbstractContextManager[Any]:
    """The leader does not look whether a follower's last epoch is one of its own log (KIP-595)."""
    return mock.patch.object(reading, "_diverging_epoch", lambda partition, wanted: None)


def _isr_too_early() -> AbstractContextManager[Any]:
    """A follower is taken into the ISR by its first fetch, however far it is behind."""

    def expand(self: Any, replica_id: int, follower: Any) -> None:
        if self.isr_state.wanted is None and self.is_eligible(replica_id):
            self._want_isr(self.isr_state.expanding(replica_id))

    return mock.patch.object(Leadership, "_maybe_expand_isr", expand)


def _isr_without_epoch_start() -> AbstractContextManager[Any]:
    """A follower need not have the start of the leader's epoch to be taken into the ISR (KAFKA-7128)."""

    def expand(self: Any, replica_id: int, follower: Any) -> None:
        if (
            self.isr_state.wanted is None
            and follower.log_end_offset >= self.log.high_watermark
            and self.is_eligible(replica_id)
        ):
            self._want_isr(self.isr_state.expanding(replica_id))

    return mock.patch.object(Leadership, "_maybe_expand_isr", expand)


def _high_watermark_ahead() -> AbstractContextManager[Any]:
    """The high watermark is the leader's log end, before the followers have it."""

    def advance(self: Any, now_ms: int) -> bool:
        if not self.is_leader or self.log.log_end_offset <= self.log.high_watermark:
            return False
        self.log.update_high_watermark(self.log.log_end_offset)
        return True

    return mock.patch.object(Leadership, "advance_high_watermark", advance)


def _high_watermark_by_one() -> AbstractContextManager[Any]:
    """One follower that has a record is enough, in the ISR or not."""

    def advance(self: Any, now_ms: int) -> bool:
        ends = [one.log_end_offset for one in self._followers.values()]
        new = min(max(ends, default=0), self.log.log_end_offset)
        if not self.is_leader or new <= self.log.high_watermark:
            return False
        self.log.update_high_watermark(new)
        return True

    return mock.patch.object(Leadership, "advance_high_watermark", advance)


def _high_watermark_by_committed_isr() -> AbstractContextManager[Any]:
    """The high watermark does not wait for who is just being taken into the ISR."""

    def advance(self: Any, now_ms: int) -> bool:
        if self._followers and len(self.isr) < self.effective_min_isr:
            return False
        ends = [one.log_end_offset for b, one in self._followers.items() if b in self.isr]
        new = min([*ends, self.log.log_end_offset])
        if new <= self.log.high_watermark:
            return False
        self.log.update_high_watermark(new)
        return True

    return mock.patch.object(Leadership, "advance_high_watermark", advance)


def _truncation_to_high_watermark() -> AbstractContextManager[Any]:
    """A follower begins by cutting its log to its high watermark, as before KIP-101."""
    original = ReplicaFetcher.add

    def add(self: Any, replica: Any, leader_epoch: int, *more: Any) -> None:
        known = self._followed.get(replica.key)
        if known is None or known.leader_epoch != leader_epoch:
            replica.truncate_without_epochs()
        original(self, replica, leader_epoch, *more)

    return mock.patch.object(ReplicaFetcher, "add", add)


def _stale_controller() -> AbstractContextManager[Any]:
    """Requests of a deposed controller are obeyed, and so are older leader epochs."""
    original = StateChanges.check_sender

    def check(self: Any, request: Any) -> Any:
        self.controller_epoch = min(self.controller_epoch, request.controller_epoch)
        return original(self, request)

    return mock.patch.object(StateChanges, "check_sender", check)


def _min_isr_ignored() -> AbstractContextManager[Any]:
    """min.insync.replicas counts as 1."""
    return mock.patch.object(Leadership, "effective_min_isr", 1)


def _unclean_elections() -> AbstractContextManager[Any]:
    """Any live replica is elected, in the ISR or not."""
    original = elections.offline

    def offline(partition: Any, live: Any, controller_epoch: int, *, unclean: bool) -> Any:
        return original(partition, live, controller_epoch, unclean=True)

    return mock.patch.object(elections, "offline", offline)


def _unmissed() -> AbstractContextManager[Any]:
    """A broker registers after a loss of power while it is in ISRs, as Kafka's do (KIP-966)."""

    async def at_once(*args: Any, **kwargs: Any) -> None: ...

    return mock.patch.object(membership, "be_missed", at_once)


def _leads_with_nothing() -> AbstractContextManager[Any]:
    """A broker does not know that its disk was replaced: it stays in its ISRs, and leads, as Kafka's do."""
    return mock.patch.object(OfflineLogs, "lacks", lambda *args: False)


def _dead_isr_shrinks() -> AbstractContextManager[Any]:
    """A dead leader leaves its ISR though nobody is there to lead, as with Kafka's controllers."""
    return mock.patch.object(elections, "without_replica", elections.without_log)


def _made_elsewhere() -> AbstractContextManager[Any]:
    """What lies in a folder that has failed is made again, empty, in another one."""
    return mock.patch.object(OfflineLogs, "require_none", lambda *args, **more: None)


def _no_sync() -> AbstractContextManager[Any]:
    """The recovery point moves on though nothing was synced."""
    return mock.patch.object(flushing.FlushJob, "run", lambda self: None)


def _no_stable_offset() -> AbstractContextManager[Any]:
    """read_committed consumers see open transactions."""
    return mock.patch.object(ReadableLog, "last_stable_offset", property(lambda self: self.high_watermark))


def _no_sequences() -> AbstractContextManager[Any]:
    """What a producer sends again is appended again."""
    return mock.patch.object(ProducerState, "is_next", lambda self, header: True)


MUTANTS: dict[str, Mutant] = {
    "no-epoch-check": _no_epoch_check,
    "no-divergence-check": _no_divergence_check,
    "isr-too-early": _isr_too_early,
    "isr-without-epoch-start": _isr_without_epoch_start,
    "high-watermark-ahead": _high_watermark_ahead,
    "high-watermark-by-one": _high_watermark_by_one,
    "high-watermark-by-committed-isr": _high_watermark_by_committed_isr,
    "truncation-to-high-watermark": _truncation_to_high_watermark,
    "stale-controller": _stale_controller,
    "min-isr-ignored": _min_isr_ignored,
    "unclean-elections": _unclean_elections,
    "no-sync": _no_sync,
    "made-elsewhere": _made_elsewhere,
    "unmissed": _unmissed,
    "leads-with-nothing": _leads_with_nothing,
    "dead-isr-shrinks": _dead_isr_shrinks,
    "no-stable-offset": _no_stable_offset,
    "no-sequences": _no_sequences,
    "inferred-success": inferred,
}
"""By name; what each leaves out stands in its docstring."""
