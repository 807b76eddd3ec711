"""`python -m odradek.demo`: what `make demo` runs."""

import signal
import sys
from pathlib import Path

import click
from rich.console import Console

from odradek.demo.run import run


@click.command()
@click.option("--seconds", default=75.0, show_default=True, help="How long events are produced.")
@click.option(
    "--data",
    default="demo-data",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Kept from one run to the next: the broker's log, Spark's checkpoint, the results.",
)
@click.option("--window", default=5, show_default=True, help="Seconds of a window.")
def main(seconds: float, data: Path, window: int) -> None:
    """A broker, two feeds of real events, a Spark query that windows them, and a check of the counts."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(Console(), data.absolute(), seconds, window))


if __name__ == "__main__":
    main()
