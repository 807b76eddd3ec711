"""A correct log and its clients, simulated: what they record is a sound history.

One thread, a seeded source of chance, and steps that interleave: a client begins an operation, the log
does some of its work, the client learns the end, or never does. Mutations of such histories plant one
anomaly each.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from odradek.testing.checker import Event, Poll, Record, Recorder, Send


@dataclass
class Entry:
    value: str
    state: str  # open, committed, aborted


@dataclass
class Partition:
    entries: list[Entry | None] = field(default_factory=list)  # None: a transaction's marker

    def append(self, value: str, state: str) -> tuple[int, Entry]:
        entry = Entry(value, state)
        self.entries.append(entry)
        return len(self.entries) - 1, entry

    def read(self, position: int, most: int) -> tuple[list[tuple[int, str]], int]:
        """Committed records up to the last stable offset, and where to go on."""
        found: list[tuple[int, str]] = []
        while position < len(self.entries) and len(found) < most:
            entry = self.entries[position]
            if entry is not None and entry.state == "open":
                break
            if entry is not None and entry.state == "committed":
                found.append((position, entry.value))
            position += 1
        return found, position


class Simulation:
    """`steps` operations of some producers and consumers, in transactions or not, then a read of all."""

    def __init__(self, seed: int, steps: int = 120) -> None:
        self.random = random.Random(seed)
        self.recorder = Recorder()
        self.names = [f"t-{number}" for number in range(self.random.randint(1, 3))]
        self.logs = {name: Partition() for name in self.names}
        self.values = 0
        self.positions: dict[str, dict[str, int]] = {}
        self.committed: dict[str, int] = dict.fromkeys(self.names, 0)
        self.members: dict[str, list[str]] = {"g0": list(self.names), "g1": []}
        for member in self.members:
            self.recorder.control(member, "subscribe", ["t"])
            self.positions[member] = dict.fromkeys(self.members[member], 0)
        running = {}
        actors = {f"p{n}": self.produce for n in range(3)} | {f"x{n}": self.transact for n in range(3)}
        actors |= {"g0": self.consume, "g1": self.consume}
        for _ in range(steps):
            name = self.random.choice(sorted(actors))
            steps_of = running.setdefault(name, actors[name](name))
            if next(steps_of, "done") == "done":
                del running[name]
            if self.random.random() < 0.05 and not {"g0", "g1"} & running.keys():
                self.rebalance()
            if name in running and self.random.random() < 0.03 and name[0] != "g":
                running.pop(name).close()
                self.recorder.control(name, "crash")
        for name in sorted(running):
            for _ in running[name]:
                pass
        self.settle()
        self.read_all()

    @property
    def events(self) -> list[Event]:
        return self.recorder.events

    def value(self) -> str:
        self.values += 1
        return f"v{self.values}"

    def produce(self, me: str):
        sends = [Send(self.random.choice(self.names), self.value()) for _ in range(self.random.randint(1, 3))]
        self.recorder.invoke(me, "send", sends)
        yield
        known, unknown = [], False
        for send in sends:
            if self.random.random() < 0.1:  # the request is lost, or its answer is
                unknown = True
                known.append(send)
                if self.random.random() < 0.5:
                    self.logs[send.partition].append(str(send.value), "committed")
                break
            offset, _ = self.logs[send.partition].append(str(send.value), "committed")
            known.append(Send(send.partition, send.value, offset))
            yield
        self.recorder.complete(me, "info" if unknown else "ok", "send", known)

    def transact(self, me: str):
        sends = [Send(self.random.choice(self.names), self.value()) for _ in range(self.random.randint(1, 4))]
        position = self.positions.get(me)
        if position is None:
            position = self.positions[me] = dict.fromkeys(self.names, 0)
            self.recorder.control(me, "assign", self.names)
        begun = [Poll(), *sends]
        self.recorder.invoke(me, "txn", begun)
        records: list[Record] = []
        moved = dict(position)
        for name in self.names:
            found, moved[name] = self.logs[name].read(moved[name], self.random.randint(0, 4))
            records += [Record(name, offset, value) for offset, value in found]
        entries: list[Entry] = []
        ended = False
        try:
            done = []
            for send in sends:
                yield
                offset, entry = self.logs[send.partition].append(str(send.value), "open")
                entries.append(entry)
                done.append(Send(send.partition, send.value, offset))
            yield
            fate = self.random.choice(["committed", "committed", "aborted"])
            self.end(entries, sends, fate)
            ended = True
            yield
            known = self.random.random() < 0.85
            type_ = ("ok" if fate == "committed" else "fail") if known else "info"
            self.recorder.complete(me, type_, "txn", [Poll(tuple(records)), *done])
            if type_ == "ok":
                self.positions[me] = moved
        finally:
            if not ended:  # the coordinator's timeout, or the next instance, aborts it
                self.end(entries, sends, "aborted")

    def end(self, entries: list[Entry], sends: list[Send], fate: str) -> None:
        for entry in entries:
            entry.state = fate
        for name in {send.partition for send in sends}:
            self.logs[name].entries.append(None)

    def consume(self, me: str):
        self.recorder.invoke(me, "poll", [Poll()])
        yield
        records: list[Record] = []
        for name in self.members[me]:
            position = self.positions[me][name]
            found, self.positions[me][name] = self.logs[name].read(position, self.random.randint(1, 5))
            records += [Record(name, offset, value) for offset, value in found]
        self.recorder.complete(me, "ok", "poll", [Poll(tuple(records))])
        if self.random.random() < 0.5:
            self.committed.update(self.positions[me])

    def rebalance(self) -> None:
        """Partitions change their owner, who goes on at the committed offset."""
        split = self.random.randint(0, len(self.names))
        for member, names in zip(self.members, (self.names[:split], self.names[split:]), strict=True):
            changed = sorted(set(names) ^ set(self.members[member]))
            self.members[member] = list(names)
            kept = self.positions[member]
            self.positions[member] = {name: kept.get(name, self.committed[name]) for name in names}
            self.recorder.control(member, "rebalance", changed)

    def settle(self) -> None:
        """What the log still holds open is aborted, as after the timeout of its transaction."""
        for log in self.logs.values():
            for entry in log.entries:
                if entry is not None and entry.state == "open":
                    entry.state = "aborted"

    def read_all(self) -> None:
        self.recorder.control("reader", "assign", self.names)
        for name in self.names:
            position = 0
            while position < len(self.logs[name].entries):
                self.recorder.invoke("reader", "poll", [Poll()])
                found, position = self.logs[name].read(position, 20)
                records = tuple(Record(name, offset, value) for offset, value in found)
                self.recorder.complete("reader", "ok", "poll", [Poll(records)])
