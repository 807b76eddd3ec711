"""Sessions of users, with `transformWithState` in Python: topic `clicks` → topic `sessions`.

A session is the clicks of one customer with no more than half an hour between them, by the clicks' own time
and in whatever order they come. It is written, once, when no click can come any more that would belong to
it: when the watermark, a minute behind the newest click, has passed its end by half an hour.

It runs for ever, or (`--once`) until it has read what is there; started again, it goes on where its
checkpoint says, open sessions included.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from odradek.spark import session

CLICK = "customer string, page string, time_ms bigint"
SESSION = "customer string, start_ms bigint, end_ms bigint, clicks bigint"
GAP_MS = 30 * 60_000
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Sessions(StatefulProcessor):
    """The open sessions of a customer: (start, end, clicks), in order, with a timer for the end of each."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.open = handle.getListState("open", "start_ms bigint, end_ms bigint, clicks bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        sessions = [tuple(one) for one in self.open.get()] + [(row.time_ms, row.time_ms, 1) for row in rows]
        merged: list[Any] = []
        for start, end, clicks in sorted(sessions):
            if merged and start - merged[-1][1] <= GAP_MS:
                before = merged.pop()
                start, end, clicks = before[0], max(before[1], end), before[2] + clicks
            merged.append((start, end, clicks))
        self._keep(merged)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        now = timerValues.getCurrentWatermarkInMs()
        sessions = [tuple(one) for one in self.open.get()]
        self._keep([one for one in sessions if one[1] + GAP_MS > now])
        for start, end, clicks in sessions:
            if end + GAP_MS <= now:
                yield Row(customer=key[0], start_ms=start, end_ms=end, clicks=clicks)

    def _keep(self, sessions: list[Any]) -> None:
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        for _, end, _ in sessions:
            self.handle.registerTimer(end + GAP_MS)
        if sessions:
            self.open.put(sessions)
        else:
            self.open.clear()

    def close(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--checkpoint", default="sessions-checkpoint", help="folder")
    parser.add_argument("--once", action="store_true", help="read what is there, then end")
    args = parser.parse_args()

    spark = session(
        "sessions", "local[2]", conf={"spark.sql.streaming.stateStore.providerClass": STATE_STORE}
    )
    raw = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .load()
    )
    clicks = (
        raw.select(f.from_json(f.col("value").cast("string"), CLICK).alias("click"))
        .select("click.*", f.timestamp_millis("click.time_ms").alias("time"))
        .where("customer is not null and time is not null")
        .withWatermark("time", "1 minute")
    )
    sessions = clicks.groupBy("customer").transformWithState(
        statefulProcessor=Sessions(), outputStructType=SESSION, outputMode="append", timeMode="eventTime"
    )
    query = (
        sessions.select(f.col("customer").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .writeStream.format("odradek")
        .option("kafka.bootstrap.servers", args.servers)
        .option("topic", "sessions")
        .option("deliveryGuarantee", "exactly-once")
        .option("checkpointLocation", args.checkpoint)
        .trigger(**({"availableNow": True} if args.once else {"processingTime": "1 second"}))
        .start()
    )
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
