"""Stories of a log's time: it is rolled, retained, compacted, synced, and forgets producers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from odradek import Admin, Consumer
from odradek.testing import Broker
from waiting import gathered

from .in_hand import broker_in_hand, log, send, start

DAY_MS = 24 * 3_600_000


def topic(broker: Broker, name: str, **configs: str) -> None:
    broker.create_topic(name, configs={config.replace("_", "."): text for config, text in configs.items()})


def segments(broker: Broker, name: str) -> int:
    return int(log(broker, lambda partition_log: len(partition_log.segments), name))


def files(broker: Broker, name: str, pattern: str) -> list[Path]:
    assert broker.data is not None
    return list(broker.data.glob(f"{name}-0/{pattern}"))


def values(broker: Broker, name: str) -> list[bytes | None]:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(name, 0)])
        end = log(broker, lambda partition_log: partition_log.log_end_offset, name)
        records = gathered(
            lambda: consumer.poll(1), lambda: consumer.position((name, 0)) >= end, f"the end of {name}"
        )
        return [record.value for record in records]


def test_retention_ms() -> None:
    with broker_in_hand() as broker:
        topic(broker, "short", retention_ms="3600000")
        send(broker, topic="short")
        broker.advance(minutes=55)
        assert start(broker, "short") == 0
        # An hour, and the next `log.retention.check.interval.ms`, 5 minutes.
        broker.advance(minutes=10)
        assert start(broker, "short") == 1


def test_log_retention_hours_and_the_time_of_the_records() -> None:
    """What counts are the timestamps of records: here a client's, of two days ago."""
    with broker_in_hand(log_retention_hours=48) as broker:
        assert broker.clock is not None
        send(broker, timestamp_ms=broker.clock.now - timedelta(hours=47))
        broker.advance(minutes=55)
        assert start(broker) == 0
        broker.advance(minutes=10)
        assert start(broker) == 1


def test_a_record_of_a_client_is_old_when_the_brokers_time_is_ahead() -> None:
    """The client stamps it with its own time, unless it asks the clock, or the broker stamps it."""
    with broker_in_hand() as broker:
        assert broker.clock is not None
        topic(broker, "stamped", message_timestamp_type="LogAppendTime")
        broker.advance(days=30)
        send(broker)
        send(broker, topic="stamped")
        broker.advance(minutes=5)
        assert (start(broker), start(broker, "stamped")) == (1, 0)
        send(broker, timestamp_ms=broker.clock.now)
        broker.advance(days=6)
        assert start(broker) == 1


def test_segment_ms() -> None:
    with broker_in_hand() as broker:
        topic(broker, "rolled", segment_ms="3600000", message_timestamp_type="LogAppendTime")
        for minutes, count in ((0, 1), (59, 1), (2, 2)):
            broker.advance(minutes=minutes)
            send(broker, topic="rolled")
            assert segments(broker, "rolled") == count


def test_file_delete_delay_ms() -> None:
    with broker_in_hand() as broker:
        topic(broker, "short", retention_ms="1000", file_delete_delay_ms="60000")
        send(broker, topic="short")
        broker.advance(minutes=5)
        assert len(files(broker, "short", "*.log.deleted")) == 1
        broker.advance(seconds=59)
        assert len(files(broker, "short", "*.log.deleted")) == 1
        broker.advance(seconds=2)
        assert not files(broker, "short", "*.deleted")


def test_a_deleted_topics_folder_goes() -> None:
    with broker_in_hand() as broker:
        assert broker.data is not None
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_topics(["orders"])
        broker.advance(seconds=59)
        assert list(broker.data.glob("orders-0.*-delete"))
        broker.advance(seconds=2)
        assert not list(broker.data.glob("orders-0*"))


COMPACTED = {
    "cleanup_policy": "compact",
    "segment_ms": "3600000",
    "message_timestamp_type": "LogAppendTime",
    "min_cleanable_dirty_ratio": "1",
}


def test_max_compaction_lag_ms() -> None:
    """A log that is never dirty enough is compacted all the same when its records have waited for so long."""
    with broker_in_hand() as broker:
        topic(broker, "keys", **COMPACTED, max_compaction_lag_ms=f"{DAY_MS}")
        for value in (b"1", b"2"):
            send(broker, value, b"k", "keys")
        broker.advance(hours=2)
        send(broker, b"3", b"other", "keys")  # the records before it are in a segment of their own now
        broker.advance(hours=21)
        assert values(broker, "keys") == [b"1", b"2", b"3"]
        broker.advance(hours=3)
        assert values(broker, "keys") == [b"2", b"3"]


def test_min_compaction_lag_ms_and_log_cleaner_backoff_ms() -> None:
    with broker_in_hand(log_cleaner_backoff_ms=15_000) as broker:
        topic(
            broker,
            "keys",
            **COMPACTED | {"min_cleanable_dirty_ratio": "0"},
            min_compaction_lag_ms=f"{DAY_MS}",
        )
        for value in (b"1", b"2"):
            send(broker, value, b"k", "keys")
        broker.advance(hours=2)
        send(broker, b"3", b"other", "keys")
        broker.advance(hours=21)
        assert values(broker, "keys") == [b"1", b"2", b"3"]
        broker.advance(hours=1, seconds=15)
        assert values(broker, "keys") == [b"2", b"3"]


def test_delete_retention_ms() -> None:
    """A tombstone stays for so long after the pass that has seen it first."""
    with broker_in_hand() as broker:
        dirty = COMPACTED | {"min_cleanable_dirty_ratio": "0"}
        topic(broker, "keys", **dirty, delete_retention_ms=f"{DAY_MS}", max_compaction_lag_ms="3600000")
        send(broker, None, b"k", "keys")  # type: ignore[arg-type]
        broker.advance(hours=2)
        send(broker, b"1", b"other", "keys")
        broker.advance(hours=1)
        assert values(broker, "keys") == [None, b"1"]
        broker.advance(hours=25)
        send(broker, b"2", b"another", "keys")
        broker.advance(hours=2)
        assert values(broker, "keys") == [b"1", b"2"]


def test_flush_ms() -> None:
    with broker_in_hand() as broker:
        topic(broker, "synced", flush_ms="10000")
        send(broker, topic="synced")
        recovery_point = log(broker, lambda partition_log: partition_log.recovery_point, "synced")
        broker.advance(seconds=9)
        assert (
            log(broker, lambda partition_log: partition_log.recovery_point, "synced") == recovery_point == 0
        )
        broker.advance(seconds=2)
        assert log(broker, lambda partition_log: partition_log.recovery_point, "synced") == 1


def test_replica_high_watermark_checkpoint_interval_ms() -> None:
    with broker_in_hand() as broker:
        assert broker.data is not None
        checkpoint = broker.data / "replication-offset-checkpoint"
        send(broker)
        assert not checkpoint.exists() or "orders 0 1" not in checkpoint.read_text(encoding="utf-8")
        broker.advance(seconds=5)
        assert "orders 0 1" in checkpoint.read_text(encoding="utf-8")


def test_producer_id_expiration_ms() -> None:
    """A producer that has written nothing for a day is forgotten, at the next look (10 minutes)."""
    with broker_in_hand(log_retention_ms=-1) as broker:
        send(broker)

        def producers() -> int:
            return int(log(broker, lambda partition_log: len(partition_log.producers.entries)))

        assert producers() == 1
        broker.advance(hours=23, minutes=59)
        assert producers() == 1
        broker.advance(minutes=11)
        assert producers() == 0
