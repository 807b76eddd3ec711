"""`odradek doctor`: what this installation has, what it lacks, what that costs, and the remedy."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import click

import odradek
from odradek import __version__


class Finding(NamedTuple):
    """One line: what was looked at, whether it is well, what is there, and what to do if not."""

    subject: str
    well: bool
    what: str
    remedy: str = ""


#: Open files with which a broker of some thousand partitions does well.
ENOUGH_FILES = 8192
#: Package → what is slower or missing without it, and how to get it.
PACKAGES = {
    "uvloop": ("the stock event loop serves; some 5 % more CPU a request", "pip install uvloop"),
    "fastcrc": ("no CRC-32C: the broker does not start", "pip install fastcrc"),
    "cramjam": ("no compressed batches", "pip install cramjam"),
    "pyarrow": ("no poll_arrow, no send_arrow, no Spark", "pip install 'odradek[arrow]'"),
    "pyspark": ("no Spark pipeline", "pip install 'odradek[spark]'"),
    "pandas": ("no toPandas in Spark", "pip install 'odradek[spark]'"),
    "kazoo": ("no ZooKeeper cluster", "pip install 'odradek[cluster]'"),
}
#: Part of the kernel → what it does, and what its twin in Python costs, by benchmarks/compiled_parts.py.
PARTS = {
    "_kernel": (
        "records",
        "a produced batch of 16 KiB takes 0.3 ms more, decoding to Arrow 40 times as long",
    ),
    "_produce": ("Produce requests and responses", "20 µs more per request"),
    "_fetch": ("Fetch requests and responses", "10 µs more per request"),
    "_sending": ("long answers to fetches", "a fifth less throughput of old records"),
    "_client": ("a producer's work per record", "Producer.send takes 4 µs more"),
    "_cleaner": ("compaction", "6 times as long per record"),
    "_messages": ("message sets for clients before 0.11", "140 times as long per record"),
}
COMPILE = "install a C compiler and Python's headers, then pip install --force-reinstall odradek"


def packages() -> Iterable[Finding]:
    """The packages that odradek uses where they are."""
    for name, (cost, remedy) in PACKAGES.items():
        try:
            yield Finding(name, True, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, False, f"absent: {cost}", remedy)


def kernel() -> Iterable[Finding]:
    """The parts of the compiled kernel, one by one: each has a twin in Python that serves in its place."""
    wish = os.environ.get("ODRADEK_KERNEL", "")
    for part in compiled_parts():
        try:
            path = getattr(importlib.import_module(f"odradek.{part}"), "__file__", None) or ""
        except ImportError:
            path = ""
        if not path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            what, cost = PARTS.get(part, ("a part of the kernel", "slower"))
            yield Finding(f"kernel {part}", False, f"not compiled: {what}: {cost}", COMPILE)
        elif wish == "python":
            yield Finding(f"kernel {part}", True, "compiled, and not used: ODRADEK_KERNEL=python")
        else:
            yield Finding(f"kernel {part}", True, "compiled")


def compiled_parts() -> list[str]:
    """The names of the parts: their sources come with the package."""
    package = Path(odradek.__file__).parent
    return sorted({path.stem for path in package.glob("_*.pyx")} | PARTS.keys())


def codecs() -> Iterable[Finding]:
    """Whether each compression can be done, by doing it."""
    from odradek.records.compression import Codec, compress, decompress

    sample = b"odradek" * 100
    broken = []
    for codec in Codec:
        try:
            if bytes(decompress(codec, compress(codec, sample), len(sample))) != sample:
                broken.append(codec.name.lower())
        except Exception as error:
            broken.append(f"{codec.name.lower()} ({error})")
    works = ", ".join(codec.name.lower() for codec in Codec if codec)
    if broken:
        yield Finding("compression", False, f"broken: {', '.join(broken)}", "pip install --force cramjam")
    else:
        yield Finding("compression", True, works)


def java() -> Iterable[Finding]:
    """The Java that Spark would run on."""
    if importlib.util.find_spec("pyspark") is None:
        return
    from odradek.spark.java import JavaNotFoundError, find_java

    try:
        found = find_java()
    except JavaNotFoundError as error:
        yield Finding("Java", False, "absent: Spark cannot start", str(error))
    else:
        yield Finding("Java", True, f"{found.version} at {found.home} (from {found.origin})")


def limits() -> Iterable[Finding]:
    """How many files a process may open."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= ENOUGH_FILES:
        yield Finding("open files", True, "unlimited" if soft == unlimited else str(soft))
        return
    if hard == unlimited or hard >= ENOUGH_FILES:
        most = 65_536 if hard == unlimited else min(hard, 65_536)
        remedy = f"ulimit -n {most} before `odradek server`"
    else:
        remedy = f"have the system's hard limit, {hard}, raised to {ENOUGH_FILES} (limits.conf, LimitNOFILE=)"
    yield Finding("open files", False, f"{soft}: a broker needs two or more per partition", remedy)


CHECKS: tuple[Callable[[], Iterable[Finding]], ...] = (packages, kernel, codecs, java, limits)


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def command(as_json: bool) -> None:
    """Say what this installation has, lacks, and what that costs. Exit code 1 if something is missing."""
    findings = [Finding("odradek", True, f"{__version__} on Python {platform.python_version()}")]
    for check in CHECKS:
        findings += check()
    for finding in findings:
        if as_json:
            import json

            click.echo(json.dumps(finding._asdict()))
            continue
        mark = click.style("ok ", fg="green") if finding.well else click.style("-- ", fg="yellow")
        click.echo(f"{mark} {finding.subject:<12} {finding.what}")
        if finding.remedy:
            click.echo(f"   {'':<12} → {finding.remedy}")
    sys.exit(0 if all(finding.well for finding in findings) else 1)
