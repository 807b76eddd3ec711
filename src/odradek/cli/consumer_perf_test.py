"""`odradek consumer-perf-test`: kafka-consumer-perf-test."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    echo_lines,
    ignored_option,
    metric_lines,
    regular_expression,
)

if TYPE_CHECKING:
    from odradek import Consumer

HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
#: Letters of Java's SimpleDateFormat, and how strftime says the same.
DATE_LETTERS = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


@click.command(cls=Tool, name="consumer-perf-test")
@bootstrap_option("--broker-list")
@click.option("--topic", help="The topic to read.")
@click.option("--include", help="A regular expression for the topics to read.")
@click.option("--num-records", "--messages", "record_count", type=click.IntRange(0), required=True,
              help="How many records to read.")  # fmt: skip
@click.option("--group", help="The group; one of its own if left out.")
@click.option("--fetch-size", type=int, default=1024 * 1024, show_default=True, help="Bytes per partition.")
@click.option("--socket-buffer-size", type=int, default=2 * 1024 * 1024, show_default=True, help="Bytes.")
@click.option("--from-latest", is_flag=True, help="Begin with the latest record where nothing is committed.")
@click.option("--timeout", "timeout_ms", type=int, is_flag=False, flag_value=10_000, default=10_000,
              show_default=True, help="Milliseconds without a record after which to end.")  # fmt: skip
@click.option("--reporting-interval", type=click.IntRange(1), default=5000, show_default=True,
              help="Milliseconds.")  # fmt: skip
@click.option("--show-detailed-stats", is_flag=True, help="A line every reporting interval.")
@click.option("--hide-header", is_flag=True, help="No headline.")
@click.option("--date-format", default="yyyy-MM-dd HH:mm:ss:SSS", show_default=True,
              help="How times are written: Java's letters.")  # fmt: skip
@click.option("--print-metrics", is_flag=True, help="Print the consumer's metrics at the end.")
@click.option("--arrow", is_flag=True, help="Read columns (poll_arrow) instead of records.")
@click.option("--command-property", multiple=True, metavar="NAME=VALUE", help="A consumer config.")
@command_config_option("--consumer.config", "--command-config")
@ignored_option("--threads", "one thread reads")
@ignored_option("--num-fetch-threads", "one thread reads")
@ignored_option("--new-consumer", "there is no other any more", is_flag=True)
def command(
    bootstrap_server: str,
    topic: str | None,
    include: str | None,
    record_count: int,
    group: str | None,
    fetch_size: int,
    socket_buffer_size: int,
    from_latest: bool,
    timeout_ms: int,
    reporting_interval: int,
    show_detailed_stats: bool,
    hide_header: bool,
    date_format: str,
    print_metrics: bool,
    arrow: bool,
    command_property: tuple[str, ...],
    config_file: str | None,
) -> None:
    """Read records as fast as they come and tell the rate."""
    if (topic is None) == (include is None):
        raise click.UsageError("Exactly one of --include/--topic is required.")
    pattern = None if include is None else regular_expression(include)
    configs = client_configs(
        bootstrap_server,
        config_file,
        command_property,
        client_id="perf-consumer-client",
        group_id=group or f"perf-consumer-{uuid.uuid4().int % 100_000}",
        auto_offset_reset="latest" if from_latest else "earliest",
        max_partition_fetch_bytes=fetch_size,
        receive_buffer_bytes=socket_buffer_size,
        check_crcs=False,
    )
    from odradek import Consumer
    from odradek.cli.console_consumer import look_first

    look_first(configs, topic)
    if not hide_header:
        click.echo(
            HEADER if not show_detailed_stats else HEADER.replace("start.time, end.time", "time, threadId")
        )
    run = Run(record_count, timeout_ms, reporting_interval if show_detailed_stats else None, date_format)
    with Consumer(**configs) as consumer:
        consumer.subscribe([topic] if topic is not None else None, pattern=pattern)
        try:
            run.read(consumer, _columns if arrow else _records)
        finally:
            # After Ctrl-C, too: what has been measured until then is worth telling.
            run.report()
        if print_metrics:
            echo_lines(metric_lines(consumer.metrics()))


class Run:
    """One measurement.

    Args:
        record_count: how many records to read.
        timeout_ms: milliseconds without a record after which to end.
        reporting_ms: milliseconds between lines; None: one line at the end.
        date_format: how times are written.
    """

    def __init__(
        self, record_count: int, timeout_ms: int, reporting_ms: int | None, date_format: str
    ) -> None:
        self.record_count = record_count
        self.timeout_ms = timeout_ms
        self.reporting_ms = reporting_ms
        self.date_format = date_format
        self.count = self.size = 0
        self.began = time.time()
        #: Seconds until partitions were assigned; 0 until then.
        self.joined = 0.0

    def read(self, consumer: Consumer, poll: Callable[[Consumer], tuple[int, int]]) -> None:
        """Read until enough has come, or nothing comes any more."""
        self.began = last = shown = time.time()
        before = (0, 0, 0.0)
        while self.count < self.record_count:
            came, size = poll(consumer)
            now = time.time()
            if not self.joined and consumer.assignment():
                self.joined = now - self.began
            self.count, self.size = self.count + came, self.size + size
            if came:
                last = now
            elif (now - last) * 1000 > self.timeout_ms:
                click.echo(
                    "WARNING: Exiting before consuming the expected number of records: timeout "
                    f"({self.timeout_ms} ms) exceeded. You can use the --timeout option to increase the "
                    "timeout.",
                    err=True,
                )
                break
            if self.reporting_ms is not None and (now - shown) * 1000 >= self.reporting_ms:
                size, count, joined = before
                rates = _rates(now - shown, self.size - size, self.count - count, self.joined - joined)
                click.echo(line(f"{stamp(now, self.date_format)}, 0", self.size, self.count, rates))
                shown, before = now, (self.size, self.count, self.joined)

    def report(self) -> None:
        """Print the summary, unless there were lines on the way."""
        if self.reporting_ms is not None:
            return
        ended = time.time()
        seconds = ended - self.began
        times = f"{stamp(self.began, self.date_format)}, {stamp(ended, self.date_format)}"
        click.echo(
            line(times, self.size, self.count, _rates(seconds, self.size, self.count, self.joined or seconds))
        )


def _records(consumer: Consumer) -> tuple[int, int]:
    """One poll: (records, bytes)."""
    records = consumer.poll(timeout_ms=100)
    return len(records), sum(len(r.value or b"") + len(r.key or b"") for r in records)


def _columns(consumer: Consumer) -> tuple[int, int]:
    """One poll of columns: (records, bytes)."""
    import pyarrow.compute

    columns: Any = consumer.poll_arrow(timeout_ms=100)
    lengths = (pyarrow.compute.binary_length(columns.column(name)) for name in ("key", "value"))
    return columns.num_rows, sum(pyarrow.compute.sum(each).as_py() or 0 for each in lengths)


def _rates(seconds: float, size: int, count: int, joining: float) -> tuple[float, ...]:
    """MB and records per second, joining and fetching in ms, MB and records per second of fetching."""
    seconds = max(seconds, 1e-6)
    fetching = max(seconds - joining, 0.0)
    megabytes = size / 2**20
    per_fetching = (megabytes / fetching, count / fetching) if fetching >= 0.001 else (0.0, 0.0)
    return megabytes / seconds, count / seconds, joining * 1000, fetching * 1000, *per_fetching


def line(times: str, size: int, count: int, rates: tuple[float, ...]) -> str:
    """Kafka's line of figures; `size` in bytes, `rates` as `_rates` gives them."""
    per_second, records_per_second, joining_ms, fetching_ms, fetched_mb, fetched_records = rates
    return (
        f"{times}, {size / 2**20:.4f}, {per_second:.4f}, {count}, {records_per_second:.4f}, "
        f"{joining_ms:.0f}, {fetching_ms:.0f}, {fetched_mb:.4f}, {fetched_records:.4f}"
    )


def stamp(when: float, date_format: str) -> str:
    """A time of day, local, in the letters of Java's SimpleDateFormat; text in ' is copied."""
    moment = datetime.fromtimestamp(when)

    def word(match: re.Match[str]) -> str:
        text = match[0]
        if text.startswith("'"):
            return text[1:-1] or "'"
        if text == "SSS":
            return f"{moment.microsecond // 1000:03}"
        return moment.strftime(DATE_LETTERS[text])

    return re.sub("'[^']*'|SSS|" + "|".join(DATE_LETTERS), word, date_format)
