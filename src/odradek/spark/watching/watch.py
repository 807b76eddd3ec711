"""`watch(query)`: how a streaming query is doing, in a terminal or a notebook, until it ends."""

from typing import TYPE_CHECKING, Any

from odradek.spark.watching.progress import Sight, sight_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PARTITIONS = 10
"""How many partitions are shown, those that are behind most."""
_STEPS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


def watch(query: Any, *, every_s: float = 1.0, console: "Console | None" = None) -> None:
    """Show a query's rates, the time of its last trigger, and how far it is behind, until it ends.

    Ctrl-C (in a notebook: interrupt) ends the watching, and leaves the query alone.

    Args:
        query: a `StreamingQuery`, of Spark Connect too.
        every_s: how often to look (seconds).
        console: where to; by default the terminal or the notebook's cell.

    Raises:
        Exception: what the query failed with, Spark's `StreamingQueryException`.
    """
    from rich.live import Live

    with Live(shown(query), console=console, auto_refresh=False) as live:
        try:
            while not query.awaitTermination(every_s):
                live.update(shown(query), refresh=True)
        except KeyboardInterrupt:
            return
        finally:
            live.update(shown(query), refresh=True)


def shown(query: Any) -> "RenderableType":
    """Return what `watch` shows of a query now."""
    from rich.console import Group

    state = query.status["message"] if query.isActive else "ended"
    progress = query.lastProgress
    head = f"[bold]{query.name or query.id}[/bold]  {state}"
    if progress is None:
        return Group(head, "no batch yet")
    sight = sight_of(progress)
    return Group(head, *_of(sight))


def _of(sight: Sight) -> "list[RenderableType]":
    from rich.table import Table

    steps = "  ".join(f"{step} {sight.step_ms[step]:,}" for step in _STEPS if step in sight.step_ms)
    lines: list[RenderableType] = [
        f"batch {sight.batch_id}: {sight.rows:,} rows in {sight.took_ms:,} ms ({steps})",
        sight.rates,
    ]
    if not sight.behind:
        return lines
    table = Table("topic", "partition", "behind")
    furthest = sorted(sight.behind.items(), key=lambda item: (-item[1], item[0]))
    for tp, behind in furthest[:_PARTITIONS]:
        table.add_row(tp.topic, str(tp.partition), f"{behind:,}")
    left = len(furthest) - _PARTITIONS
    if left > 0:
        table.add_row(f"{left:,} more", "", f"{sum(behind for _, behind in furthest[_PARTITIONS:]):,}")
    total = sum(sight.behind.values())
    return [*lines, f"behind by {total:,} records in {len(furthest):,} partitions", table]
