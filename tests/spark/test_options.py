"""What `.option(…)` accepts, and how it complains."""

from typing import Any

import pytest

from odradek.client.types import TopicPartition
from odradek.spark.offsets import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest
from odradek.spark.option_values import duration_ms
from odradek.spark.options import parse_sink, parse_source

MINIMAL = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}


def source(streaming: bool = True, **options: str) -> Any:
    return parse_source(
        {**MINIMAL, **{n.replace("__", "."): v for n, v in options.items()}}, streaming=streaming
    )


def refused(options: dict[str, str], streaming: bool = True) -> str:
    with pytest.raises(ValueError) as caught:
        parse_source(options, streaming=streaming)
    return str(caught.value)


def test_defaults_are_the_connectors() -> None:
    stream, batch = source(), source(streaming=False)
    assert (stream.start, batch.start, batch.end) == (Latest(), Earliest(), Latest())
    assert stream.fail_on_data_loss
    assert stream.max_trigger_delay_ms == 15 * 60 * 1000
    assert (stream.fetch_offset_tries, stream.fetch_offset_retry_interval_ms) == (3, 1000)
    assert stream.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def test_case_does_not_matter() -> None:
    options = parse_source(
        {"KAFKA.Bootstrap.Servers": "x:1", "SUBSCRIBE": "a, b,,a", "MAXoffsetsPERtrigger": "7"},
        streaming=True,
    )
    assert options.topics == ("a", "b")
    assert options.max_offsets_per_trigger == 7
    assert options.client == {"bootstrap.servers": "x:1"}


def test_exactly_one_way_of_choosing_topics() -> None:
    servers = {"kafka.bootstrap.servers": "x:1"}
    assert "One of the following options must be specified for Kafka source: assign" in refused(servers)
    both = {**servers, "subscribe": "a", "assign": '{"a":[0]}'}
    assert refused(both).startswith("Only one of the following")
    assert "No topics to subscribe to" in refused({**servers, "subscribe": " , "})
    assert "Pattern to subscribe is empty" in refused({**servers, "subscribePattern": " "})
    assert "not a regular expression" in refused({**servers, "subscribePattern": "a("})
    assert "No topicpartitions to assign" in refused({**servers, "assign": "a-0"})
    assert parse_source({**servers, "assign": '{"a":[1,0]}'}, streaming=True).assigned == (("a", 0), ("a", 1))


def test_what_is_read_in_words() -> None:
    servers = {"kafka.bootstrap.servers": "x:1,y:2"}
    told = [
        parse_source({**servers, **chosen}, streaming=True).description
        for chosen in ({"subscribe": "a,b"}, {"subscribePattern": "a.*"}, {"assign": '{"a":[1,0]}'})
    ]
    assert told == [
        "Subscribe[a, b] at x:1,y:2",
        "SubscribePattern[a.*] at x:1,y:2",
        "Assign[a-0, a-1] at x:1,y:2",
    ]


def test_servers_are_required() -> None:
    assert "'kafka.bootstrap.servers' must be specified" in refused({"subscribe": "t"})


@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "enable.auto.commit",
        "interceptor.classes",
    ],
)
def test_client_configs_that_would_break_the_source_are_refused(name: str) -> None:
    assert f"Kafka option '{name}' is not supported" in refused({**MINIMAL, f"kafka.{name}": "x"})


def test_a_group_id_is_taken_with_a_warning() -> None:
    options = source(kafka__group__id="g", groupIdPrefix="p")
    assert options.group_id == "g"
    assert [("kafka.group.id" in note) for note in options.notes] == [True, True]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("startingOffset", "startingOffsets"),
        ("topics", None),
    ],
)
def test_an_unknown_option_is_refused_and_the_nearest_named(wrong: str, right: str | None) -> None:
    message = refused({**MINIMAL, wrong: "1"})
    assert f"Unknown option '{wrong.lower()}'" in message
    assert right is None or f"did you mean '{right}'?" in message


def test_sparks_own_options_pass() -> None:
    source(checkpointLocation="/tmp/x", queryName="q")


def test_where_to_start() -> None:
    assert source(startingOffsets="EARLIEST").start == Earliest()
    assert source(startingOffsets='{"t":{"0":5}}').start == AtOffsets({TopicPartition("t", 0): 5})
    assert source(startingTimestamp="12").start == AtTimestamp(12)
    assert source(startingOffsetsByTimestamp='{"t":{"0":5}}').start == AtTimestamps(
        {TopicPartition("t", 0): 5}
    )
    # The more special option wins, as in the connector.
    assert source(startingOffsets="earliest", startingTimestamp="12").start == AtTimestamp(12)
    assert source(startingOffsetsByTimestampStrategy="latest").latest_if_no_match
    assert "Expected a single long value" in refused({**MINIMAL, "startingTimestamp": "noon"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # -1 and -2 ask a broker for the end and the beginning, -3 for the newest record.
        ({"startingTimestamp": "-1"}, "startingTimestamp is -1; it is milliseconds since 1970"),
        ({"startingTimestamp": str(2**63)}, "startingTimestamp is 9223372036854775808; it is"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-3}}'}, "startingOffsetsByTimestamp for t-0 is -3"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":9223372036854775808}}'}, "offsets and times up to"),
        ({"startingOffsets": '{"t":{"0":9223372036854775808}}'}, "offsets and times up to"),
        ({"startingOffsets": '{"t":{"2147483648":0}}'}, "partitions are numbers up to 2147483647"),
        ({"maxOffsetsPerTrigger": str(2**63)}, "maxOffsetsPerTrigger must be at most"),
    ],
)
def test_numbers_that_kafka_cannot_write(options: dict[str, str], message: str) -> None:
    assert message in refused({**MINIMAL, **options})


def test_partitions_that_kafka_cannot_number() -> None:
    servers = {"kafka.bootstrap.servers": "x:1"}
    assert "t-2147483648: partitions are" in refused({**servers, "assign": '{"t":[2147483648]}'})
    assert "use -1 for latest" in refused({**MINIMAL, "startingOffsets": '{"t":{"0":-3}}'})
    assert "must be one of error, latest" in refused(
        {**MINIMAL, "startingOffsetsByTimestampStrategy": "skip"}
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest"),
        (
            {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":8}}'},
            "start offset 9 is greater than the end offset 8 for topic t partition 0",
        ),
        (
            {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"1":18}}'},
            "should have the same topic-partitions",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":9}}', "endingOffsetsByTimestamp": '{"t":{"0":8}}'},
            "start timestamp 9 is greater than the end timestamp 8",
        ),
    ],
)
def test_a_batch_has_a_start_and_an_end(options: dict[str, str], message: str) -> None:
    assert message in refused({**MINIMAL, **options}, streaming=False)


def test_a_stream_has_no_end() -> None:
    assert "ending offset not valid" in refused({**MINIMAL, "endingOffsets": "latest"})
    assert "ending timestamp not valid" in refused({**MINIMAL, "endingTimestamp": "5"})


def test_limits_are_numbers_that_make_sense() -> None:
    assert refused({**MINIMAL, "minPartitions": "0"}) == "minPartitions must be positive"
    many = {**MINIMAL, "maxOffsetsPerTrigger": "many"}
    assert "maxOffsetsPerTrigger must be a whole number" in refused(many)
    assert "minOffsetPerTrigger(9) is higher than the maxOffsetsPerTrigger(8)" in refused(
        {**MINIMAL, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}
    )
    assert "failOnDataLoss must be true or false" in refused({**MINIMAL, "failOnDataLoss": "0"})


def test_stream_limits_in_a_batch_are_noted() -> None:
    assert source(streaming=False, maxOffsetsPerTrigger="5").notes == (
        "maxOffsetsPerTrigger option ignored in batch queries",
    )


def test_columns() -> None:
    assert source(columns="VALUE, offset").columns == ("value", "offset")
    assert source(includeHeaders="true").with_headers
    assert source(includeHeaders="true", columns="value").columns == ("value", "headers")
    assert "no column 'valu'" in refused({**MINIMAL, "columns": "valu"})
    assert "named twice" in refused({**MINIMAL, "columns": "value,value"})


def test_durations() -> None:
    assert [duration_ms(text) for text in ("15m", "200ms", "3s", "1h", "40", "2 min")] == [
        900_000,
        200,
        3_000,
        3_600_000,
        40,
        120_000,
    ]
    assert "maxTriggerDelay: Time must be specified" in refused({**MINIMAL, "maxTriggerDelay": "soon"})


def test_sinks() -> None:
    options = parse_sink({"kafka.bootstrap.servers": "x:1", "Topic": " t ", "kafka.linger.ms": "5"})
    assert options.topic == "t"
    assert options.client == {"bootstrap.servers": "x:1", "linger.ms": "5"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'kafka.bootstrap.servers' must be specified for configuring Kafka producer"),
        ({"kafka.key.serializer": "x"}, "'key.serializer' is not supported"),
        ({"kafka.value.serializer": "x"}, "'value.serializer' is not supported"),
        ({"kafka.transactional.id": "x"}, "'transactional.id' is not supported"),
        ({"tpic": "x"}, "did you mean 'topic'?"),
        ({"kafka.bootstrap.servers": "x:1", "topic": " "}, "topic must name a topic"),
    ],
)
def test_sinks_refuse(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_sink(options)
    assert message in str(caught.value)
