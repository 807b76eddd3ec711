"""RESULTS.md and the plots beside it, from the JSON of all sections."""

from __future__ import annotations

from pathlib import Path

from benchmarks import sections
from benchmarks.results import Measure, Outcome, load

TARGET = Path(__file__).parent / "RESULTS.md"
PLOTS = Path(__file__).parent / "plots"
COLORS = ("#1f6feb", "#b0b7c3", "#7d8590", "#d0a34a", "#8fb98b")

HEAD = """# Measured beside peers

Written by `make bench` (`make bench ONLY=name` renews one section); do not edit. Each figure is the median
of its rounds, in which the contenders took turns on one machine. The columns `÷` are ours divided by theirs.
A bar is what was promised: ✓ kept, ✗ missed. CPU is that of the server's process, or of the client's where
clients are compared. [README.md](README.md) says how it is measured; every round's figures are in
`benchmarks/results`.
"""


def number(value: float | None) -> str:
    """Three digits or more that count, thousands apart."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _bar(outcome: Outcome, measure: Measure, ours: str) -> str:
    missed = measure.misses(ours)
    sign = "≤" if measure.less_is_better else "≥"
    words = []
    for peer, bar in measure.bars.items():
        if measure.ratio(ours, peer) is None:
            continue
        words.append(f"{'✗' if peer in missed else '✓'} {sign} {bar:g} × {peer}")
    for case, bar in measure.own_bars.items():
        ratio = outcome.own_ratio(measure, case)
        if ratio is not None:
            kept = "✗" if case in outcome.misses_own(measure) else "✓"
            words.append(f"{kept} {sign} {bar:g} × our own {case} ({ratio:.2f})")
    if measure.limit is not None and measure.median(ours) is not None:
        words.append(f"{'✗' if 'limit' in missed else '✓'} {sign} {measure.limit:g}")
    return "<br>".join(words)


def table(outcome: Outcome) -> list[str]:
    """The section's table in Markdown."""
    who = [name for name in outcome.contenders if any(name in m.values for m in outcome.measures)]
    ours, peers = who[0], who[1:]
    head = ["case", "measure", *(f"**{ours}**" if name == ours else name for name in who)]
    head += [f"÷ {peer}" for peer in peers]
    head.append("bar")
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * 2 + "--:|" * (len(who) + len(peers)) + "---|"]
    before = None
    for measure in outcome.measures:
        ratios = [measure.ratio(ours, peer) for peer in peers]
        cells = [measure.case if measure.case != before else "", measure.name]
        cells += [number(measure.median(name)) for name in who]
        cells += ["–" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        cells.append(_bar(outcome, measure, ours))
        lines.append(f"| {' | '.join(cells)} |")
        before = measure.case
    return lines


def plot(outcome: Outcome) -> Path | None:
    """One panel for each kind of measure, one group of bars for each case; None without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return None
    kinds = list(dict.fromkeys(measure.name for measure in outcome.measures))
    cases = list(dict.fromkeys(measure.case for measure in outcome.measures))
    who = [name for name in outcome.contenders if any(name in m.values for m in outcome.measures)]
    height = 1.0 + 0.22 * len(cases) * (len(who) + 1)
    figure, axes = pyplot.subplots(
        1, len(kinds), figsize=(3.4 * len(kinds) + 2.2, height), squeeze=False, sharey=True
    )
    for axis, kind in zip(axes[0], kinds, strict=True):
        for place, name in enumerate(who):
            spots, widths = [], []
            for row, case in enumerate(cases):
                for measure in outcome.measures:
                    median = measure.median(name)
                    if measure.case == case and measure.name == kind and median is not None:
                        spots.append(row + (place - (len(who) - 1) / 2) * 0.8 / len(who))
                        widths.append(median)
            drawn = axis.barh(spots, widths, 0.75 / len(who), color=COLORS[place % len(COLORS)], label=name)
            axis.bar_label(drawn, labels=[number(width) for width in widths], fontsize=7, padding=2)
        axis.set_title(kind, fontsize=9)
        axis.set_yticks(range(len(cases)), [case.replace(", ", ",\n", 1) for case in cases], fontsize=7)
        axis.tick_params(axis="x", labelsize=7)
        axis.margins(x=0.18)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].invert_yaxis()
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8, frameon=False, loc="lower center", ncols=len(who))
    figure.tight_layout(rect=(0, 0.3 / height, 1, 1))
    PLOTS.mkdir(exist_ok=True)
    path = PLOTS / f"{outcome.section}.png"
    figure.savefig(path, dpi=80, metadata={"Software": ""})
    pyplot.close(figure)
    return path


def render(plots: set[str] | None = None) -> None:
    """Write RESULTS.md from what is kept, and plots for the named sections (None: for all)."""
    lines = [HEAD]
    missed: list[str] = []
    bodies: list[str] = []
    for section in sections.SECTIONS:
        outcome = load(section.name)
        if outcome is None:
            continue
        if plots is None or section.name in plots:
            plot(outcome)
        bodies += [f"## {outcome.title}", ""]
        place = ", ".join(outcome.machine.values())
        bodies.append(f"`make bench ONLY={section.name}` · {outcome.date} · {place}")
        bodies.append("")
        bodies.append(" · ".join(f"{name} {version}" for name, version in outcome.versions.items()))
        if outcome.settings:
            bodies.append(" · " + ", ".join(f"{name} {value}" for name, value in outcome.settings.items()))
        bodies += ["", *table(outcome), ""]
        bodies += [f"Skipped: {name}: {why}" for name, why in outcome.skipped.items()]
        bodies += [line for note in outcome.notes for line in (note, "")]
        if (PLOTS / f"{section.name}.png").exists():
            bodies += [f"![{outcome.title}](plots/{section.name}.png)", ""]
        ours = outcome.contenders[0]
        for measure in outcome.measures:
            for peer in measure.misses(ours):
                ratio = measure.ratio(ours, peer)
                wanted = measure.limit if peer == "limit" else measure.bars[peer]
                got = number(measure.median(ours)) if ratio is None else f"{ratio:.2f} × {peer}"
                sign = "at most" if measure.less_is_better else "at least"
                missed.append(
                    f"| {outcome.title} | {measure.case} | {measure.name} | {got} | {sign} {wanted:g} |"
                )
            for case in outcome.misses_own(measure):
                ratio = outcome.own_ratio(measure, case)
                sign = "at most" if measure.less_is_better else "at least"
                missed.append(
                    f"| {outcome.title} | {measure.case} | {measure.name} | {ratio:.2f} × our own {case} | "
                    f"{sign} {measure.own_bars[case]:g} |"
                )
    if missed:
        lines += [
            "## Bars missed",
            "",
            "| section | case | measure | is | bar |",
            "|---|---|---|--:|--:|",
            *missed,
            "",
        ]
    TARGET.write_text("\n".join([*lines, *bodies]).rstrip() + "\n", encoding="utf-8")
