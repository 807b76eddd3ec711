"""The surroundings of the group state machines: settings, time, timers, and the way out for answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from odradek.coordinators.deadlines import Deadlines
from odradek.coordinators.groups.config import GroupConfig
from odradek.coordinators.groups.held_bytes import HeldBytes
from odradek.coordinators.outcome import Outcome
from odradek.coordinators.reply import Reply
from odradek.util.clock import Clock

if TYPE_CHECKING:
    from odradek.coordinators.groups.classic_group import ClassicGroup

R = TypeVar("R")
Command = Callable[[], Outcome]

logger = logging.getLogger("odradek.coordinators.groups")


class Caller(NamedTuple):
    """The sender of a request.

    Attributes:
        client_id: from the request header, `""` when absent.
        client_host: the peer's address, without port.
        api_version: the request's version; the rules of JoinGroup depend on it.
    """

    client_id: str
    client_host: str
    api_version: int


@dataclass(slots=True)
class GroupEnv:
    """One shard's surroundings.

    Attributes:
        config: the broker's settings.
        clock: the time.
        deadlines: the shard's timers, by key.
        new_uuid: the random part of new member ids.
        run: executes a command of a timer as the coordinator's runtime does those of requests.
        settled: what every command that may leave nothing of a group passes its outcome through, see
            `GroupShard.settled`.
        held: the bytes that all groups of the coordinator hold.
        outbox: answers that the present command has decided to give; the runtime sends them when everything
            appended before them is committed.
    """

    config: GroupConfig
    clock: Clock
    deadlines: Deadlines
    new_uuid: Callable[[], str]
    run: Callable[[str, Command], None]
    settled: Callable[[ClassicGroup, Outcome], Outcome] = field(default=lambda _, outcome: outcome)
    held: HeldBytes = field(default_factory=HeldBytes)
    outbox: list[tuple[Reply[object], object]] = field(default_factory=list)

    def answer(self, reply: Reply[R] | None, response: R) -> bool:
        """Give an answer that was owed, if it was; says whether it was."""
        if reply is None:
            return False
        self.outbox.append((reply, response))  # type: ignore[arg-type]
        return True

    def set_timer(self, kind: str, key: tuple[str, ...], delay_ms: float, command: Command) -> None:
        """Run `command` after `delay_ms`, unless the timer (`kind`, `key`) is set again or cancelled."""
        self.deadlines.set((kind, *key), delay_ms, lambda: self.run(kind, command))

    def cancel_timer(self, kind: str, key: tuple[str, ...]) -> None:
        """Forget the timer (`kind`, `key`)."""
        self.deadlines.cancel((kind, *key))
