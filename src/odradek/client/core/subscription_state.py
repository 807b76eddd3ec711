"""The subscription of a consumer, its assignment, and its position in each partition.

A partition is in one of these conditions, by which the shell knows what to do next:

    no offset, no reset wanted   → ask the group's committed offset (else apply the reset policy)
    reset wanted                 → ListOffsets
    offset, validation wanted    → OffsetForLeaderEpoch: was the log cut below the position? (KIP-320)
    offset                       → fetch, unless paused

`fetch_offset` runs ahead of `offset` by what is buffered. `turn` changes with every seek: what was fetched
for an older turn is thrown away.

`offset` is after the record that was given to the application last. `poll` moves it by a whole list
(`move_to`); an iteration moves it record by record, writing it into `Handed.last`, at which `offset`
looks. So there is one answer to "where does the consumer stand" for commits, `position` and the next poll.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto

from odradek.client.core.fetch_requests import EARLIEST, LATEST
from odradek.client.errors import (
    IllegalStateError,
    LogTruncationError,
    NoOffsetForPartitionError,
    TopicRecreatedError,
)
from odradek.client.types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from odradek.wire.primitives import ZERO_UUID

logger = logging.getLogger("odradek.client.consumer")

RESET_TIMESTAMP = {"earliest": EARLIEST, "latest": LATEST}


class Subscribing(Enum):
    """The ways in which partitions come to the consumer; they exclude each other."""

    NOT = auto()
    TOPICS = auto()
    PATTERN = auto()
    ASSIGNED = auto()


class Handed:
    """The record of one partition that an iteration handed out last; None before the first."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: ConsumerRecord | None = None


class Position:
    """One assigned partition.

    Attributes:
        fetch_offset: where the next fetch begins; never before `offset`.
        leader_epoch: the newest known epoch of the partition; -1: none. Fetches name it (KIP-320).
        reset: the time (or EARLIEST, LATEST) whose offset is asked for; None: no reset is wanted.
        held: a call takes records of other partitions alone; see `SubscriptionState.take_only`.
        stored: the offset to commit, of an application that says so itself (`store_offsets`).
        validate: nothing is fetched until the leader has said whether its log was cut below `offset`.
        revoking: the listener has been told that the partition goes; nothing more of it is given out.
        turn: grows with every seek and reset; a chunk, or an answer, of an older turn is thrown away.
        high_watermark, last_stable_offset, log_start_offset: as of the last answer; -1 before.
        topic_id: of the topic that is assigned; zeros while no broker has told it.
        preferred_replica: the broker that the leader named to fetch from (KIP-392); -1: none.
        preferred_until_ms: from then on the leader is asked again; monotonic.
        not_before_ms: before, the partition is not fetched; monotonic.
    """

    __slots__ = (
        "_handed",
        "_offset",
        "_offset_epoch",
        "fetch_offset",
        "held",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "made_anew",
        "not_before_ms",
        "paused",
        "preferred_replica",
        "preferred_until_ms",
        "reset",
        "revoking",
        "stored",
        "topic_id",
        "tp",
        "turn",
        "validate",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self._offset: int | None = None
        self._offset_epoch = -1
        self._handed: Handed | None = None
        self.fetch_offset = -1
        self.leader_epoch = -1
        self.reset: int | None = None
        self.validate = False
        self.paused = False
        self.held = False
        self.revoking = False
        self.stored: OffsetAndMetadata | None = None
        self.turn = 0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.topic_id = ZERO_UUID
        self.made_anew = False
        """The topic has another id than the one that `offset` is of."""
        self.preferred_replica = -1
        self.preferred_until_ms = 0.0
        self.not_before_ms = 0.0

    @property
    def offset(self) -> int | None:
        """The offset of the next record for the application; None while it is not known."""
        handed = self._handed
        if handed is None or (last := handed.last) is None:
            return self._offset
        return last.offset + 1

    @property
    def offset_epoch(self) -> int:
        """The leader epoch of the record before `offset`; -1 if unknown."""
        handed = self._handed
        if handed is None or (last := handed.last) is None:
            return self._offset_epoch
        return last.leader_epoch

    def move_to(self, offset: int, epoch: int) -> None:
        """Records up to `offset` were given out, or are not for the application."""
        self._offset = offset
        self._offset_epoch = epoch
        self._handed = None

    def hand_out(self) -> Handed:
        """Let an iteration move the position: each record that it hands out goes into `last` before."""
        self._offset, self._offset_epoch = self.offset, self.offset_epoch
        self._handed = Handed()
        return self._handed

    def follows(self, handed: Handed) -> bool:
        """Return whether the position still is that of this iteration."""
        return self._handed is handed

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Stand at `offset`; `epoch` is the leader epoch of the record before it, if known."""
        self.move_to(offset, epoch)
        self.fetch_offset = offset
        self.reset = None
        self.validate = False
        self.made_anew = False
        self.preferred_replica = -1
        self.turn += 1

    def want_reset(self, timestamp: int) -> None:
        """Ask the leader for the offset of a time (or EARLIEST, LATEST)."""
        self._offset = None
        self._handed = None
        self.reset = timestamp
        self.validate = False
        self.made_anew = False
        self.turn += 1

    @property
    def needs_committed(self) -> bool:
        """Return whether nothing is known and nothing is wanted yet."""
        return self.offset is None and self.reset is None

    @property
    def fetchable(self) -> bool:
        """Return whether records may be fetched and given out."""
        return self.offset is not None and not (self.validate or self.paused or self.held or self.revoking)


class SubscriptionState:
    """Subscription and assignment of one consumer.

    Args:
        reset_policy: 'earliest', 'latest' or 'none'.
        stores: what is consumed is what the application has stored, not the positions.
    """

    def __init__(self, reset_policy: str, *, stores: bool = False) -> None:
        self._stores = stores
        self._only: frozenset[TopicPartition] = frozenset()
        self.how = Subscribing.NOT
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.assigned: dict[TopicPartition, Position] = {}
        self._reset_policy = reset_policy

    # Subscription

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Subscribe by name. Returns whether that changes anything.

        Raises:
            IllegalStateError: another way is in use.
        """
        self._use(Subscribing.TOPICS)
        new = frozenset(topics)
        changed = new != self.topics
        self.topics = new
        return changed

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Subscribe to the topics whose whole name matches.

        Raises:
            IllegalStateError: another way is in use.
        """
        self._use(Subscribing.PATTERN)
        self.pattern = pattern

    def matching(
        self, names: Iterable[str], is_internal: Callable[[str], bool], exclude_internal: bool
    ) -> bool:
        """Apply the pattern to the topics that exist. Returns whether the subscription changed."""
        assert self.pattern is not None
        new = frozenset(
            name
            for name in names
            if self.pattern.fullmatch(name) and not (exclude_internal and is_internal(name))
        )
        changed = new != self.topics
        self.topics = new
        return changed

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions by hand.

        Raises:
            IllegalStateError: another way is in use.
        """
        self._use(Subscribing.ASSIGNED)
        self.set_assignment(partitions)

    def unsubscribe(self) -> None:
        """End the subscription, and what is assigned by it or by hand."""
        self.how = Subscribing.NOT
        self.topics = frozenset()
        self.pattern = None
        self.set_assignment(())

    def _use(self, how: Subscribing) -> None:
        if self.how not in (Subscribing.NOT, how):
            raise IllegalStateError(
                "subscribing to topics, to a pattern, and assigning partitions exclude each other: "
                "unsubscribe first"
            )
        self.how = how

    @property
    def is_group_managed(self) -> bool:
        """Return whether the group assigns the partitions."""
        return self.how in (Subscribing.TOPICS, Subscribing.PATTERN)

    # Assignment

    def set_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions. Those that stay keep their positions; what was fetched of the
        others counts no more.
        """
        before = self.assigned
        self.assigned = {tp: before.get(tp) or Position(tp) for tp in partitions}
        for tp in before.keys() - self.assigned.keys():
            # Chunks and answers on their way are of an older turn then. The partition may come back with a
            # position that others have moved.
            before[tp].turn += 1
        for position in self.assigned.values():
            position.revoking = False
        self._hold()

    def take_only(self, partitions: Iterable[TopicPartition]) -> None:
        """Hold what is not of these partitions, those that are still to be assigned included; none: nothing
        is held.

        Raises:
            IllegalStateError: a partition is not assigned.
        """
        only = frozenset(partitions)
        for tp in only:
            self[tp]
        self._only = only
        self._hold()

    def _hold(self) -> None:
        for tp, position in self.assigned.items():
            position.held = bool(self._only) and tp not in self._only

    def __getitem__(self, tp: TopicPartition) -> Position:
        position = self.assigned.get(tp)
        if position is None:
            raise IllegalStateError(f"{tp} is not assigned to this consumer")
        return position

    def __iter__(self) -> Iterator[Position]:
        return iter(list(self.assigned.values()))

    def apply_policy(self, position: Position) -> None:
        """There is no committed offset, or it is out of range.

        Raises:
            NoOffsetForPartitionError: the policy is 'none'.
        """
        timestamp = RESET_TIMESTAMP.get(self._reset_policy)
        if timestamp is None:
            raise NoOffsetForPartitionError(
                f"{position.tp}: no offset to begin with, and auto.offset.reset is 'none'"
            )
        position.want_reset(timestamp)

    @property
    def has_policy(self) -> bool:
        """Return whether a lost position may be replaced without asking."""
        return self._reset_policy in RESET_TIMESTAMP

    def unresolved(self) -> list[Position]:
        """Partitions that must be asked about before they can be fetched."""
        return [p for p in self.assigned.values() if p.offset is None or p.validate]

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: the positions, or what was stored."""
        if self._stores:
            return {tp: stored for tp, p in self.assigned.items() if (stored := p.stored) is not None}
        return {
            tp: OffsetAndMetadata(offset, "", p.offset_epoch)
            for tp, p in self.assigned.items()
            if (offset := p.offset) is not None
        }

    def leader_changed(self, tp: TopicPartition, epoch: int) -> None:
        """The metadata has a leader epoch; if it is a new one, the position has to be validated before it
        is used.
        """
        position = self.assigned.get(tp)
        if position is None or epoch <= position.leader_epoch:
            return
        known_epoch = position.leader_epoch
        position.leader_epoch = epoch
        # The first epoch that is learnt is no change. And a position without the epoch of the record before
        # it cannot be compared with the log (Kafka's SubscriptionState, validatePosition).
        if known_epoch >= 0 and position.offset is not None and position.offset_epoch >= 0:
            position.validate = True

    def topic_seen(self, position: Position, topic_id: bytes) -> None:
        """The metadata has the topic's id; if it is another one than before, the topic was deleted, and made
        anew under its name: offsets of the old one mean nothing in it.

        Args:
            topic_id: zeros where it is not known, or the broker has none.
        """
        if topic_id == ZERO_UUID or topic_id == position.topic_id:
            return
        if position.topic_id != ZERO_UUID and position.offset is not None:
            position.made_anew = True
        position.topic_id = topic_id
        # The new topic counts its epochs from 0: beside the old topic's, these would look stale.
        position.leader_epoch = -1

    def begin_anew(self, position: Position) -> None:
        """Go on at the beginning of a topic that was made anew, as what was fetched of the old one is used
        up. All of the new one was written since, whatever the policy says of a beginning.

        Raises:
            TopicRecreatedError: there is no policy.
        """
        reason = (
            f"{position.tp}: the topic was deleted and made anew (its id is another one), and offset "
            f"{position.offset} was of the old one"
        )
        if not self.has_policy:
            raise TopicRecreatedError(
                f"{reason}; auto.offset.reset is 'none': seek to go on", position.topic_id
            )
        logger.warning("%s; reading goes on at the beginning of the new one", reason)
        position.stored = None
        position.want_reset(EARLIEST)

    def validated(self, position: Position, epoch: int, end_offset: int) -> None:
        """The leader told where the epoch of the position ends in its log (KIP-320).

        If that is not below the position, the position is good. Else the log was cut: reading goes on at the
        cut, or where the policy says if the leader does not know the epoch at all.

        Raises:
            LogTruncationError: there is no policy.
        """
        assert position.offset is not None
        if epoch >= 0 and end_offset >= position.offset:
            position.validate = False
            return
        if not self.has_policy:
            raise LogTruncationError(
                f"{position.tp}: the log was cut at {end_offset} (leader epoch {epoch}), below the position "
                f"{position.offset}, and auto.offset.reset is 'none'; seek to go on"
            )
        logger.warning("%s: the log was cut below the position %d", position.tp, position.offset)
        if position.stored is not None and position.stored.offset > end_offset:
            # Other records may come to stand where these were: who begins behind them would not read those.
            position.stored = None
        if epoch >= 0 and end_offset >= 0:
            position.seek(end_offset, epoch)
        else:
            self.apply_policy(position)
