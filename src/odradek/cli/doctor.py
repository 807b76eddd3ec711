"""`odradek doctor`: what this installation has, what it lacks, what that costs, and the remedy.

Remedies are commands that work as they stand: with the Python that runs this, packages by their own names,
and odradek from where it was installed, as it is in no registry.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import click

import odradek
from odradek import __version__
from odradek.util import stale
from odradek.util.extras import EXTRAS, pip, requirements


class Finding(NamedTuple):
    """One line: what was looked at, whether it is well, what is there, and what to do if not.

    What is optional and absent is well, and has a remedy for those who want it.
    """

    subject: str
    well: bool
    state: str
    remedy: str = ""


#: Open files with which a broker of some thousand partitions does well.
ENOUGH_FILES = 8192
#: Package that is always used → what is slower or missing without it.
NEEDED = {
    "uvloop": "the stock event loop serves; some 5 % more CPU a request",
    "fastcrc": "no CRC-32C: the broker does not start",
    "cramjam": "no compressed batches",
    "lz4": "no compressed batches",
    "zlib_ng": "no compressed batches",
    "zstandard": "no batches compressed with zstd",
    "mypy_extensions": "the broker does not start",
}
#: Part of the kernel → what it does, and what its twin in Python costs, by benchmarks/compiled_parts.py.
PARTS = {
    "records._kernel": ("records", "decoding to Arrow takes 40 times as long"),
    "records._validate": ("produced batches", "one of 16 KiB takes 0.7 ms more, one of a record 13 µs"),
    "log.storage._writing": ("produced batches", "writing one takes 1 µs more"),
    "broker.network._sending": ("long answers to fetches", "a fifth less throughput of old records"),
    "client.core._client": ("a producer's work per record", "Producer.send takes 4 µs more"),
    "log.cleaner._cleaner": ("compaction", "6 times as long per record"),
    "records.message_sets._messages": (
        "message sets for clients before 0.11",
        "140 times as long per record",
    ),
    "spark.formats._tree": ("typed columns in Spark", "decoding takes hundreds of times as long"),
    "spark.formats._json": ("typed columns of JSON in Spark", "350 times as long per record"),
    "spark.formats._avro": ("typed columns of Avro in Spark", "150 times as long per record"),
    "spark.formats._protobuf": ("typed columns of protobuf in Spark", "200 times as long per record"),
}


def packages() -> Iterable[Finding]:
    """The packages that odradek uses where they are."""
    for name, cost in NEEDED.items():
        if name != "uvloop" or (os.name != "nt" and platform.python_implementation() == "CPython"):
            yield _package(name, f"absent: {cost}", None)
    for extra, (name, gain) in EXTRAS.items():
        yield _package(name, f"absent, and optional: {gain}", extra)


def _package(name: str, absent: str, extra: str | None) -> Finding:
    wanted = [
        requirement
        for requirement in requirements(extra)
        if extra is not None or _name_of(requirement) == name
    ]
    remedy = pip("install", *(wanted or [name]))
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, extra is not None, absent, remedy)
    least = next(
        (
            requirement_bound[1]
            for requirement in wanted
            if _name_of(requirement) == name and (requirement_bound := _LEAST.search(requirement))
        ),
        "",
    )
    if _numbers(version) < _numbers(least):
        return Finding(name, False, f"{version} is too old: {least} or newer is needed", remedy)
    return Finding(name, True, version)


_LEAST = re.compile(r">=\s*([\d.]+)")


def _name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    return match[0] if match else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def source() -> list[str]:
    """Return what to give `pip install` to have odradek built again: the checkout that it came from."""
    try:
        text = importlib.metadata.distribution("odradek").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        text = None
    origin = json.loads(text) if text else {}
    url = urlsplit(origin.get("url", ""))
    if url.scheme == "file" and "dir_info" in origin:
        return [*(["-e"] if origin["dir_info"].get("editable") else []), unquote(url.path)]
    checkout = Path(odradek.__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return ["-e", str(checkout)]
    return ["/path/to/a/checkout"]  # a wheel brings what it was built with


def compile_remedy() -> str:
    """Return the words that say how to get the compiled kernel."""
    again = pip("install", "--force-reinstall", "--no-deps", *source())
    return f"install a C compiler and Python's headers, then {again}"


def _is_extension(path: str) -> bool:
    return path.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


def kernel() -> Iterable[Finding]:
    """The parts of the compiled kernel, one by one: each has a twin in Python that serves in its place."""
    wish = os.environ.get("ODRADEK_KERNEL", "")
    for part in compiled_parts():
        try:
            path = getattr(importlib.import_module(f"odradek.{part}"), "__file__", None) or ""
        except ImportError:
            path = ""
        # `util.compiled.choose` takes the twin in both cases.
        is_stale = stale.is_stale(f"{part.replace('.', '/')}.pyx")
        if is_stale or not _is_extension(path):
            purpose, cost = PARTS.get(part, ("a part of the kernel", "slower"))
            why = "changed since it was compiled" if is_stale else "not compiled"
            yield Finding(f"kernel {part}", False, f"{why}: {purpose}: {cost}", compile_remedy())
        elif wish == "python":
            yield Finding(f"kernel {part}", True, "compiled, and not used: ODRADEK_KERNEL=python")
        else:
            yield Finding(f"kernel {part}", True, "compiled")


def walk() -> Iterable[Finding]:
    """Return whether what requests pass in the broker is compiled (docs/decisions/the-walk-compiled.md)."""
    spec = importlib.util.find_spec("odradek.broker.network.connection")
    if spec is not None and _is_extension(spec.origin or ""):
        yield Finding("what requests pass", True, "compiled")
    else:
        cost = "not compiled: a small request costs a broker two to three times as much"
        yield Finding("what requests pass", False, cost, compile_remedy())


def compiled_parts() -> list[str]:
    """The parts, as modules of the package: their sources come with it."""
    sources = stale.kernel(Path(odradek.__file__).parent)
    parts = {name.removesuffix(".pyx").replace("/", ".") for name in sources if name.endswith(".pyx")}
    return sorted(parts | PARTS.keys())


def codecs() -> Iterable[Finding]:
    """Return whether each compression can be done, by doing it."""
    try:
        from odradek.records.compression import Codec, compress, decompress
    except ImportError:
        return  # `packages` says which one is absent

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
        remedy = pip("install", "--force-reinstall", "cramjam", "lz4", "zlib-ng", "zstandard")
        yield Finding("compression", False, f"broken: {', '.join(broken)}", remedy)
    else:
        yield Finding("compression", True, works)


def java() -> Iterable[Finding]:
    """The Java that Spark would run on."""
    if importlib.util.find_spec("pyspark") is None:
        return
    from odradek.spark.sessions.java import JavaNotFoundError, find_java

    try:
        installed = find_java()
    except JavaNotFoundError as error:
        yield Finding("Java", False, "absent: Spark cannot start", str(error))
    else:
        yield Finding("Java", True, f"{installed.version} at {installed.home} (from {installed.origin})")


def limits() -> Iterable[Finding]:
    """Return how many files a broker may open: it raises its own limit as far as the system lets it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if unlimited in (soft, hard):
        yield Finding("open files", True, "unlimited")
    elif hard >= ENOUGH_FILES:
        yield Finding("open files", True, f"{hard}" if soft >= hard else f"{soft}; a broker takes {hard}")
    else:
        remedy = f"have the system's hard limit, {hard}, raised to {ENOUGH_FILES} (limits.conf, LimitNOFILE=)"
        yield Finding("open files", False, f"{hard}: a broker needs two or more per partition", remedy)


CHECKS: tuple[Callable[[], Iterable[Finding]], ...] = (packages, kernel, walk, codecs, java, limits)


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def command(as_json: bool) -> None:
    """Say what this installation has, lacks, and what that costs.

    Exit code 1 if something is missing that is not optional.
    """
    findings = [Finding("odradek", True, f"{__version__} on Python {platform.python_version()}")]
    for check in CHECKS:
        findings += check()
    for finding in findings:
        if as_json:
            subject, well, state, remedy = finding
            # As scripts have read it ever since.
            line = {"subject": subject, "well": well, "what": state, "remedy": remedy}
            click.echo(json.dumps(line))
            continue
        mark = click.style("-- ", fg="yellow")
        if finding.well:
            mark = "·  " if finding.remedy else click.style("ok ", fg="green")
        click.echo(f"{mark} {finding.subject:<12} {finding.state}")
        if finding.remedy:
            click.echo(f"   {'':<12} → {finding.remedy}")
    sys.exit(0 if all(finding.well for finding in findings) else 1)
