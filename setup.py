"""Builds what is compiled; everything else is in pyproject.toml.

- The optional kernel, one part per `_*.pyx`. Without a C compiler the build goes on without it
  (`optional=True`): the pure-Python twin serves, and `odradek doctor` says so.
- With ODRADEK_COMPILE_WALK=1 in the environment also what every request passes, from the same `.py` files
  (docs/decisions/the-walk-compiled.md).
"""

import os
from pathlib import Path

from setuptools import Extension, setup

PACKAGE = Path("src/odradek")

#: What requests pass on their way, as mypyc takes it.
WALK = (
    "broker/context.py",
    "broker/conversion/produce.py",
    "broker/fetch_reading.py",
    "broker/fetch_response.py",
    "broker/fetch_sessions.py",
    "broker/handlers/fetch.py",
    "broker/handlers/produce.py",
    "broker/metrics.py",
    "broker/network/answer.py",
    "broker/network/connection.py",
    "broker/network/dispatch.py",
    "broker/network/memory_pool.py",
    "broker/network/peer.py",
    "broker/transactions/produce.py",
    "log/partition/append_rules.py",
    "log/partition/appending.py",
    "log/partition/flushing.py",
    "log/partition/leader_epochs.py",
    "log/partition/partition_log.py",
    "log/partition/readable_log.py",
    "log/partition/truncation.py",
    "log/segments/segment.py",
    "log/segments/segment_files.py",
    "log/segments/segment_list.py",
    "log/segments/timestamp_offset.py",
    "records/validate.py",
    "replication/delayed.py",
    "replication/leadership.py",
    "replication/partition.py",
    "replication/reading.py",
    "util/clock.py",
    "wire/framing.py",
    "wire/headers.py",
)


def extensions() -> list[Extension]:
    """The kernel's parts as optional extensions, or nothing where Cython is absent."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    headers = [str(one) for one in sorted(PACKAGE.glob("_*.pxd"))]
    parts = [
        Extension(
            f"odradek.{source.stem}",
            [str(source)],
            depends=headers,
            # Behind CFLAGS, where it would overrule what those ask for.
            extra_compile_args=[] if "-O" in os.environ.get("CFLAGS", "") else ["-O3"],
        )
        for source in sorted(PACKAGE.glob("_*.pyx"))
    ]
    built: list[Extension] = cythonize(parts, language_level=3)
    for part in built:
        # Here, as Cython does not hand it on: a part that does not compile is left out.
        part.optional = True
    return built


def walk() -> list[Extension]:
    """What `WALK` names, where that is asked for."""
    if os.environ.get("ODRADEK_COMPILE_WALK") != "1":
        return []
    from mypyc.build import mypycify

    # More than -O1 takes twice as long to build, and gains nothing that can be measured.
    sources = [str(PACKAGE / name) for name in WALK]
    built: list[Extension] = mypycify(sources, opt_level="1", debug_level="0", group_name="odradek")
    return built


setup(ext_modules=extensions() + walk())
