"""The options of the user's `.option(…)`, checked once and kept as data.

Names and meanings are those of Spark's Kafka connector, without regard to case; what it refuses is refused
here in like words. Unlike the connector, which ignores an option that it does not know, a misspelled one is
an error that names the nearest right one: a typo in `maxOffsetsPerTrigger` should not be found in production.

Pure: nothing here imports PySpark or talks to a broker. Every complaint is a `ValueError`.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odradek.client.types import TopicPartition
from odradek.spark.columns import BASE_COLUMNS, HEADERS, chosen_columns
from odradek.spark.formats import options as typed_options
from odradek.spark.kafka_configs import BOOTSTRAP_SERVERS, check_sink_configs, check_source_configs
from odradek.spark.offsets import (
    EARLIEST,
    LATEST,
    MOST_OFFSET,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    Limit,
    offsets_from_json,
    partitions_from_json,
    show,
    timestamps_from_json,
)
from odradek.spark.option_values import Given

if TYPE_CHECKING:
    from odradek.spark.formats.columns import TypedRead
    from odradek.spark.formats.options import SideOptions
    from odradek.spark.where.conditions import Where

STRATEGIES = ("assign", "subscribe", "subscribePattern")
# A batch passes over these, as the connector does; all else that has no meaning is refused.
STREAM_LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
ENDS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
SOURCE_OPTIONS = (
    *STRATEGIES,
    *ENDS,
    *STREAM_LIMITS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "minRecordsPerPartition",
    "includeHeaders",
    "columns",
    "where",
    # The connector's, and without effect: no group is joined here.
    "groupIdPrefix",
    "commitOffsetsToGroup",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    *typed_options.SOURCE_OPTIONS,
)
SINK_OPTIONS = (
    "topic",
    "includeHeaders",
    "deliveryGuarantee",
    "transactionalIdPrefix",
    "twoPhaseCommit",
    "writeId",
    "writeVersion",
    *typed_options.SINK_OPTIONS,
)
SPARK_OPTIONS = ("checkpointLocation", "queryName", "path", "outputMode")
"""Options of Spark's own that come along with a stream; they are not ours to judge."""


@dataclass(frozen=True)
class SourceOptions:
    """The topics to read, and how: the result of `parse_source`.

    Attributes:
        client: configs for the client, under Kafka's dotted names, without the `kafka.` prefix.
        topics, pattern, assigned: what to read; exactly one of them is set. `pattern` is Java's, and
            searched in names.
        start, end: where reading starts and, in a batch, ends.
        columns: the columns wanted, in order.
        latest_if_no_match: a starting timestamp after a partition's last record means its end; else an error.
        poll_timeout_ms: how long a task waits for records that should be there.
        fetch_offset_tries: how often the driver asks before it gives up, `fetch_offset_retry_interval_ms`
            apart.
        where: which rows are wanted; None: all.
        notes: warnings for the log.
        typed: the columns of a table whose keys or values are decoded (`formats`), in place of `columns`.
    """

    client: Mapping[str, str]
    start: Limit
    end: Limit
    columns: tuple[str, ...]
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[TopicPartition, ...] = ()
    latest_if_no_match: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    min_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60 * 1000
    poll_timeout_ms: int = 120_000
    fetch_offset_tries: int = 3
    fetch_offset_retry_interval_ms: int = 1000
    commit_offsets_to_group: str | None = None
    where: "Where | None" = None
    notes: tuple[str, ...] = ()
    typed: "TypedRead | None" = None

    @property
    def says_how_tasks_are_made(self) -> bool:
        """Return whether one of the options for the number and size of tasks was given."""
        given = (self.min_partitions, self.max_records_per_partition, self.min_records_per_partition)
        return any(limit is not None for limit in given)

    @property
    def description(self) -> str:
        """The topics and the servers, in the connector's words."""
        if self.pattern:
            chosen = f"SubscribePattern[{self.pattern}]"
        elif self.assigned:
            chosen = f"Assign{show(self.assigned)}"
        else:
            chosen = f"Subscribe[{', '.join(self.topics)}]"
        return f"{chosen} at {self.client[BOOTSTRAP_SERVERS]}"

    @property
    def with_headers(self) -> bool:
        return HEADERS in self.columns

    @property
    def group_id(self) -> str | None:
        """The group that finished batches are committed to, for those who watch lag; None: nowhere."""
        return self.commit_offsets_to_group or self.client.get("group.id")


@dataclass(frozen=True)
class SinkOptions:
    """The topic to write to: the result of `parse_sink`.

    Attributes:
        client: configs for the client, under Kafka's dotted names.
        topic: the topic of every row; None: each row's `topic` column says.
        exactly_once: whether rows are written in transactions.
        transactional_id_prefix: what all transactional ids, and the group with the decisions, begin with.
        two_phase_commit: whether transactions must never time out (KIP-939); None: where brokers allow it.
        write_id, write_version: a batch write that is run again under the same two is not written again.
        sides: how keys and values are encoded, for those that have a format.
    """

    client: Mapping[str, str]
    topic: str | None = None
    exactly_once: bool = False
    transactional_id_prefix: str = "odradek-spark"
    two_phase_commit: bool | None = None
    write_id: str | None = None
    write_version: int = 0
    sides: "Mapping[str, SideOptions]" = field(default_factory=dict)


def parse_source(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check the options of `spark.read` or `spark.readStream`.

    Raises:
        ValueError: one cannot be used; says what is wrong.
    """
    given = Given(options)
    given.refuse_unknown(SOURCE_OPTIONS, SPARK_OPTIONS)
    topics, pattern, assigned = _strategy(given)
    client = given.kafka()
    notes = check_source_configs(client, group_id_prefix="groupIdPrefix" in given)
    if streaming:
        _refuse_ends(given)
    start = _limit(given, "starting", Latest() if streaming else Earliest())
    end = _limit(given, "ending", Latest())
    if not streaming:
        _check_batch_limits(start, end)
        notes += [f"{name} option ignored in batch queries" for name in STREAM_LIMITS if name in given]
    least, most = _offsets_per_trigger(given)
    smallest, largest = _records_per_partition(given)
    # 0 is a value of its own here, as it is of none of the others.
    retry_interval_ms = given.integer("fetchOffset.retryIntervalMs", 0)
    return SourceOptions(
        client=client,
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=start,
        end=end,
        columns=_columns(given),
        latest_if_no_match=given.choice("startingOffsetsByTimestampStrategy", ("error", "latest"))
        == "latest",
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        min_partitions=given.integer("minPartitions", 1),
        max_records_per_partition=largest,
        min_records_per_partition=smallest,
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=given.duration_ms("maxTriggerDelay", 15 * 60 * 1000),
        poll_timeout_ms=given.integer("kafkaConsumer.pollTimeoutMs", 1) or 120_000,
        fetch_offset_tries=given.integer("fetchOffset.numRetries", 1) or 3,
        fetch_offset_retry_interval_ms=1000 if retry_interval_ms is None else retry_interval_ms,
        commit_offsets_to_group=_commit_group(given, client),
        where=_where(given, streaming),
        notes=tuple(notes),
    )


def _offsets_per_trigger(given: Given) -> tuple[int | None, int | None]:
    """The least and the most offsets of a micro-batch.

    Raises:
        ValueError: they do not go together; in Spark's words.
    """
    least, most = given.integer("minOffsetsPerTrigger", 1), given.integer("maxOffsetsPerTrigger", 1)
    if least is not None and most is not None and least > most:
        raise ValueError(
            f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."
        )
    return least, most


def _records_per_partition(given: Given) -> tuple[int | None, int | None]:
    """The fewest and the most records of a task.

    Raises:
        ValueError: they do not go together.
    """
    fewest, most = given.integer("minRecordsPerPartition", 1), given.integer("maxRecordsPerPartition", 1)
    if fewest is not None and most is not None and fewest > most:
        raise ValueError(f"minRecordsPerPartition ({fewest}) is higher than maxRecordsPerPartition ({most}).")
    return fewest, most


def _where(given: Given, streaming: bool) -> "Where | None":
    text = given.text("where")
    if text is None:
        return None
    # Imported here: a read without conditions does not need it, and starts sooner.
    from odradek.spark.where.parser import parse_where

    # A stream has no `now()`: it would stand still at the stream's start.
    return parse_where(text, None if streaming else time.time_ns() // 1000)


def _columns(given: Given) -> tuple[str, ...]:
    """The columns to read of a topic without formats; `formats.columns` chooses those of a typed read."""
    # Called for what it refuses: mistakes are told at `load()`, not by a task.
    typed_options.source_sides(given)
    if typed_options.wants_types(given):
        return BASE_COLUMNS
    return chosen_columns(given.text("columns"), given.boolean("includeHeaders", False))


def _commit_group(given: Given, client: Mapping[str, str]) -> str | None:
    group = given.text("commitOffsetsToGroup")
    # `kafka.group.id` says the same, for those who come from the connector.
    if group == "":
        raise ValueError("commitOffsetsToGroup must name a group, got an empty name")
    if group is not None and client.get("group.id", group) != group:
        raise ValueError("commitOffsetsToGroup and kafka.group.id name two groups; one of them is enough")
    return group


def parse_sink(options: Mapping[str, str]) -> SinkOptions:
    """Check the options of `df.write` or `df.writeStream`.

    Raises:
        ValueError: one cannot be used; says what is wrong.
    """
    given = Given(options)
    given.refuse_unknown(SINK_OPTIONS, SPARK_OPTIONS)
    client = given.kafka()
    check_sink_configs(client)
    topic = given.text("topic")
    if topic == "":
        raise ValueError("topic must name a topic, got an empty name")
    exactly_once = given.choice("deliveryGuarantee", ("at-least-once", "exactly-once")) == "exactly-once"
    # Who gives these expects transactions, which there would be none of.
    if not exactly_once:
        for name in ("transactionalIdPrefix", "twoPhaseCommit", "writeId", "writeVersion"):
            if name in given:
                raise ValueError(f"{name} has a meaning with deliveryGuarantee 'exactly-once' only")
    prefix = _id_part(given, "transactionalIdPrefix") or "odradek-spark"
    write_id = _id_part(given, "writeId")
    if write_id is None and "writeVersion" in given:
        raise ValueError("writeVersion counts the writes of a writeId, which is missing")
    two_phase = given.choice("twoPhaseCommit", ("auto", "true", "false"))
    return SinkOptions(
        client,
        topic,
        exactly_once,
        prefix,
        None if two_phase == "auto" else two_phase == "true",
        write_id,
        given.integer("writeVersion", 0) or 0,
        typed_options.sink_sides(given),
    )


def _id_part(given: Given, name: str) -> str | None:
    text = given.text(name)
    # The colon parts ids of tasks and further groups from the query's (`coordinators.SEPARATOR`).
    if text == "" or (text is not None and ":" in text):
        raise ValueError(f"{name} must be a name without ':', got {text!r}")
    return text


def _strategy(given: Given) -> tuple[tuple[str, ...], str, tuple[TopicPartition, ...]]:
    """(topics, pattern, assigned): one of them, the others empty."""
    chosen = [name for name in STRATEGIES if name in given]
    # The sentences are the connector's: scripts and people look for them.
    if len(chosen) != 1:
        number = "One" if not chosen else "Only one"
        verb = "must" if not chosen else "can"
        raise ValueError(
            f"{number} of the following options {verb} be specified for Kafka source: "
            f"{', '.join(STRATEGIES)}. See the docs for more details."
        )
    value = given.text(chosen[0]) or ""
    if chosen == ["subscribe"]:
        # A topic that is named twice is read once.
        topics = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        if not topics:
            raise ValueError(
                f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'"
            )
        return topics, "", ()
    if chosen == ["subscribePattern"]:
        if not value:
            raise ValueError(
                "Pattern to subscribe is empty as specified value for option 'subscribePattern' is ''"
            )
        from odradek.util.java_regex import JavaPatternError, compile_java

        # Compiled for its errors alone: the text travels to who looks for topics.
        try:
            compile_java(value)
        except JavaPatternError as error:
            raise ValueError(
                f"subscribePattern is not a regular expression of Java's, as far as it is known here: {error}"
            ) from None
        return (), value, ()
    partitions = partitions_from_json(value) if value.startswith("{") else []
    if not partitions:
        raise ValueError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
    return (), "", tuple(partitions)


def _limit(given: Given, side: str, default: Limit) -> Limit:
    """One end of the read; a timestamp for all wins over timestamps by partition, and those over offsets.

    The order is that of the connector's `KafkaSourceProvider.getKafkaOffsetRangeLimit`.
    """
    timestamp = given.text(f"{side}Timestamp")
    if timestamp is not None:
        # What Java's `Long.parseLong` takes: no blanks and no underscores, which Python's `int` does.
        if not re.fullmatch(r"[+-]?\d{1,19}", timestamp):
            raise ValueError(f"Expected a single long value, got {timestamp}")
        return AtTimestamp(_time_ms(f"{side}Timestamp", int(timestamp)))
    timestamps = given.text(f"{side}OffsetsByTimestamp")
    if timestamps is not None:
        times = timestamps_from_json(timestamps)
        return AtTimestamps(
            {tp: _time_ms(f"{side}OffsetsByTimestamp for {tp}", time_ms) for tp, time_ms in times.items()}
        )
    offsets = given.text(f"{side}Offsets")
    if offsets is None:
        return default
    if offsets.lower() == "earliest":
        return Earliest()
    if offsets.lower() == "latest":
        return Latest()
    parsed = offsets_from_json(offsets)
    for tp, offset in parsed.items():
        if offset < EARLIEST:
            raise ValueError(f"{side}Offsets for {tp} is {offset}; use -1 for latest, -2 for earliest")
    return AtOffsets(parsed)


def _time_ms(option: str, time_ms: int) -> int:
    """Return a time that a broker can be asked for.

    Raises:
        ValueError: a broker cannot be asked for it.
    """
    # Negative times ask ListOffsets for the end, the beginning, the newest record, and more.
    if not 0 <= time_ms <= MOST_OFFSET:
        raise ValueError(f"{option} is {time_ms}; it is milliseconds since 1970, from 0 to {MOST_OFFSET}")
    return time_ms


def _refuse_ends(given: Given) -> None:
    # Told when a query begins: `load()` does not know yet whether it will be a stream.
    for name in ENDS:
        if name in given:
            kind = "offset" if name == "endingOffsets" else "timestamp"
            raise ValueError(f"ending {kind} not valid in streaming queries")


def _check_batch_limits(start: Limit, end: Limit) -> None:
    """Refuse a batch that starts at the end, ends at the start, or ends before it starts."""
    if isinstance(start, Latest):
        raise ValueError("starting offset can't be latest for batch queries on Kafka")
    if isinstance(end, Earliest):
        raise ValueError("ending offset can't be earliest for batch queries on Kafka")
    starts = start.offsets if isinstance(start, AtOffsets) else {}
    ends = end.offsets if isinstance(end, AtOffsets) else {}
    for tp, offset in starts.items():
        if offset == LATEST:
            raise ValueError(f"startingOffsets for {tp} can't be latest for batch queries on Kafka")
    for tp, offset in ends.items():
        if offset == EARLIEST:
            raise ValueError(f"ending offset for {tp} can't be earliest for batch queries on Kafka")
    if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
        _check_order(starts, ends, "offset")
    if isinstance(start, AtTimestamps) and isinstance(end, AtTimestamps):
        _check_order(start.timestamps, end.timestamps, "timestamp")


def _check_order(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], kind: str) -> None:
    if starts.keys() != ends.keys():
        raise ValueError(
            f"The specified start {kind} and end {kind} should have the same topic-partitions. "
            f"Topic-partitions for start {kind}: {show(starts)}, topic-partitions for end {kind}: "
            f"{show(ends)}."
        )
    for tp, start in starts.items():
        end = ends[tp]
        # -1 and -2 stand for offsets that are not known yet.
        if start >= 0 and end >= 0 and start > end:
            raise ValueError(
                f"The specified start {kind} {start} is greater than the end {kind} {end} for topic "
                f"{tp.topic} partition {tp.partition}."
            )
