"""Members of a group that read `TOPIC`, commit, leave and die, and a watch on what is committed."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest

from client.engines import consumer_engines
from cluster_processes import LIMIT_S, ClusterProcesses
from odradek import Consumer
from odradek.client.aio.consumer_engine import ConsumerEngine
from odradek.client.errors import ClosedError
from odradek.client.types import ConsumerRebalanceListener, TopicPartition
from odradek.errors import KafkaError, OdradekError
from odradek.testing.checker import Poll, Record, Recorder
from scenarios.faults.workloads import TOPIC, Workload, name
from waiting import joined

GROUP = "members"
SESSION_MS = 3_000


class Members:
    """A group.

    Attributes:
        values: what its members have polled, in all their lives.
    """

    def __init__(
        self, cluster: ClusterProcesses, recorder: Recorder, workload: Workload, **configs: Any
    ) -> None:
        self.values: set[str] = set()
        self._cluster = cluster
        self._recorder = recorder
        self._workload = workload
        self._configs = configs
        self._progress = threading.Condition()
        self._members: dict[str, Member] = {}
        self._lives = 0

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for each in list(self._members):
            self.leave(each)

    def join(self, **configs: Any) -> str:
        """Have one more member; its name."""
        me = f"m{self._lives}"
        self._lives += 1
        with pytest.MonkeyPatch.context() as patch:
            engines = consumer_engines(patch, MortalEngine)
            consumer = Consumer(
                bootstrap_servers=self._cluster.bootstrap_servers,
                group_id=GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level=self._workload.isolation,
                **{**self._configs, **configs},
            )
        engine = engines[0]
        assert isinstance(engine, MortalEngine)
        self._members[me] = Member(self, me, consumer, engine)
        return me

    def leave(self, me: str) -> None:
        """Have a member say good-bye."""
        self._members.pop(me).end(clean=True)

    def kill(self, me: str) -> None:
        """Have a member end without a word."""
        self._members.pop(me).end(clean=False)
        self._recorder.control(me, "crash")

    @property
    def live(self) -> list[str]:
        return list(self._members)

    def problem_of(self, me: str) -> BaseException | None:
        """What a member has ended with by itself."""
        return self._members[me].problem

    def go_on(self, count: int = 100) -> None:
        """Wait until members have polled so many more records."""
        with self._progress:
            until = len(self.values) + count
            reached = self._progress.wait_for(lambda: len(self.values) >= until, LIMIT_S)
        assert reached, (
            f"{len(self.values)} of {until} records; {[m.problem for m in self._members.values()]}"
        )

    def await_owned_once(self, partitions: int, members: int) -> None:
        """Wait until so many members have all partitions, each one of them."""
        wanted = sorted(TopicPartition(TOPIC, n) for n in range(partitions))

        def look() -> bool:
            with self._cluster.admin() as admin:
                group = admin.describe_groups([GROUP])[GROUP]
            owned = sorted(tp for member in group.members for tp in member.assignment)
            # While a group rebalances, what its members had before is told.
            return group.state == "Stable" and len(group.members) == members and owned == wanted

        self._cluster.wait_until(look)

    def note(self, me: str, records: list[Record]) -> None:
        """A member has polled these."""
        self._recorder.complete(me, "ok", "poll", [Poll(tuple(records))])
        with self._progress:
            self.values.update(str(one.value) for one in records)
            self._progress.notify_all()

    def await_all(self, values: set[str]) -> None:
        """Wait until members have polled all of these."""
        with self._progress:
            reached = self._progress.wait_for(lambda: values <= self.values, LIMIT_S)
        missing = values - self.values
        assert reached, f"{len(missing)} acknowledged records were polled by no member: {sorted(missing)[:5]}"

    @property
    def recorder(self) -> Recorder:
        return self._recorder


class MortalEngine(ConsumerEngine):
    """Ends as the death of its process would have it, where it dies: no commit, no leave."""

    dies = False

    async def close(self, timeout_ms: float, *, failed: bool, tell: int = logging.INFO) -> None:
        if not self.dies:
            await super().close(timeout_ms, failed=failed, tell=tell)
            return
        self.closed = self.closing = True
        self.fetcher.stop()
        await self.cluster.close()


class Member:
    """One consumer in a thread."""

    def __init__(self, members: Members, me: str, consumer: Consumer, engine: MortalEngine) -> None:
        self.problem: BaseException | None = None
        self._members = members
        self._me = me
        self._consumer = consumer
        self._engine = engine
        self._ended = False
        self._dies = False
        self._thread = threading.Thread(target=self._run, name=me)
        self._thread.start()

    def end(self, *, clean: bool) -> None:
        """End it in good order, or as the death of its process would."""
        self._dies = not clean
        self._ended = True
        self._thread.join(2 * LIMIT_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._live()
        except (KafkaError, ClosedError) as problem:
            self.problem = problem
        finally:
            if self._dies:
                self._engine.dies = True
            with contextlib.suppress(OdradekError):
                self._consumer.close(5_000)

    def _live(self) -> None:
        recorder, me = self._members.recorder, self._me

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
                recorder.control(me, "rebalance", [name(tp.partition) for tp in revoked])

            def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
                recorder.control(me, "rebalance", [name(tp.partition) for tp in assigned])

        self._consumer.subscribe([TOPIC], listener=Listener())
        recorder.control(me, "subscribe", [TOPIC])
        while not self._ended:
            recorder.invoke(me, "poll", [Poll()])
            records = self._consumer.poll(100)
            self._members.note(
                me, [Record(name(one.partition), one.offset, one.value.decode()) for one in records]
            )
            # Brokers are down, or the group rebalances: then these are polled again by somebody.
            with contextlib.suppress(OdradekError):
                self._consumer.commit(timeout_ms=1_000)


class Watch:
    """Looks again and again at what is committed, which must never go back."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        self._cluster = cluster
        self._ended = threading.Event()
        self._newest: dict[TopicPartition, int] = {}
        self.steps_back: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        joined(self._thread, LIMIT_S)

    def _run(self) -> None:
        with self._cluster.admin() as admin:
            while not self._ended.is_set():
                with contextlib.suppress(OdradekError):
                    for tp, found in admin.list_group_offsets(GROUP).items():
                        newest = self._newest.get(tp, 0)
                        if found.offset < newest:
                            self.steps_back.append(f"{tp} at {time.time()}: {newest} → {found.offset}")
                        self._newest[tp] = max(newest, found.offset)
                self._ended.wait(0.1)
