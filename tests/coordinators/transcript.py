"""Readable transcripts of group scenarios: commands, and what they bring about.

A file is a list of blocks: a command line, `----`, the lines that come out, an empty line. Lines that begin
with `#` explain. `ODRADEK_REWRITE_TRANSCRIPTS=1 pytest …` writes what came out into the files; the diff is
then for a person to judge.

Commands (`group` is `g` unless `group=` says otherwise; client ids become member ids as `<client>-<n>`):

    join CLIENT [v=9] [id=ID] [instance=I] [session=10000] [rebalance=30000] [type=consumer]
         [protocols=range:META,roundrobin:META]
    sync ID gen=N [instance=I] [assign=ID:TEXT,ID:TEXT] [type=T] [protocol=P]
    heartbeat ID gen=N [instance=I]
    leave ID… [@INSTANCE…]
    commit [v=8] [id=ID] [gen=N] [instance=I] [retention=MS] [at=MS] TOPIC:PARTITION=OFFSET[/EPOCH][~NOTE]…
    txn-commit pid=N [epoch=0] [id=ID] [gen=N] [instance=I] TOPIC:PARTITION=OFFSET[/EPOCH][~NOTE]…
    marker pid=N [epoch=0] commit|abort
    fetch [stable] TOPIC:P,P… | fetch all [stable]
    describe [v=6] | list [states=A,B] [types=A,B] | delete GROUP…
    delete-topic TOPIC
    advance MS
    restart [graceful] [CONFIG=VALUE…]
    fail-appends ERROR | heal | hold-commits | release-commits
    log                 the records appended since the last `log`
"""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TypeVar

from odradek.coordinators.groups.env import Caller
from odradek.errors import ErrorCode, error_for
from odradek.records.batch import batch_records, iter_batches
from odradek.records.control import parse_control_type
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.wire.messages.leave_group import LeaveGroupResponse, MemberIdentity
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from odradek.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.wire.schemas.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

from .harness import World
from .memory_log import START_MS

Partition = TypeVar("Partition", OffsetCommitRequestPartition, TxnOffsetCommitRequestPartition)

REWRITE = "ODRADEK_REWRITE_TRANSCRIPTS"


def check_file(path: Path) -> None:
    """Run a transcript and compare, or rewrite it."""
    source = path.read_text(encoding="utf-8").splitlines()
    produced = _run(source)
    text = "\n".join(produced).rstrip("\n") + "\n"
    if os.environ.get(REWRITE):
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == source, f"{path.name}: see the difference"


def _run(source: list[str]) -> list[str]:
    player = Player()
    out: list[str] = []
    skipping = False
    for line in source:
        if skipping:
            if line == "":
                skipping = False
                out.append("")
            continue
        out.append(line)
        if line == "----":
            skipping = True
            out += player.finish()
        elif line and not line.startswith("#"):
            player.do(line)
    return out


def _text(data: bytes) -> str:
    return bytes(data).decode() or "-"


def _commits(words: list[str], options: dict[str, str], kind: type[Partition]) -> dict[str, list[Partition]]:
    """What `topic:partition=offset/epoch~note` says, by topic."""
    topics: dict[str, list[Partition]] = {}
    for word in words:
        where, what = word.split("=", 1)
        topic, partition = where.split(":")
        what, _, note = what.partition("~")
        offset, _, epoch = what.partition("/")
        topics.setdefault(topic, []).append(
            kind(
                partition_index=int(partition),
                committed_offset=int(offset),
                committed_leader_epoch=int(epoch or -1),
                committed_metadata=note * int(options.get("repeat", "1")) if note else None,
            )
        )
    return topics


def _name(code: int) -> str:
    return ErrorCode(code).name


def _seconds(ms: int) -> str:
    return "none" if ms == -1 else f"t{(ms - START_MS) / 1000:+g}s"


class Player:
    """Plays the commands and collects what comes out."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.config: dict[str, int] = {}
        self.out: list[str] = []
        self.logged: dict[int, int] = {}

    def finish(self) -> list[str]:
        lines, self.out = self.out, []
        return lines

    def do(self, line: str) -> None:
        name, *words = shlex.split(line)
        options = dict(word.split("=", 1) for word in words if "=" in word and ":" not in word.split("=")[0])
        plain = [word for word in words if "=" not in word or ":" in word.split("=")[0]]
        if name == "config":
            self.config = {key: int(value) for key, value in options.items()}
            return
        if self.world is None:
            self.world = World(**self.config)
        self.group = options.get("group", "g")
        getattr(self, "do_" + name.replace("-", "_"))(self.world, plain, options)

    # Membership

    def do_join(self, world: World, words: list[str], options: dict[str, str]) -> None:
        client = words[0]
        protocols = options.get("protocols", "range:sub")

        def deliver(response: JoinGroupResponse) -> None:
            who = response.member_id or "(no id)"
            if response.error_code:
                self.out.append(f"{client} joins: {_name(response.error_code)} {who}")
                return
            line = f"{client} joins: {who} generation {response.generation_id} {response.protocol_type}"
            line += f"/{response.protocol_name} leader {response.leader}"
            if response.skip_assignment:
                line += " skip-assignment"
            if response.members:
                line += " members " + " ".join(
                    f"{m.member_id}{'@' + m.group_instance_id if m.group_instance_id else ''}"
                    f"({_text(m.metadata)})"
                    for m in response.members
                )
            self.out.append(line)

        world.coordinator.join_group(
            Caller(client, "10.0.0.1", int(options.get("v", "9"))),
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=int(options.get("session", "10000")),
                rebalance_timeout_ms=int(options.get("rebalance", "30000")),
                member_id=options.get("id", ""),
                group_instance_id=options.get("instance"),
                protocol_type=options.get("type", "consumer"),
                protocols=[
                    JoinGroupRequestProtocol(name=p.split(":")[0], metadata=p.split(":")[1].encode())
                    for p in protocols.split(",")
                    if p
                ],
            ),
            deliver,
        )

    def do_sync(self, world: World, words: list[str], options: dict[str, str]) -> None:
        member = words[0]
        assign = [a.split(":") for a in options.get("assign", "").split(",") if a]

        def deliver(response: SyncGroupResponse) -> None:
            if response.error_code:
                self.out.append(f"{member} syncs: {_name(response.error_code)}")
                return
            self.out.append(
                f"{member} syncs: {_text(response.assignment)} "
                f"({response.protocol_type}/{response.protocol_name})"
            )

        world.coordinator.sync_group(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=int(options["gen"]),
                member_id=member,
                group_instance_id=options.get("instance"),
                protocol_type=options.get("type"),
                protocol_name=options.get("protocol"),
                assignments=[
                    SyncGroupRequestAssignment(member_id=who, assignment=what.encode())
                    for who, what in assign
                ],
            ),
            deliver,
        )

    def do_heartbeat(self, world: World, words: list[str], options: dict[str, str]) -> None:
        member = words[0]

        def deliver(response: HeartbeatResponse) -> None:
            self.out.append(f"{member} heartbeats: {_name(response.error_code)}")

        world.coordinator.heartbeat(
            HeartbeatRequest(
                group_id=self.group,
                generation_id=int(options["gen"]),
                member_id=member,
                group_instance_id=options.get("instance"),
            ),
            deliver,
        )

    def do_leave(self, world: World, words: list[str], options: dict[str, str]) -> None:
        def deliver(response: LeaveGroupResponse) -> None:
            if response.error_code:
                self.out.append(f"leave: {_name(response.error_code)}")
            for member in response.members:
                who = member.member_id or f"@{member.group_instance_id}"
                self.out.append(f"leave {who}: {_name(member.error_code)}")

        leaving = [
            MemberIdentity(member_id="", group_instance_id=word[1:])
            if word.startswith("@")
            else MemberIdentity(member_id=word)
            for word in words
        ]
        world.coordinator.leave_group(self.group, leaving, deliver)

    # Offsets

    def do_commit(self, world: World, words: list[str], options: dict[str, str]) -> None:
        topics = _commits(words, options, OffsetCommitRequestPartition)
        if "at" in options:
            for partition in (one for partitions in topics.values() for one in partitions):
                partition.commit_timestamp = START_MS + int(options["at"])
        world.coordinator.commit_offsets(
            int(options.get("v", "8")),
            OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=int(options.get("gen", "-1")),
                member_id=options.get("id", ""),
                group_instance_id=options.get("instance"),
                retention_time_ms=int(options.get("retention", "-1")),
                topics=[
                    OffsetCommitRequestTopic(name=topic, partitions=partitions)
                    for topic, partitions in topics.items()
                ],
            ),
            partial(self._committed, "commit"),
        )

    def do_txn_commit(self, world: World, words: list[str], options: dict[str, str]) -> None:
        topics = _commits(words, options, TxnOffsetCommitRequestPartition)
        world.coordinator.commit_offsets_in_transaction(
            TxnOffsetCommitRequest(
                transactional_id="x",
                group_id=self.group,
                producer_id=int(options["pid"]),
                producer_epoch=int(options.get("epoch", "0")),
                generation_id_or_member_epoch=int(options.get("gen", "-1")),
                member_id=options.get("id", ""),
                group_instance_id=options.get("instance"),
                topics=[
                    TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)
                    for topic, partitions in topics.items()
                ],
            ),
            partial(self._committed, "txn-commit"),
        )

    def _committed(self, what: str, response: OffsetCommitResponse | TxnOffsetCommitResponse) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                name = _name(partition.error_code)
                self.out.append(f"{what} {topic.name}:{partition.partition_index}: {name}")

    def do_marker(self, world: World, words: list[str], options: dict[str, str]) -> None:
        world.end_transaction(
            0, int(options["pid"]), int(options.get("epoch", "0")), commit=words[0] == "commit"
        )

    def do_fetch(self, world: World, words: list[str], options: dict[str, str]) -> None:
        stable = "stable" in words
        wanted = [word for word in words if word not in ("stable", "all")]

        def deliver(response: OffsetFetchResponseGroup) -> None:
            if response.error_code:
                self.out.append(f"fetch: {_name(response.error_code)}")
            for topic in response.topics:
                for partition in topic.partitions:
                    line = f"fetch {topic.name}:{partition.partition_index}: {partition.committed_offset}"
                    if partition.committed_leader_epoch != -1:
                        line += f" epoch {partition.committed_leader_epoch}"
                    if partition.metadata:
                        line += f" note {partition.metadata[:20]}"
                    if partition.error_code:
                        line += f" {_name(partition.error_code)}"
                    self.out.append(line)

        topics = [
            OffsetFetchRequestTopics(
                name=word.split(":")[0], partition_indexes=[int(p) for p in word.split(":")[1].split(",")]
            )
            for word in wanted
        ]
        world.coordinator.fetch_offsets(
            OffsetFetchRequestGroup(group_id=self.group, topics=None if "all" in words else topics),
            deliver,
            require_stable=stable,
        )

    def do_delete_topic(self, world: World, words: list[str], options: dict[str, str]) -> None:
        world.coordinator.on_partitions_deleted(dict.fromkeys(words))

    # Administration

    def do_describe(self, world: World, words: list[str], options: dict[str, str]) -> None:
        described = world.coordinator.describe_group(int(options.get("v", "6")), self.group)
        line = f"{described.group_id}: {described.group_state or '-'} {described.protocol_type or '-'}"
        line += f"/{described.protocol_data or '-'}"
        if described.error_code:
            line += f" {_name(described.error_code)}"
        self.out.append(line)
        for member in described.members:
            instance = f"@{member.group_instance_id}" if member.group_instance_id else ""
            self.out.append(
                f"  {member.member_id}{instance} {member.client_id} {member.client_host} "
                f"{_text(member.member_metadata)} -> {_text(member.member_assignment)}"
            )

    def do_list(self, world: World, words: list[str], options: dict[str, str]) -> None:
        states = [s for s in options.get("states", "").split(",") if s]
        types = [t for t in options.get("types", "").split(",") if t]
        error, groups = world.coordinator.list_groups([s.lower() for s in states], types)
        if error:
            self.out.append(f"list: {_name(error)}")
        for group in groups:
            self.out.append(
                f"{group.group_id}: {group.protocol_type or '-'} {group.group_state} {group.group_type}"
            )

    def do_delete(self, world: World, words: list[str], options: dict[str, str]) -> None:
        world.coordinator.delete_groups(
            words,
            lambda results: self.out.extend(f"delete {r.group_id}: {_name(r.error_code)}" for r in results),
        )

    # The world around

    def do_advance(self, world: World, words: list[str], options: dict[str, str]) -> None:
        world.advance(int(words[0]))

    def do_restart(self, world: World, words: list[str], options: dict[str, str]) -> None:
        world.restart(graceful="graceful" in words, **{k: int(v) for k, v in options.items()})

    def do_fail_appends(self, world: World, words: list[str], options: dict[str, str]) -> None:
        world.log.failure = error_for(ErrorCode[words[0]])

    def do_heal(self, world: World, words: list[str], options: dict[str, str]) -> None:
        world.log.failure = None

    def do_hold_commits(self, world: World, words: list[str], options: dict[str, str]) -> None:
        world.log.hold_commits = True

    def do_release_commits(self, world: World, words: list[str], options: dict[str, str]) -> None:
        world.log.hold_commits = False
        world.log.commit_held()

    def do_log(self, world: World, words: list[str], options: dict[str, str]) -> None:
        batches = list(iter_batches(b"".join(world.log.batches.get(0, ()))))
        for header, batch in batches[self.logged.get(0, 0) :]:
            who = f"{header.producer_id}/{header.producer_epoch}: " if header.is_transactional else ""
            for record in batch_records(header, batch):
                assert record.key is not None
                line = (
                    f"{parse_control_type(record.key).name} marker"
                    if header.is_control
                    else _record_line(record.key, record.value)
                )
                self.out.append(who + line)
        self.logged[0] = len(batches)


def _record_line(key: bytes, value: bytes | None) -> str:
    if key[:2] == b"\x00\x02":
        group = GroupMetadataKey.decode_prefixed(key).group
        if value is None:
            return f"group {group}: tombstone"
        decoded = GroupMetadataValue.decode_prefixed(value)
        line = f"group {group} v{value[1]}: generation {decoded.generation} {decoded.protocol_type or '-'}"
        line += (
            f"/{decoded.protocol} leader {decoded.leader} since {_seconds(decoded.current_state_timestamp)}"
        )
        for m in decoded.members:
            instance = f"@{m.group_instance_id}" if m.group_instance_id else ""
            line += (
                f"\n  {m.member_id}{instance} {m.client_id} {m.client_host} session {m.session_timeout} "
                f"rebalance {m.rebalance_timeout} {_text(m.subscription)} -> {_text(m.assignment)}"
            )
        return line
    offset_key = OffsetCommitKey.decode_prefixed(key)
    where = f"offset {offset_key.group} {offset_key.topic}:{offset_key.partition}"
    if value is None:
        return f"{where}: tombstone"
    offset = OffsetCommitValue.decode_prefixed(value)
    line = f"{where} v{value[1]}: {offset.offset} committed {_seconds(offset.commit_timestamp)}"
    if offset.leader_epoch != -1:
        line += f" epoch {offset.leader_epoch}"
    if offset.expire_timestamp != -1:
        line += f" expires {_seconds(offset.expire_timestamp)}"
    if offset.metadata:
        line += f" note {offset.metadata[:20]}"
    return line
