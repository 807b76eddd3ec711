"""What must hold at every step, looked at whenever something happens that could break it.

The observer sees all brokers' logs at once. Of each partition it keeps what has been committed: the batches
below the highest high watermark that any replica has had. Then:

- a replica's log agrees with it up to the replica's high watermark, whenever that moves;
- each member of the ISR, as it stands in the metadata store, has all of it: whenever it grows, the ISR or the
  leader changes, or a member's log is cut or deleted, but with its topic;
- one broker writes and acknowledges in a leader epoch, whatever acks a producer asked for;
- what is acknowledged with acks=all is committed, and on as many replicas as min.insync.replicas says;
- what counted as synced (the recovery point) is there after a loss of power.

A replica that lost power may lack what it had not synced (`lossy`) until it is taken into the ISR anew. When
nobody else is left in the ISR, records may be lost, as in Kafka: the partition is `forgiven`, and what is
committed is learned anew from its leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.cluster import paths
from odradek.cluster.nodes import decode_partition_state
from odradek.errors.codes import ErrorCode
from odradek.log.folders.taken_out import TakenOut
from odradek.log.partition.partition_log import PartitionLog
from odradek.records.message_sets.message_set import iter_entries
from odradek.replication.leadership import Leadership
from odradek.replication.partition import Partition

if TYPE_CHECKING:
    from .machine import Machine
    from .world import World

Key = tuple[str, int]
BIG = 1 << 30


class Batch(NamedTuple):
    """A committed batch, as its copies are compared."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


class Committed:
    """What is known to be committed of one partition.

    Attributes:
        topic_id: of the topic whose partition it is.
        batches: in the order of their offsets.
        end: the highest high watermark.
        leaders: who has written or acknowledged, by leader epoch.
        isr, leader: as the metadata store says.
        lossy: hosts in the ISR that may lack what was not on their disks.
        emptied: hosts in the ISR whose disks were replaced: they have nothing, and may not lead.
        is_forgiven: nobody but those was left.
    """

    def __init__(self, topic_id: bytes) -> None:
        self.topic_id = topic_id
        self.batches: list[Batch] = []
        self.end = 0
        self.leaders: dict[int, str] = {}
        self.isr: tuple[str, ...] = ()
        self.leader = ""
        self.lossy: set[str] = set()
        self.emptied: set[str] = set()
        self.is_forgiven = False

    def from_offset(self, offset: int) -> list[Batch]:
        """The batches that reach beyond an offset."""
        place = len(self.batches)
        while place and self.batches[place - 1].last_offset >= offset:
            place -= 1
        return self.batches[place:]


class Observer:
    """See the module.

    Attributes:
        partitions: what is known of each.
        forgiven: partitions of which records may have been lost, as nobody with a disk was left.
        acknowledged: how many acks=all requests were answered well.
    """

    def __init__(self, world: World, machines: dict[str, Machine]) -> None:
        self._world, self._machines = world, machines
        self.partitions: dict[Key, Committed] = {}
        self.forgiven: set[Key] = set()
        self.acknowledged = 0
        self._logs: dict[tuple[str, Key], PartitionLog] = {}
        self._verified: dict[int, int] = {}
        self._synced: dict[tuple[str, Key], tuple[int, bytes | None]] = {}
        self._kept: list[PartitionLog] = []
        self._lost: set[int] = set()
        """Logs, by their ids, whose machine has lost power since they were opened."""
        self._emptied: set[tuple[str, Key]] = set()
        """Replicas that were on a disk which was replaced, and have not been made again."""
        self._is_looking = False

    def broken(self, text: str) -> None:
        """An invariant does not hold."""
        self._world.note(f"broken: {text}")
        self._world.problems.append(f"at {self._world.now_s:.3f} s: {text}")

    # ------------------------------------------------------------------ what happens

    def replica_made(self, partition: Leadership) -> None:
        """A broker has opened a replica."""
        log, place = partition.log, (_host(partition.log), partition.key)
        synced, topic_id = self._synced.pop(place, (0, None))
        if log.log_end_offset < synced and log.topic_id == topic_id:
            self.broken(
                f"{partition.topic}-{partition.index}: {place[0]} ends at {log.log_end_offset}, "
                f"everything up to {synced} counted as synced"
            )
        self._emptied.discard(place)
        self._logs[place] = log
        self._kept.append(partition.log)  # so that its id stays its own

    def high_watermark_moved(self, log: PartitionLog) -> None:
        """A replica believes that everything below its high watermark is committed."""
        if self._is_looking or self._logs.get((_host(log), (log.topic, log.partition))) is not log:
            return
        committed = self._committed(log)
        if committed is None:
            return
        end = log.high_watermark
        if committed.is_forgiven:
            if _host(log) == committed.leader:
                self._learn_anew(committed, log)
            return
        verified = min(self._verified.get(id(log), log.log_start_offset), end)
        if end > verified:
            self._compare(committed, log, verified, end, "below its high watermark")
        self._verified[id(log)] = end
        if end > committed.end:
            committed.batches += [
                one for one in self._read(log, committed.end, end) if one.base_offset >= committed.end
            ]
            committed.end = end
            self._check_isr(log.topic, log.partition, committed, f"the high watermark moved to {end}")

    def log_was_cut(self, log: PartitionLog) -> None:
        """A replica has dropped records from its end."""
        committed = self._committed(log)
        key = (log.topic, log.partition)
        if self._is_looking or committed is None or self._logs.get((_host(log), key)) is not log:
            return
        self._verified[id(log)] = min(self._verified.get(id(log), 0), log.log_end_offset)
        self._check_isr(*key, committed, f"{_host(log)} was cut at {log.log_end_offset}")

    def appended(self, partition: Partition) -> None:
        """A leader has written records, and acknowledges them if it is not to wait for the others."""
        committed = self._committed(partition.log)
        if committed is not None:
            self._note_leader(partition, committed)

    def acked(self, partition: Partition, offset: int) -> None:
        """A leader says that everything below an offset is committed."""
        committed = self._committed(partition.log)
        if committed is None or committed.is_forgiven or offset <= 0:
            return
        self.acknowledged += 1
        self._note_leader(partition, committed)
        name, host = f"{partition.topic}-{partition.index}", _host(partition.log)
        if offset > committed.end:
            self.broken(f"{name}: {host} acknowledges up to {offset}, committed is {committed.end}")
        least = 2 if len(partition.replicas) > 1 else 1
        holders = [
            one
            for (one, key), log in self._logs.items()
            if key == partition.key and log.topic_id == committed.topic_id and log.log_end_offset >= offset
        ]
        if len(holders) < least and not committed.lossy | committed.emptied:
            self.broken(f"{name}: {host} acknowledges up to {offset}, which only {holders} have")

    def replica_gone(self, log: PartitionLog) -> None:
        """A broker has given a replica's folder up. With its topic it may, while that is marked for it."""
        key = (log.topic, log.partition)
        server = next(iter(self._machines.values())).server
        if self._logs.get((_host(log), key)) is not log or paths.delete_topic(log.topic) in server.tree.nodes:
            return
        del self._logs[_host(log), key]
        committed = self.partitions.get(key)
        if committed is not None and committed.topic_id == log.topic_id:
            self._check_isr(*key, committed, f"{_host(log)} deleted its replica")

    def node_changed(self, path: str) -> None:
        """Something was written into the metadata store."""
        if path.startswith(f"{paths.BROKER_IDS}/"):
            self._brokers_changed(f"b{path.rpartition('/')[2]}")
            return
        parts = path.split("/")
        if len(parts) != 7 or parts[1:3] != ["brokers", "topics"] or parts[6] != "state":
            return
        key = (parts[3], int(parts[5]))
        server = next(iter(self._machines.values())).server
        node = server.tree.nodes.get(path)
        committed = self.partitions.get(key)
        if node is None or node.data is None:
            self.partitions.pop(key, None)
            return
        if committed is None:
            return
        state = decode_partition_state(path, node.data)
        before = set(committed.isr)
        self._world.note(f"{key} {state.leader} {state.leader_epoch} {state.isr}")
        committed.isr = tuple(f"b{one}" for one in state.isr)
        committed.leader = f"b{state.leader}"
        committed.lossy &= before & set(committed.isr)
        committed.emptied &= before & set(committed.isr)
        # Taken in by a wish of before, while its machine is dark, or its broker has not opened
        # its replica again: it deserved that when it had its pages. A leader has not wished for itself.
        committed.lossy |= {
            host
            for host, machine in self._machines.items()
            if host in committed.isr
            and (
                machine.has_lost_pages
                or (host != committed.leader and id(self._logs.get((host, key))) in self._lost)
            )
        }
        committed.emptied |= {host for host in committed.isr if (host, key) in self._emptied}
        self._check_isr(*key, committed, f"the ISR became {state.isr}, led by {state.leader}")

    def _brokers_changed(self, host: str) -> None:
        """Who has lost power leads, as in Kafka, where all others of an ISR were gone when it registered."""
        live = self._live()
        for key, one in self.partitions.items():
            if host in live and host in one.lossy and live.isdisjoint(set(one.isr) - {host}):
                one.lossy |= set(one.isr)
                self._note_loss(key, one)

    def _live(self) -> set[str]:
        tree = next(iter(self._machines.values())).server.tree
        return {f"b{one}" for one in tree.get(paths.BROKER_IDS).children}

    def power_lost(self, host: str) -> None:
        """What a machine had not synced may be gone."""
        for (one, key), log in list(self._logs.items()):
            committed = self.partitions.get(key)
            if one == host:
                self._verified.pop(id(log), None)
                self._lost.add(id(log))
                self._synced[one, key] = (log.recovery_point, log.topic_id)
                if committed is not None and host in committed.isr:
                    committed.lossy.add(host)
                    self._note_loss(key, committed)

    def would_lose(self, host: str) -> bool:
        """Return whether a loss of power would leave a partition without a member that has a disk."""
        return any(
            host in one.isr and one.lossy | one.emptied | {host} >= set(one.isr)
            for one in self.partitions.values()
        )

    def disk_emptied(self, host: str, folders: Sequence[str]) -> None:
        """A machine has lost all that was in some folders, and is to know that itself."""
        for (one, key), log in list(self._logs.items()):
            if one == host and str(log.directory.parent) in folders:
                self._verified.pop(id(self._logs.pop((one, key))), None)
                self._synced.pop((one, key), None)
                self._emptied.add((one, key))
                committed = self.partitions.get(key)
                if committed is not None and host in committed.isr:
                    committed.emptied.add(host)

    def replica_removed(self, host: str, key: Key) -> None:
        """Somebody has taken a replica's folder away."""
        self._synced.pop((host, key), None)

    def may_return(self, host: str) -> bool:
        """Return whether a machine that lost power does no harm: wherever it is in an ISR with others one of
        these lives, so that the broker waits until it has been missed.
        """
        live = self._live() - {host}
        return not any(
            host in one.isr and len(one.isr) > 1 and live.isdisjoint(one.isr)
            for one in self.partitions.values()
        )

    # ------------------------------------------------------------------ how it is looked at

    def _committed(self, log: PartitionLog) -> Committed | None:
        if log.topic_id is None:
            return None
        key = (log.topic, log.partition)
        found = self.partitions.get(key)
        if found is None or found.topic_id != log.topic_id:
            server = next(iter(self._machines.values())).server
            path = paths.partition_state(*key)
            node = server.tree.nodes.get(path)
            if node is None or node.data is None or (found is not None and log.high_watermark == 0):
                return None
            found = self.partitions[key] = Committed(log.topic_id)
            state = decode_partition_state(path, node.data)
            found.isr, found.leader = tuple(f"b{one}" for one in state.isr), f"b{state.leader}"
        return found

    def _note_leader(self, partition: Partition, committed: Committed) -> None:
        host, epoch = _host(partition.log), partition.leader_epoch
        first = committed.leaders.setdefault(epoch, host)
        if first != host:
            self.broken(f"{partition.topic}-{partition.index}: {first} and {host} both lead in epoch {epoch}")

    def _note_loss(self, key: Key, committed: Committed) -> None:
        if committed.lossy and committed.lossy | committed.emptied >= set(committed.isr):
            self.forgiven.add(key)
            committed.is_forgiven = True
            self._world.note(f"forgiven {key}")

    def _learn_anew(self, committed: Committed, log: PartitionLog) -> None:
        committed.batches = self._read(log, log.log_start_offset, log.high_watermark)
        committed.end = log.high_watermark
        committed.is_forgiven = False
        committed.lossy = set(committed.isr) - {_host(log)}
        for (_, key), one in self._logs.items():
            if key == (log.topic, log.partition):
                self._verified[id(one)] = 1 << 62
        self._verified[id(log)] = log.high_watermark

    def _check_isr(self, topic: str, index: int, committed: Committed, when: str) -> None:
        self._note_loss((topic, index), committed)
        if committed.is_forgiven:
            return
        for host in committed.isr:
            log = self._logs.get((host, (topic, index)))
            if host in committed.emptied and not committed.emptied >= set(committed.isr):
                # It is to go, without having led.
                continue
            if host in committed.lossy:
                continue
            if log is None or log.topic_id != committed.topic_id:
                if committed.end:
                    has = "no log" if log is None else f"a log of topic id {log.topic_id!r}"
                    self.broken(f"{topic}-{index}: {when}; {host}, in the ISR, has {has}")
                continue
            if log.log_end_offset < committed.end:
                self.broken(
                    f"{topic}-{index}: {when}; {host}, in the ISR, ends at {log.log_end_offset}, "
                    f"committed is {committed.end}"
                )
                continue
            verified = self._verified.get(id(log), log.log_start_offset)
            if verified < committed.end:
                self._compare(committed, log, verified, committed.end, f"in the ISR ({when})")
                self._verified[id(log)] = committed.end

    def _compare(self, committed: Committed, log: PartitionLog, start: int, end: int, where: str) -> None:
        known = [one for one in committed.from_offset(start) if one.base_offset < end]
        own = [one for one in self._read(log, start, min(end, committed.end)) if one.base_offset < end]
        if known != own:
            differing = next((pair for pair in zip(known, own, strict=False) if pair[0] != pair[1]), None)
            self.broken(
                f"{log.topic}-{log.partition}: {_host(log)} differs {where}: "
                f"{differing or (known[len(own) :], own[len(known) :])}"
            )

    def _read(self, log: PartitionLog, start: int, end: int) -> list[Batch]:
        start, batches = max(start, log.log_start_offset), []
        while start < end:
            with self._looking(log):
                result = log.read(start, BIG, upper_bound=end, min_one_batch=True)
            found = [
                Batch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc)  # type: ignore[union-attr]
                for header, _ in iter_entries(result.records)
            ]
            if not found:
                break
            batches += [one for one in found if one.base_offset < end]
            start = found[-1].last_offset + 1
        return batches

    @contextmanager
    def _looking(self, log: PartitionLog) -> Iterator[None]:
        disk: Any = log.files
        self._is_looking = disk.is_looked_at = True
        try:
            yield
        finally:
            self._is_looking = disk.is_looked_at = False


def _host(log: PartitionLog) -> str:
    disk: Any = log.files
    return str(disk.host)


class Hooks:
    """Has the present observer told what brokers do; puts everything back at the end."""

    def __init__(self) -> None:
        self.observer: Observer | None = None
        self._originals: list[tuple[type, str, Any]] = []
        self._wrap(PartitionLog, "update_high_watermark", self._after_high_watermark)
        self._wrap(PartitionLog, "commit_all", self._after_high_watermark)
        self._wrap(PartitionLog, "truncate_to", self._after_cut)
        self._wrap(PartitionLog, "truncate_fully_and_start_at", self._after_cut)
        self._wrap(Partition, "append", self._after_append)
        self._wrap(Partition, "committed", self._after_committed)
        self._wrap(Leadership, "__init__", self._after_made)
        self._wrap(TakenOut, "take", self._after_taken_out)

    def _wrap(self, owner: type, name: str, after: Callable[..., None]) -> None:
        original: Any = getattr(owner, name)
        self._originals.append((owner, name, owner.__dict__.get(name)))

        def wrapped(self: Any, *args: Any, **more: Any) -> Any:
            result = original(self, *args, **more)
            after(result, self, *args, **more)
            return result

        setattr(owner, name, wrapped)

    def close(self) -> None:
        """Put everything back."""
        for owner, name, original in self._originals:
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def _after_high_watermark(self, result: Any, log: PartitionLog, *_: Any) -> None:
        if self.observer is not None:
            self.observer.high_watermark_moved(log)

    def _after_cut(self, result: Any, log: PartitionLog, *_: Any) -> None:
        if self.observer is not None:
            self.observer.log_was_cut(log)

    def _after_taken_out(self, result: Any, taken: TakenOut, log: PartitionLog, *_: Any, **__: Any) -> None:
        if self.observer is not None:
            self.observer.replica_gone(log)

    def _after_append(self, result: Any, partition: Partition, *_: Any, **__: Any) -> None:
        if self.observer is not None:
            self.observer.appended(partition)

    def _after_committed(self, result: tuple[bool, ErrorCode], partition: Partition, offset: int) -> None:
        if self.observer is not None and result == (True, ErrorCode.NONE):
            self.observer.acked(partition, offset)

    def _after_made(self, result: Any, partition: Leadership, *_: Any, **__: Any) -> None:
        if self.observer is not None:
            self.observer.replica_made(partition)
