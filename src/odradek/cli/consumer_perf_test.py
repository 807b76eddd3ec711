"""`odradek consumer-perf-test`: kafka-consumer-perf-test."""

from __future__ import annotations

import time
import uuid
from datetime import datetime

import click

from odradek.cli.tool import Tool, bootstrap_option, client_configs, command_config_option

HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


@click.command(cls=Tool, name="consumer-perf-test")
@bootstrap_option("--broker-list")
@click.option("--topic", required=True, help="The topic to read.")
@click.option(
    "--messages", "--num-records", "wanted", type=int, required=True, help="How many records to read."
)
@click.option("--group", help="The group; one of its own if left out.")
@click.option("--fetch-size", type=int, default=1024 * 1024, show_default=True, help="Bytes per partition.")
@click.option("--socket-buffer-size", type=int, default=2 * 1024 * 1024, show_default=True, help="Bytes.")
@click.option("--from-latest", is_flag=True, help="Begin with the latest record where nothing is committed.")
@click.option("--timeout", "timeout_ms", type=int, default=10_000, show_default=True,
              help="Milliseconds without a record after which to end.")  # fmt: skip
@click.option("--reporting-interval", type=int, default=5000, show_default=True, help="Milliseconds.")
@click.option("--show-detailed-stats", is_flag=True, help="Also a line every reporting interval.")
@click.option("--hide-header", is_flag=True, help="No headline.")
@click.option("--print-metrics", is_flag=True, help="Print the consumer's metrics at the end.")
@click.option("--arrow", is_flag=True, help="Read columns (poll_arrow) instead of records.")
@command_config_option("--consumer.config", "--command-config")
def command(
    bootstrap_server: str,
    topic: str,
    wanted: int,
    group: str | None,
    fetch_size: int,
    socket_buffer_size: int,
    from_latest: bool,
    timeout_ms: int,
    reporting_interval: int,
    show_detailed_stats: bool,
    hide_header: bool,
    print_metrics: bool,
    arrow: bool,
    config_file: str | None,
) -> None:
    """Read records as fast as they come and tell the rate."""
    from odradek import Consumer

    configs = client_configs(
        bootstrap_server,
        config_file,
        client_id="perf-consumer-client",
        group_id=group or f"perf-consumer-{uuid.uuid4().int % 100_000}",
        auto_offset_reset="latest" if from_latest else "earliest",
        max_partition_fetch_bytes=fetch_size,
        receive_buffer_bytes=socket_buffer_size,
        check_crcs=False,
    )
    count = size = 0
    began = last = time.time()
    shown_at, shown_count, shown_size = began, 0, 0
    joined: float | None = None
    if not hide_header:
        click.echo(
            HEADER if not show_detailed_stats else HEADER.replace("start.time, end.time", "time, threadId")
        )
    with Consumer(topic, **configs) as consumer:
        while count < wanted:
            if arrow:
                columns = consumer.poll_arrow(timeout_ms=100)
                came = columns.num_rows
                size += sum(columns.column(name).nbytes for name in ("key", "value"))
            else:
                records = consumer.poll(timeout_ms=100)
                came = len(records)
                size += sum(len(r.value or b"") + len(r.key or b"") for r in records)
            now = time.time()
            if joined is None and consumer.assignment():
                joined = now
            if came:
                last = now
                count += came
            elif (now - last) * 1000 > timeout_ms:
                click.echo(
                    "WARNING: Exiting before consuming the expected number of messages: timeout "
                    f"({timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout.",
                    err=True,
                )
                break
            if show_detailed_stats and (now - shown_at) * 1000 >= reporting_interval:
                click.echo(
                    _line(f"{_stamp(now)}, 0", now - shown_at, size - shown_size, count - shown_count, 0.0)
                )
                shown_at, shown_count, shown_size = now, count, size
        ended = time.time()
        if not show_detailed_stats:
            rebalance = (joined or ended) - began
            click.echo(_line(f"{_stamp(began)}, {_stamp(ended)}", ended - began, size, count, rebalance))
        if print_metrics:
            for name, metric in sorted(consumer.metrics().items()):
                click.echo(f"{name:<60}: {metric}")


def _line(times: str, seconds: float, size: int, count: int, rebalance_s: float) -> str:
    """Kafka's line of figures; `size` in bytes."""
    fetching = max(seconds - rebalance_s, 1e-9)
    megabytes = size / 2**20
    return (
        f"{times}, {megabytes:.4f}, {megabytes / seconds:.4f}, {count}, {count / seconds:.4f}, "
        f"{rebalance_s * 1000:.0f}, {fetching * 1000:.0f}, {megabytes / fetching:.4f}, {count / fetching:.4f}"
    )


def _stamp(when: float) -> str:
    return datetime.fromtimestamp(when).strftime("%Y-%m-%d %H:%M:%S:%f")[:-3]
