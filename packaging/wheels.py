"""Build the distributions of a release, and check them: `make wheels`, described in docs/releasing.md.

- the source distribution, and from it all others;
- `py3-none-any`, which has nothing compiled, for machines that none of the others fits;
- for each Python on this machine and each target a wheel whose parts are compiled. zig's C compiler, which
  comes from PyPI, brings each target's C library, as old as the wheel's name promises, and builds for the
  processor family, not for the processor of this machine.

Each is looked at by `auditwheel` and `twine`. What this machine can run is installed into an environment of
its own, and every module of it is imported there; what it cannot run is named.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RELEASES = ("3.11", "3.12", "3.13", "3.14")


class Target(NamedTuple):
    """A kind of machine.

    Attributes:
        tag: the platform of its wheels (PEP 600, PEP 656).
        zig: what zig calls it, with the oldest C library that the wheels have to work with.
    """

    tag: str
    zig: str

    @property
    def suffix(self) -> str:
        """The end of a compiled module's name, behind the Python's."""
        return self.zig.partition(".")[0]

    @property
    def machine(self) -> str:
        """Its processor."""
        return self.zig.partition("-")[0]

    @property
    def runs_here(self) -> bool:
        """Whether this machine can load what is built for it."""
        libc = "musl" if "musl" in self.zig else "glibc"
        return sys.platform == "linux" and (platform.machine(), platform.libc_ver()[0] or "musl") == (
            self.machine,
            libc,
        )


TARGETS = tuple(
    Target(f"{tag}_{machine}", f"{machine}-linux-{libc}")
    for machine in ("x86_64", "aarch64")
    for tag, libc in (("manylinux_2_17", "gnu.2.17"), ("musllinux_1_2", "musl"))
)


def run(*words: str | Path, at: Path = ROOT, **environment: str) -> str:
    """Run a command, and return what it prints.

    Raises:
        SystemExit: it failed; what it told is printed.
    """
    done = subprocess.run(
        [str(word) for word in words],
        cwd=at,
        # The tools beside this Python, too: auditwheel looks for patchelf on the PATH.
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout.strip()[-6000:])
        raise SystemExit(f"failed: {' '.join(str(word) for word in words)}")
    return done.stdout


def pythons(wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give each release that is wanted and here, with its command: on the PATH, or pyenv's."""
    for release in wanted:
        # This one first: there may be a shim of pyenv's for a Python that is not there.
        commands = [sys.executable] if release == f"{sys.version_info.major}.{sys.version_info.minor}" else []
        commands.append(f"python{release}")
        if shutil.which("pyenv"):
            prefix = subprocess.run(
                ["pyenv", "prefix", release], capture_output=True, text=True, check=False
            ).stdout.strip()
            commands.append(f"{prefix}/bin/python{release}")
        for command in commands:
            try:
                there = subprocess.run([command, "-c", "import ensurepip"], capture_output=True, check=False)
            except OSError:
                continue
            if there.returncode == 0:
                yield release, command
                break
        else:
            print(f"Python {release}: left out, as neither the PATH nor pyenv has it")


def environment(python: str, folder: Path) -> Path:
    """Make an environment; return its Python."""
    run(python, "-m", "venv", folder)
    return folder / "bin/python"


def install(python: Path, *words: str | Path) -> None:
    """Install by pip what the words say, in the versions of constraints.txt."""
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(python, *pip, "-c", ROOT / "constraints.txt", *words)


def source_distribution(dist: Path) -> Path:
    """Build it."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", dist, ROOT)
    (built,) = dist.glob("odradek-*.tar.gz")
    return built


def unpacked(source: Path, folder: Path) -> Path:
    """Unpack a source distribution; return its folder."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (checkout,) = folder.iterdir()
    return checkout


def build(python: Path, checkout: Path, folder: Path, how: Mapping[str, str]) -> Path:
    """Build the wheel of an unpacked source distribution.

    Args:
        python: of an environment that has the build's requirements.
        checkout: the sources.
        folder: where the wheel goes.
        how: variables of the environment.
    """
    pip = (
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
    )
    run(python, *pip, "--wheel-dir", folder, ".", at=checkout, **how)
    (wheel,) = folder.glob("*.whl")
    return wheel


def for_target(target: Target, release: str) -> dict[str, str]:
    """Return the variables by which setuptools builds for a target: the compiler, and the names of files."""
    # Undefined behaviour is no reason to abort in what is released; zig's default for its own debug builds.
    compiler = f"{sys.executable} -m ziglang cc -target {target.zig} -fno-sanitize=undefined"
    return {
        "ODRADEK_COMPILE": "1",
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared -s",
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{release.replace('.', '')}-{target.suffix}.so",
    }


def compiled_parts(wheel: Path) -> int:
    """Count the compiled modules in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return sum(name.endswith(".so") for name in archive.namelist())


def repaired(wheel: Path, target: Target, dist: Path) -> Path:
    """Name a wheel by the tag of its target, for which it has to be fit; return it.

    Raises:
        SystemExit: it needs more than the tag promises, or has nothing compiled.
    """
    if compiled_parts(wheel) == 0:
        raise SystemExit(f"{wheel.name}: nothing in it is compiled")
    if "musl" in target.zig:
        wheel = with_musls_name(wheel, target)
    before = set(dist.iterdir())
    # For other machines than this one it takes no tag, but finds the oldest that the wheel is fit for.
    run(sys.executable, "-m", "auditwheel", "repair", "--only-plat", "--plat", "auto", "-w", dist, wheel)
    (fresh,) = set(dist.iterdir()) - before
    tags = fresh.stem.rpartition("-")[2].split(".")
    if not any(is_promised(tag, target) for tag in tags):
        raise SystemExit(f"{fresh.name}: needs more than {target.tag} has")
    return fresh


def with_musls_name(wheel: Path, target: Target) -> Path:
    """Name musl in the compiled modules of a wheel as distributions do (PEP 656); zig calls it `libc.so`."""
    unpacked = wheel.parent / "unpacked"
    run(sys.executable, "-m", "wheel", "unpack", "--dest", unpacked, wheel)
    (folder,) = unpacked.iterdir()
    musl = f"libc.musl-{target.machine}.so.1"
    run("patchelf", "--replace-needed", "libc.so", musl, *sorted(folder.rglob("*.so")))
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", wheel.parent, folder)
    return wheel


def is_promised(tag: str, target: Target) -> bool:
    """Return whether whatever has the target's tag has what a wheel of another tag needs, too."""
    form = re.compile(r"(manylinux|musllinux)_(\d+)_(\d+)_(\w+)")
    needed, promised = form.fullmatch(tag), form.fullmatch(target.tag)
    assert promised is not None
    if needed is None or (needed[1], needed[4]) != (promised[1], promised[4]):
        return False
    return (int(needed[2]), int(needed[3])) <= (int(promised[2]), int(promised[3]))


IMPORT_ALL = """
import importlib, json, pkgutil, sys, odradek
there, absent = 0, {}
for module in pkgutil.walk_packages(odradek.__path__, "odradek."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
        there += 1
    except ModuleNotFoundError as why:
        if (why.name or "odradek").startswith("odradek"):
            raise
        absent[module.name] = str(why)
print(json.dumps({"there": there, "absent": absent}))
"""
"""Import each module; those that an extra is needed for say so."""


def tried(wheel: Path, python: str, folder: Path, is_compiled: bool) -> str:
    """Install a wheel, import all of its modules, and ask `odradek doctor` what is compiled.

    Returns:
        A line about it.

    Raises:
        SystemExit: a module cannot be imported for another reason than that an extra is absent, or `doctor`
            finds it otherwise compiled.
    """
    own = environment(python, folder)
    install(own, f"{wheel}[arrow,test]")
    run(own, "-m", "pip", "check")
    found = json.loads(run(own, "-c", IMPORT_ALL, at=folder).splitlines()[-1])
    findings = [json.loads(line) for line in run_doctor(own, folder).splitlines()]
    (walk,) = (finding["what"] for finding in findings if finding["subject"] == "what requests pass")
    if (walk == "compiled") != is_compiled:
        raise SystemExit(f"{wheel.name}: what requests pass is {walk}")
    return f"{found['there']} modules imported, {len(found['absent'])} need an extra"


def run_doctor(python: Path, folder: Path) -> str:
    """Return what `odradek doctor --json` prints, also where it finds fault with something."""
    done = subprocess.run(
        [python.parent / "odradek", "doctor", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def main() -> None:
    """Build, check, and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where they go; emptied first")
    parser.add_argument("--python", action="append", choices=RELEASES, help="only for these; may be repeated")
    parser.add_argument(
        "--target",
        action="append",
        choices=[target.tag for target in TARGETS],
        help="only for these; likewise",
    )
    given = parser.parse_args()
    targets = [target for target in TARGETS if given.target is None or target.tag in given.target]
    dist: Path = given.dist.resolve()
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        make(dist, Path(temporary), list(pythons(given.python or RELEASES)), targets)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()))
    print("twine: the metadata of all are well")


def make(dist: Path, place: Path, python_of: Sequence[tuple[str, str]], targets: Sequence[Target]) -> None:
    """Build all, and try what can be tried here."""
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"][
        "requires"
    ]
    source = source_distribution(dist)
    print(source.name, flush=True)
    for i, (release, command) in enumerate(python_of):
        builder = environment(command, place / release / "builder")
        install(builder, *requires, "wheel")
        if i == 0:
            checkout = unpacked(source, place / "pure")
            pure = build(builder, checkout, dist, {"ODRADEK_COMPILE": "0"})
            print(f"{pure.name}: {tried(pure, command, place / 'pure-tried', False)}", flush=True)
        for target in targets:
            folder = place / release / target.tag
            checkout = unpacked(source, folder / "source")
            wheel = build(builder, checkout, folder, for_target(target, release))
            wheel = repaired(wheel, target, dist)
            parts = f"{compiled_parts(wheel)} compiled parts"
            about = (
                tried(wheel, command, folder / "tried", True)
                if target.runs_here
                else "not run: another machine"
            )
            print(f"{wheel.name}: {parts}; {about}", flush=True)


if __name__ == "__main__":
    main()
