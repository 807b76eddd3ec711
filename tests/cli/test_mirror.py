"""`odradek mirror`: topics, records and groups' offsets in another cluster, each record once."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.conftest import RunTool
from odradek import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from odradek.cli.mirror_state import MOST_RUNS, PartitionState, Run, decode, encode
from odradek.cli.mirroring import Choice, Mirror
from odradek.testing import Broker
from waiting import WITHIN_S, until


class Clusters(NamedTuple):
    """Two clusters: their addresses."""

    source: str
    target: str


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """Two brokers, each a cluster."""
    with Broker() as source, Broker() as target:
        yield Clusters(source.bootstrap_servers, target.bootstrap_servers)


def words(clusters: Clusters, topics: str, name: str, *more: str) -> tuple[str, ...]:
    """The words that every call has."""
    return ("mirror", "--source", clusters.source, "--target", clusters.target, "--topics", topics,
            "--groups", topics, "--name", name, *more)  # fmt: skip


def read(servers: str, topic: str, partition: int) -> list[tuple[bytes | None, ...]]:
    """Key, value, timestamp and headers of all committed records."""
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        tp = TopicPartition(topic, partition)
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        end = consumer.end_offsets([tp])[tp]
        records: list[ConsumerRecord] = []

        def is_read() -> bool:
            records.extend(consumer.poll(500))
            return consumer.position(tp) >= end

        until(is_read, "the end of the partition", every_s=0)
    return [(r.key, r.value, r.timestamp, tuple(r.headers)) for r in records]


def test_a_topic_with_its_configs_and_groups(
    run: RunTool, clusters: Clusters, name: str, tmp_path: Path
) -> None:
    # What the mirror needs goes before what files say.
    (of_source := tmp_path / "source").write_text(
        "isolation.level=read_uncommitted\nauto.offset.reset=latest\nenable.auto.commit=true\n",
        encoding="utf-8",
    )
    (of_target := tmp_path / "target").write_text(
        f"isolation.level=read_uncommitted\ntransactional.id={name}\n", encoding="utf-8"
    )
    files = ("--source-config", str(of_source), "--target-config", str(of_target))
    at_source, at_target = ({"bootstrap_servers": servers} for servers in clusters)
    with Admin(**at_source) as source, Admin(**at_target) as target:
        configs = {"retention.ms": "86400000", "min.insync.replicas": "1"}
        source.create_topics([NewTopic(name, num_partitions=2, configs=configs), NewTopic("other")])
        with Producer(**at_source, transactional_id=name) as producer:
            producer.init_transactions()
            numbers = itertools.count()
            now_ms = int(time.time() * 1_000)  # younger than what retention deletes
            for commit in (True, False, True):
                producer.begin_transaction()
                for number in itertools.islice(numbers, 3):
                    headers = [("h", b"%d" % number)]
                    producer.send(
                        name,
                        b"%d" % number,
                        key=b"k",
                        partition=1,
                        timestamp_ms=now_ms + number,
                        headers=headers,
                    )
                producer.send(name, None, key=b"gone", partition=0, timestamp_ms=now_ms)
                producer.flush()  # else what is aborted may never have been written
                (producer.commit_transaction if commit else producer.abort_transaction)()
        # Six records of partition 1, each transaction with a marker behind: the second is at offset 8.
        source.alter_group_offsets(name, {(name, 1): 9, (name, 0): 0})
        done = run(*words(clusters, f"{name}.*", name, "--topic-prefix", "west.", "--once", *files))
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines() == [
            f"topic {name}: made west.{name}, partitions: 2",
            "copied records: 8, translated groups: 1",
        ]
        copy = f"west.{name}"
        for partition in (0, 1):
            assert read(clusters.target, copy, partition) == read(clusters.source, name, partition)
        described = target.describe_configs([("topic", copy)])[("topic", copy)]
        assert (described["retention.ms"].value, described["retention.ms"].source) == ("86400000", 1)
        assert described["min.insync.replicas"].source != 1
        assert "west.other" not in target.describe_topics()
        # The group goes on in the copy with the record that it would have read in the source.
        offsets = target.list_group_offsets(name)
        with Consumer(**at_target, group_id=name, isolation_level="read_committed") as consumer:
            consumer.assign([(copy, 1)])
            record = consumer.getone()
        assert (record.value, offsets[TopicPartition(copy, 0)].offset) == (b"7", 0)

        source.create_partitions({name: 3})
        source.incremental_alter_configs({("topic", name): {"retention.ms": None}})
        with Producer(**at_source) as producer:
            producer.send(name, b"later", partition=2)
        done = run(*words(clusters, name, name, "--topic-prefix", "west.", "--once"))
        assert done.stdout.splitlines() == [
            f"topic {name}: more partitions for {copy}: 3",
            f"topic {name}: configs of {copy} changed: retention.ms",
            "copied records: 1, translated groups: 1",
        ]
        assert read(clusters.target, copy, 2) == read(clusters.source, name, 2)
        assert len(read(clusters.target, copy, 1)) == 6


@contextmanager
def mirror(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A mirror that runs, and is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WITHIN_S)


def test_a_mirror_that_is_killed_copies_nothing_twice(run: RunTool, clusters: Clusters, name: str) -> None:
    at_source = {"bootstrap_servers": clusters.source}
    with Admin(**at_source) as admin, Admin(bootstrap_servers=clusters.target) as target:
        admin.create_topics([NewTopic(name, num_partitions=2)])
        numbers = itertools.count()
        with Producer(**at_source) as producer:
            for number in itertools.islice(numbers, 2000):
                producer.send(name, b"%d" % number, partition=number % 2)
            producer.flush()
            tps = {(name, 0): -1, (name, 1): -1}
            ends = [0]
            # Small transactions, so that one is open whenever the mirror dies.
            call = words(clusters, name, name, "--max-records", "20")
            for _ in range(2):
                with mirror(*call) as process:

                    def grows() -> bool:
                        for number in itertools.islice(numbers, 20):
                            producer.send(name, b"%d" % number, partition=number % 2)
                        assert process.poll() is None, process.stderr and process.stderr.read()
                        if name not in target.list_topics():
                            return False
                        ends.append(sum(at.offset for at in target.list_offsets(tps).values()))
                        return ends[-1] > ends[0] + 200

                    until(grows, "records in the copy", instead=lambda: ends[-1])
                ends[0] = ends[-1]
        assert run(*call, "--once").exit_code == 0
    for partition in (0, 1):
        copied = read(clusters.target, name, partition)
        assert copied == read(clusters.source, name, partition)
        assert len(copied) >= 1000


def test_topics_that_are_deleted_are_read_no_longer(
    clusters: Clusters, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_source, at_target = ({"bootstrap_servers": servers} for servers in clusters)
    chosen = Choice(re.compile(f"{name}.*"), re.compile(""))
    gone, kept = f"{name}-gone", f"{name}-kept"
    tell: list[str] = []
    with Admin(**at_source) as source, Admin(**at_target) as target:
        source.create_topics([gone, kept])
        mirror = Mirror(name, at_source, at_target, topics=chosen, groups=chosen, prefix="",
                        replication_factor=-1, max_records=100, tell=tell.append)  # fmt: skip
        with closing(mirror):
            mirror.refresh_topics()
            assert set(mirror.end_offsets()) == {(gone, 0), (kept, 0)}
            # Deleted between the question for the topics and that for their configs.
            with monkeypatch.context() as patched:
                stale = {**source.describe_topics(), **target.describe_topics()}
                patched.setattr(Admin, "describe_topics", lambda _: stale)
                source.delete_topics([gone])
                mirror.refresh_topics()
                assert set(mirror.end_offsets()) == {(kept, 0)}
                target.delete_topics([kept])
                mirror.refresh_topics()
                assert mirror.end_offsets() == {}
            mirror.refresh_topics()
            assert set(mirror.end_offsets()) == {(kept, 0)}
            source.delete_topics([kept])
            mirror.refresh_topics()
            assert mirror.end_offsets() == {}
    made = f"topic {kept}: made {kept}, partitions: 1"
    assert tell == [f"topic {gone}: made {gone}, partitions: 1", made, made]


def test_wrong_words(run: RunTool, clusters: Clusters) -> None:
    refused = run(*words(clusters, "t", "a name"))
    assert refused.exit_code == 1
    assert "letters, digits" in refused.stderr
    assert "is not a regular expression" in run(*words(clusters, "(", "n")).stderr


def test_offsets_are_translated_within_runs_and_behind_them() -> None:
    state = PartitionState(0).after([(10, 0), (11, 1), (12, 2)])
    state = state.after([(15, 4), (16, 5), (18, 6)])
    assert state == PartitionState(19, (Run(10, 0, 3), Run(15, 4, 2), Run(18, 6, 1)))
    # Behind the end of a run the next record of the copy is meant: that of the next run.
    translated = {3: 0, 10: 0, 12: 2, 13: 3, 15: 4, 16: 5, 17: 6, 18: 6, 19: 7, 99: 7}
    assert {offset: state.translate(offset) for offset in translated} == translated
    assert PartitionState(0).translate(5) is None
    tp = TopicPartition("t", 1)
    assert decode(*encode(tp, state)) == (tp, state)
    # The topic was made anew.
    assert state.after([(0, 7)]) == PartitionState(1, (Run(0, 7, 1),))


def test_few_runs_are_kept_and_none_lets_a_record_be_skipped() -> None:
    state = PartitionState(0)
    exact = {}
    for number in range(10_000):
        exact[number * 2] = number * 3
        state = state.after([(number * 2, number * 3)])
    assert len(state.runs) <= MOST_RUNS
    assert state.runs[0] == Run(0, 0, 1)
    translated = {offset: state.translate(offset) for offset in exact}
    assert all(found is not None and found <= exact[offset] for offset, found in translated.items())
    newest = list(exact)[-MOST_RUNS // 2 :]
    assert [translated[offset] for offset in newest] == [exact[offset] for offset in newest]


@pytest.mark.parametrize(("key", "value"), [(b"[1]", b"{}"), (b'["t", 0]', b"{}"), (b"x", b"{}")])
def test_what_is_no_state_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError):
        decode(key, value)
