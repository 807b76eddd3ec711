"""The option `where`: which rows a read gives, as data. Pure, but for the rows, which are Arrow's.

Conditions that are joined by AND, so each of them may narrow a read by itself: by topic and partition whole
ranges fall away, by offset they get shorter, and by time `cuts.py` asks the brokers. What a range still
holds that the conditions do not want is taken out of its rows, so the result is exactly the rows that
Spark's own filter would have left. `parser.py` reads the text.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from odradek.client.types import TopicPartition
from odradek.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("topic", "partition", "offset", "timestamp")

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
    "not in": lambda value, values: value not in values,
}
_ARROW = {"=": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal"}
_ARROW |= {">": "greater", ">=": "greater_equal"}


@dataclass(frozen=True)
class Condition:
    """A column, an operator and what it is compared with.

    Attributes:
        values: topic names, numbers, or microseconds since the epoch; one, or several for `in` and `not in`.
    """

    column: str
    operator: str
    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Return whether it holds for a value of the column."""
        operand = self.values if self.operator.endswith("in") else self.values[0]
        return OPERATORS[self.operator](value, operand)

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The least value for which it can hold, and the one after the greatest; None: unbounded."""
        match self.operator:
            case "=" | "in":
                return min(self.values), max(self.values) + 1
            case "<":
                return None, self.values[0]
            case "<=":
                return None, self.values[0] + 1
            case ">":
                return self.values[0] + 1, None
            case ">=":
                return self.values[0], None
        return None, None


@dataclass(frozen=True)
class Where:
    """Conditions all of which have to hold; `text` is what the user wrote."""

    text: str
    conditions: tuple[Condition, ...]

    def narrowed(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """`ranges` without what the conditions on topic, partition and offset rule out."""
        least, end = self._bounds("offset")
        narrowed = []
        for r in ranges:
            if not self._selects(r.tp):
                continue
            start = r.start if least is None else max(r.start, least)
            until = r.end if end is None else min(r.end, end)
            if start < until:
                narrowed.append(replace(r, start=start, end=until))
        return narrowed

    @property
    def times_us(self) -> tuple[int | None, int | None]:
        """The least timestamp wanted and the one after the greatest (µs since the epoch); None: unbounded."""
        return self._bounds("timestamp")

    @property
    def times_are_compared(self) -> bool:
        """Return whether a condition is on the timestamp."""
        return any(c.column == "timestamp" for c in self.conditions)

    def rows(self, rows: "pa.RecordBatch") -> "pa.RecordBatch":
        """The rows, of a range that is `narrowed`, for which all conditions hold.

        `rows` has columns `offset` (int64) and `timestamp` (timestamp in µs).
        """
        import pyarrow.compute as pc

        masks = [
            _holds(condition, rows)
            for condition in self.conditions
            if condition.column in ("offset", "timestamp")
        ]
        return rows.filter(reduce(pc.and_, masks)) if masks else rows

    def _selects(self, tp: TopicPartition) -> bool:
        values = {"topic": tp.topic, "partition": tp.partition}
        return all(c.holds(values[c.column]) for c in self.conditions if c.column in values)

    def _bounds(self, column: str) -> tuple[int | None, int | None]:
        bounds = [c.bounds for c in self.conditions if c.column == column]
        least = [low for low, _ in bounds if low is not None]
        ends = [high for _, high in bounds if high is not None]
        return max(least, default=None), min(ends, default=None)


def _holds(condition: Condition, rows: "pa.RecordBatch") -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = rows.column(condition.column)
    if condition.column == "timestamp":
        column = column.view(pa.int64())
    if condition.operator in _ARROW:
        return getattr(pc, _ARROW[condition.operator])(column, pa.scalar(condition.values[0], pa.int64()))
    among = pc.is_in(column, value_set=pa.array(condition.values, pa.int64()))
    return among if condition.operator == "in" else pc.invert(among)
