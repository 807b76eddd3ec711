"""Metrics as text: OpenMetrics 1.0, or Prometheus' text format 0.0.4. Pure, and in steps.

`prometheus_client` writes the same formats, but takes longer for a line and gives no pause, and at 10,000
partitions there are 100,000 lines. So they are made here, straight from the values, and nothing is kept but
text: objects that Python's garbage collector would have to look at do not pile up. Tests read the text with
`prometheus_client`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import cache

from odradek.broker.metrics.metrics import MetricKey, Tags
from odradek.broker.metrics.pushed_metrics import ClientSeries, PushingClient, Series
from odradek.broker.monitoring.declarations import DECLARATIONS
from odradek.broker.monitoring.names import Family, Naming, constant_labels, family, label, safe

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"

_SUFFIXES = {"Count": "_count", "Sum": "_sum"}
QUANTILE = "quantile"
"""The tag of a summary's percentiles; `SUFFIX` that of its other samples, with `Count` or `Sum`."""
SUFFIX = "suffix"

_LINES_A_STEP = 64
_LINES_A_PIECE = 1024


class _Lines:
    """The lines of one family."""

    __slots__ = ("constant", "family", "lines")

    def __init__(self, of_family: Family, constant: str, shared: list[str]) -> None:
        self.family = of_family
        self.constant = constant
        self.lines = shared


class Exposition:
    """Collects samples, and makes their text.

    Args:
        naming: whose names they get.
    """

    def __init__(self, naming: Naming = Naming.JMX) -> None:
        self._naming = naming
        self._of_metric: dict[tuple[str, str], _Lines | None] = {}
        self._families: dict[str, tuple[Family, list[str]]] = {}
        self._tags: Tags = ()
        self._labels = ""

    def add_all(self, samples: Iterable[tuple[MetricKey, float] | None]) -> Generator[None, None, None]:
        """Add samples, with pauses. What is not declared is left out."""
        waiting = 0
        for sample in samples:
            if sample is None:
                yield
                continue
            self.add(*sample)
            waiting += 1
            if waiting == _LINES_A_STEP:
                waiting = 0
                yield

    def add(self, key: MetricKey, value: float) -> None:
        """Add one sample."""
        kind, name, tags = key
        lines = self._lines(kind, name)
        if lines is None:
            return
        if tags is not self._tags:
            # Many samples in a row are of one partition, and share its tags.
            self._tags, self._labels = tags, _labels(tags)
        labels = self._labels
        sample = lines.family.sample
        if tags and tags[-1][0] == SUFFIX:
            sample += _SUFFIXES[tags[-1][1]]
        if lines.constant:
            labels = f"{lines.constant},{labels}" if labels else lines.constant
        lines.lines.append(f"{sample}{{{labels}}} {value}" if labels else f"{sample} {value}")

    def add_pushed(self, clients: Iterable[ClientSeries]) -> Generator[None, None, None]:
        """Add what clients have pushed (KIP-714), under names that none of our own has, with pauses."""
        # Clients have many metrics and labels in common.
        sample_of, label_of = cache(pushed_sample), cache(_pushed_label)
        waiting = 0
        for known in clients:
            own = [(name, _escape(text)) for name, text in _labels_of_client(known.client)]
            seen: set[tuple[str, str]] = set()
            for (name, attributes), series in list(known.series.items()):
                labels = dict(own)
                for attribute, text in attributes:
                    labels.setdefault(label_of(attribute), _escape(text))
                shown = ",".join([f'{label_name}="{text}"' for label_name, text in labels.items()])
                sample = sample_of(name)
                # Two names may become the same, and Prometheus would take nothing at all.
                if (sample, shown) not in seen:
                    seen.add((sample, shown))
                    self._pushed_lines(name, sample, series).append(f"{sample}{{{shown}}} {series.value}")
                waiting += 1
                if waiting == _LINES_A_STEP:
                    waiting = 0
                    yield

    def _pushed_lines(self, name: str, sample: str, series: Series) -> list[str]:
        key = f"pushed {sample}"
        if key not in self._families:
            # No counters: names come from clients, and need not end as a counter's has to.
            kind = "unknown" if series.is_monotonic else "gauge"
            self._families[key] = Family(sample, kind, sample, f"{name}, as clients say."), []
        return self._families[key][1]

    def text(self, *, is_open_metrics: bool = True) -> Generator[None, None, list[str]]:
        """Return the text, in pieces of one family or less. It can be asked for once."""
        pieces: list[str] = []
        for of_family, lines in self._families.values():
            name, kind = of_family.name, of_family.type
            if not is_open_metrics:
                # There, a counter is called as its samples are.
                name = of_family.sample
                kind = "untyped" if kind == "unknown" else kind
            pieces.append(f"# HELP {name} {_help(of_family.doc)}\n# TYPE {name} {kind}\n")
            # From the end, and let go of at once: all of them at the end would take milliseconds.
            backwards: list[str] = []
            while lines:
                backwards.append("\n".join(lines[-_LINES_A_PIECE:]) + "\n")
                del lines[-_LINES_A_PIECE:]
                yield
            pieces += reversed(backwards)
            yield
        if is_open_metrics:
            pieces.append("# EOF\n")
        return pieces

    def _lines(self, kind: str, name: str) -> _Lines | None:
        metric = (kind, name)
        if metric in self._of_metric:
            return self._of_metric[metric]
        declared = DECLARATIONS.get(metric)
        lines = None
        if declared is not None:
            of_family = family(declared, self._naming)
            _, shared = self._families.setdefault(of_family.name, (of_family, []))
            lines = _Lines(of_family, constant_labels(declared), shared)
        self._of_metric[metric] = lines
        return lines


_PUSHED_PREFIX = "kafka_client_"


def pushed_sample(name: str) -> str:
    """Return the name of a client's metric: `kafka_client_`, and what follows `org.apache.kafka.`."""
    return safe(_PUSHED_PREFIX + name.removeprefix("org.apache.kafka."))


def _pushed_label(attribute: str) -> str:
    name = safe(attribute)
    return f"_{name}" if not name or name[0].isdigit() else name


def _labels_of_client(client: PushingClient) -> list[tuple[str, str]]:
    return [
        ("client_id", client.client_id),
        ("client_instance_id", client.instance_id),
        ("client_software_name", client.software_name),
        ("client_software_version", client.software_version),
    ]


def _labels(tags: Tags) -> str:
    return ",".join([f'{label(tag)}="{_escape(text)}"' for tag, text in tags if tag != SUFFIX])


def _escape(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
