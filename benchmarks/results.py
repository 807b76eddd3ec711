"""What a section has measured: kept as JSON, one file per section, read back for the tables and the plots."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"


def percentile(values: list[float], percent: float) -> float:
    """The least value that so many percent of all do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


@dataclass
class Measure:
    """One figure of one case, by contender.

    `values` has one number per round. `bars` says what was promised: by contender the least that ours divided
    by it must be (the most, where less is better). `limit` is a promise without a contender, in the measure's
    unit. `own_bars` says the same by another case: ours here divided by ours there.
    """

    case: str
    name: str
    values: dict[str, list[float]]
    less_is_better: bool = False
    bars: dict[str, float] = field(default_factory=dict)
    limit: float | None = None
    own_bars: dict[str, float] = field(default_factory=dict)

    def median(self, who: str) -> float | None:
        """The middle of its rounds, or None where it did not run."""
        numbers = self.values.get(who)
        return statistics.median(numbers) if numbers else None

    def ratio(self, ours: str, peer: str) -> float | None:
        """Ours divided by the peer's."""
        own, other = self.median(ours), self.median(peer)
        return own / other if own is not None and other else None

    def misses(self, ours: str) -> list[str]:
        """Which promises are not kept, those by other cases aside: `Outcome.misses_own`."""
        missed = []
        for peer, bar in self.bars.items():
            ratio = self.ratio(ours, peer)
            if ratio is not None and (ratio > bar if self.less_is_better else ratio < bar):
                missed.append(peer)
        own = self.median(ours)
        if self.limit is None or own is None:
            return missed
        if own > self.limit if self.less_is_better else own < self.limit:
            missed.append("limit")
        return missed


@dataclass
class Outcome:
    """All that one run of a section gives.

    `contenders` in the order of the table's columns, ours first. `settings` are what a reader needs to judge:
    rounds, seconds, sizes. `notes` are sentences below the table.
    """

    section: str
    title: str
    contenders: list[str]
    versions: dict[str, str]
    measures: list[Measure]
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    date: str = ""
    machine: dict[str, str] = field(default_factory=dict)

    def own_ratio(self, measure: Measure, case: str) -> float | None:
        """Ours in a measure divided by ours in another case of the same run."""
        ours = self.contenders[0]
        own = measure.median(ours)
        others = [one.median(ours) for one in self.measures if (one.case, one.name) == (case, measure.name)]
        return own / others[0] if own is not None and others and others[0] else None

    def misses_own(self, measure: Measure) -> list[str]:
        """The other cases by which a promise of the measure is not kept."""
        missed = []
        for case, bar in measure.own_bars.items():
            ratio = self.own_ratio(measure, case)
            if ratio is not None and (ratio > bar if measure.less_is_better else ratio < bar):
                missed.append(case)
        return missed

    def save(self) -> Path:
        """Write it, with date and machine."""
        self.date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        self.machine = machine()
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{self.section}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return path


def load(section: str) -> Outcome | None:
    """The last outcome of a section, or None."""
    path = FOLDER / f"{section}.json"
    if not path.exists():
        return None
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["measures"] = [Measure(**one) for one in raw["measures"]]
    return Outcome(**raw)


def machine() -> dict[str, str]:
    """Model and number of processors, memory, kernel, Python."""
    model = "unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{len(os.sched_getaffinity(0))} × {model}",
        "memory": f"{memory:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
