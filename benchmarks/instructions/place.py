"""What counts depend on: where one of these is another, they are not compared."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sysconfig
from importlib import metadata
from pathlib import Path

from benchmarks.instructions import callgrind

_LIBRARIES = ("uvloop",)


def here() -> dict[str, str]:
    """This machine and what is installed on it, by readable names."""
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    built = [word for word in ("enable-optimizations", "with-lto", "with-pydebug") if word in arguments]
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        built.append("enable-shared")
    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "built with": ", ".join([platform.python_compiler(), *built]),
        "C library": " ".join(platform.libc_ver()),
        "C compiler": _compiler(),
        "processor": _processor(),
        "valgrind": callgrind.version(),
        **{name: _version(name) for name in _LIBRARIES},
    }


def differences(there: dict[str, str], here: dict[str, str]) -> list[str]:
    """What is not the same: `Python: CPython 3.12.1, not CPython 3.11.7`."""
    names = dict.fromkeys((*there, *here))
    return [
        f"{name}: {here.get(name, 'none')}, not {there.get(name, 'none')}"
        for name in names
        if here.get(name) != there.get(name)
    ]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"


def _compiler() -> str:
    """The one that extensions are compiled with."""
    words = str(sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(words[0]) is None:
        return "none"
    done = subprocess.run([words[0], "-dumpfullversion"], capture_output=True, text=True)
    return f"{words[0]} {done.stdout.strip()}"


def _processor() -> str:
    """What valgrind shows of it to a program: libraries choose their loops by that."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text("utf-8").partition("flags")[2].partition("\n")[0].split())
    except OSError:
        flags = set()
    shown = [name for name in ("avx2", "avx", "sse4_2") if name in flags][:1]
    return " ".join([platform.machine(), *shown])
