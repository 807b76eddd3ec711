"""What is cut away by time: nothing that is wanted, of any topic that a broker can have."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from odradek.client.errors import UnsupportedByBrokerError
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode, KafkaError, error_for
from odradek.spark.ranges import OffsetRange
from odradek.spark.where.cuts import CLOCKS_MS, cut, cut_and_tell, shown
from odradek.spark.where.parser import parse_where
from seeds import each_seed

TP = TopicPartition("t", 0)
BASE_MS = 10 * CLOCKS_MS


@dataclass
class Files:
    """A partition as a broker keeps it: files of (offset, timestamp, type), with the time of each file.

    Answers as Kafka does: the first file that may have such a record is looked into, and no other; a file
    without timestamps counts as written at its own time.
    """

    files: list[tuple[list[tuple[int, int, int]], int]]
    stamped: bool = False

    def not_before(self, time_ms: int) -> int | None:
        for records, written_ms in self.files:
            newest = max(time for _, time, _ in records)
            if (newest if newest >= 0 else written_ms) >= time_ms:
                return next((offset for offset, time, _ in records if time >= time_ms), None)
        return None

    def newest(self) -> int | None:
        newest = max(time for records, _ in self.files for _, time, _ in records)
        return newest if newest >= 0 else None

    @property
    def records(self) -> list[tuple[int, int, int]]:
        return [record for records, _ in self.files for record in records]


@dataclass
class Cluster:
    """Answers of brokers, and what was asked."""

    partitions: dict[TopicPartition, Files]
    release: int = 40
    without_index: frozenset[str] = frozenset()
    asked: list[str] = field(default_factory=list)

    def not_before(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        self.asked.append("not_before")
        if self.release < 10:
            raise UnsupportedByBrokerError("ListOffsets 1")
        if any(tp.topic in self.without_index for tp in times_ms):
            raise error_for(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "format 0")
        assert min(times_ms.values()) >= 0, "what is negative has another meaning"
        return {tp: self.partitions[tp].not_before(time_ms) for tp, time_ms in times_ms.items()}

    def newest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        self.asked.append("newest")
        if self.release < 30:
            raise UnsupportedByBrokerError("ListOffsets 7")
        return {tp: self.partitions[tp].newest() for tp in partitions}

    def stamped(self, topics: Iterable[str]) -> frozenset[str]:
        self.asked.append("stamped")
        if self.release < 11:
            raise UnsupportedByBrokerError("DescribeConfigs")
        return frozenset(tp.topic for tp, files in self.partitions.items() if files.stamped)

    def first_timestamp_types(self, ranges: Iterable[OffsetRange]) -> dict[TopicPartition, int]:
        self.asked.append("types")
        found = {}
        for r in ranges:
            kinds = [kind for offset, _, kind in self.partitions[r.tp].records if r.start <= offset < r.end]
            found |= {r.tp: kinds[0]} if kinds else {}
        return found


def some_files(rng: random.Random) -> Files:
    manner = rng.choice(("producers", "brokers", "turned", "without", "mixed"))
    files, offset, clock = [], rng.randrange(5), BASE_MS
    for number in range(rng.randrange(1, 6)):
        records = []
        for _ in range(rng.randrange(1, 6)):
            by_broker = manner == "brokers" or (manner == "turned" and number >= 2)
            clock += rng.randrange(CLOCKS_MS)
            if by_broker:
                # Clocks go back, but not by more than is said.
                time, kind = clock - rng.randrange(CLOCKS_MS // 2), 1
            elif manner == "without" or (manner == "mixed" and number % 2):
                time, kind = -1, 0
            else:
                time, kind = BASE_MS + rng.randrange(20 * CLOCKS_MS), 0
            records.append((offset, time, kind))
            offset += rng.randrange(1, 4)
        files.append((records, rng.choice((clock, 100 * CLOCKS_MS, 0))))
    return Files(files, stamped=manner in ("brokers", "turned"))


@each_seed(400)
def test_nothing_that_is_wanted_is_cut_away(seed: int) -> None:
    rng = random.Random(seed)
    names = ["a", "b", "c"]
    partitions = {TopicPartition(name, n): some_files(rng) for name in names for n in range(2)}
    cluster = Cluster(
        partitions,
        rng.choice((9, 10, 20, 30, 40)),
        frozenset(name for name in names if rng.random() < 0.2),
    )
    for tp, files in partitions.items():
        files.stamped = partitions[TopicPartition(tp.topic, 0)].stamped and files.stamped
    # A topic has one config for all its partitions.
    for name in names:
        both = partitions[TopicPartition(name, 0)].stamped and partitions[TopicPartition(name, 1)].stamped
        for n in range(2):
            partitions[TopicPartition(name, n)].stamped = both
    ranges = []
    for tp, files in partitions.items():
        offsets = [offset for offset, _, _ in files.records]
        start = rng.choice((offsets[0], rng.choice(offsets)))
        ranges.append(OffsetRange(tp, start, offsets[-1] + 1))
    low = BASE_MS + rng.randrange(-CLOCKS_MS, 25 * CLOCKS_MS)
    high = BASE_MS + rng.randrange(-CLOCKS_MS, 25 * CLOCKS_MS)
    text = rng.choice(
        (
            f"timestamp >= timestamp_millis({low})",
            f"timestamp < timestamp_millis({high})",
            f"timestamp between timestamp_millis({low}) and timestamp_millis({high})",
            f"timestamp = timestamp_millis({rng.choice(rng.choice(list(partitions.values())).records)[1]})",
            f"timestamp > timestamp_micros({low * 1000 - 1}) and partition = 1",
        )
    )
    where = parse_where(text, None)
    left = {r.tp: r for r in cut(ranges, where, cluster)}
    for r in ranges:
        kept = left.get(r.tp)
        if kept is not None:
            assert r.start <= kept.start < kept.end <= r.end, (seed, text)
        for offset, time, _ in partitions[r.tp].records:
            values = {"timestamp": time * 1000, "partition": r.tp.partition}
            wanted = all(c.holds(values[c.column]) for c in where.conditions)
            if r.start <= offset < r.end and wanted:
                assert kept is not None and kept.start <= offset < kept.end, (seed, text, r.tp, offset)


def hours(*times: int, kind: int = 0, first: int = 0) -> list[tuple[int, int, int]]:
    return [(first + number, BASE_MS + time * CLOCKS_MS, kind) for number, time in enumerate(times)]


def left_of(files: Files, condition: str, release: int = 40) -> tuple[int, int] | None:
    end = files.records[-1][0] + 1
    where = parse_where(condition, None)
    left = cut([OffsetRange(TP, 0, end)], where, Cluster({TP: files}, release))
    return (left[0].start, left[0].end) if left else None


def at(hour: float) -> str:
    return f"timestamp_millis({int(BASE_MS + hour * CLOCKS_MS)})"


def test_the_last_hours_are_read_from_where_they_begin() -> None:
    files = Files([(hours(0, 1, 2, 3, 4, 5), 0)])
    assert left_of(files, f"timestamp >= {at(4)}") == (4, 6)
    assert left_of(files, f"timestamp > {at(5)}") is None
    assert left_of(files, f"timestamp > {at(4)} and timestamp < {at(4)}") is None
    out_of_order = Files([(hours(0, 4, 2, 3, 1, 5), 0)])
    assert left_of(out_of_order, f"timestamp >= {at(3)}") == (1, 6)


def test_an_end_only_where_brokers_stamp_and_an_hour_of_clocks_later() -> None:
    records = hours(0, 1, 2, 3, 4, 5, kind=1)
    assert left_of(Files([(records, 0)], stamped=True), f"timestamp < {at(2)}") == (0, 3)
    assert left_of(Files([(records, 0)], stamped=False), f"timestamp < {at(2)}") == (0, 6)
    turned = hours(0, 1) + hours(2, 3, 4, 5, kind=1, first=2)
    assert left_of(Files([(turned, 0)], stamped=True), f"timestamp < {at(0)}") == (0, 6)
    assert left_of(Files([(turned, 0)], stamped=True), f"timestamp < {at(2)}") == (0, 3)
    assert left_of(Files([(turned, 0)], stamped=True), f"timestamp < {at(2)} and offset >= 3") is None
    assert left_of(Files([(records, 0)], stamped=True), f"timestamp < {at(2)}", release=10) == (0, 6)


def test_a_file_without_timestamps_hides_what_is_behind_it() -> None:
    """And the broker that knows no newest timestamp cannot tell."""
    hidden = Files([([(0, -1, 0)], BASE_MS + 99 * CLOCKS_MS), (hours(1, 7, first=1), 0)])
    assert hidden.not_before(BASE_MS + 7 * CLOCKS_MS) is None
    assert left_of(hidden, f"timestamp >= {at(7)}") == (0, 3)
    older = Files([(hours(1, 2), 0)])
    assert left_of(older, f"timestamp >= {at(7)}") is None
    assert left_of(older, f"timestamp >= {at(7)}", release=29) == (0, 2)
    assert left_of(older, f"timestamp >= {at(2)}", release=9) == (0, 2)


def test_times_before_the_epoch_ask_nobody() -> None:
    cluster = Cluster({TP: Files([(hours(1), 0)])})
    ranges = [OffsetRange(TP, 0, 1)]
    assert cut(ranges, parse_where("timestamp > timestamp_millis(-5)", None), cluster) == ranges
    assert cut(ranges, parse_where("timestamp < timestamp_millis(-5)", None), cluster) == ranges
    assert cluster.asked == []


def test_what_came_since_is_found() -> None:
    """The partition gets its first record of that time between two questions."""

    class Growing(Cluster):
        def newest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
            self.partitions[TP].files.append((hours(9, first=2), 0))
            return super().newest(partitions)

    cluster = Growing({TP: Files([(hours(0, 1), 0)])})
    where = parse_where(f"timestamp >= {at(9)}", None)
    assert cut([OffsetRange(TP, 0, 2)], where, cluster) == []
    assert cluster.asked == ["not_before", "newest", "not_before"]


def test_a_broker_that_cannot_be_asked_now_fails_the_query() -> None:
    class Broken(Cluster):
        def not_before(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, "t-0 has no leader")

    where = parse_where(f"timestamp >= {at(9)}", None)
    with pytest.raises(KafkaError, match="has no leader"):
        cut([OffsetRange(TP, 0, 2)], where, Broken({TP: Files([(hours(0, 1), 0)])}))


def test_it_is_told_what_was_cut(capsys: pytest.CaptureFixture[str]) -> None:
    files = Files([(hours(0, 1, 2, 3), 0)])
    where = parse_where(f"timestamp >= {at(2)}", None)
    cut_and_tell([OffsetRange(TP, 0, 4)], where, Cluster({TP: files}))
    assert capsys.readouterr().err == (
        f"odradek: read 2 of 4 offsets, 1 of 1 partitions: timestamp >= {at(2)}\n"
    )
    assert (shown(12_000), shown(9_123_456)) == ("12,000", "9.1 M")
