"""The wheel: built with and without a C compiler, installed, and asked what it has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import pytest

from odradek.util.stale import kernel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
LEFT_OUT = ("*.so", "*.egg-info", "__pycache__")
BUILD = "import sys; from setuptools import build_meta as b; print(b.build_{}(sys.argv[1]))"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The sources alone; the C that Cython has made of them comes along, as it is slow to make."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns(*LEFT_OUT))
    return copy


def build(kind: str, checkout: Path, into: Path, compiler: str | None = None) -> Path:
    """Call the build backend, as `pip wheel --no-build-isolation` does."""
    into.mkdir()
    environment = {**os.environ, "CFLAGS": "-O0"} if compiler is None else {**os.environ, "CC": compiler}
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(kind), str(into)],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (built,) = into.iterdir()
    return built


def install(wheel: Path, folder: Path) -> Path:
    """A new virtual environment with the wheel; its dependencies are those of the one that runs the tests."""
    venv.create(folder, with_pip=False)
    (site,) = (folder / "lib").glob("python*/site-packages")
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "--no-deps"]
    subprocess.run([*command, "--no-index", "--quiet", str(wheel)], check=True, timeout=300)
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return folder / "bin"


def doctor(bin_folder: Path) -> dict[str, Any]:
    environment = {name: text for name, text in os.environ.items() if name != "ODRADEK_KERNEL"}
    done = subprocess.run(
        [bin_folder / "odradek", "doctor", "--json"],
        cwd=bin_folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stderr == ""
    return {one["subject"]: one for one in map(json.loads, done.stdout.splitlines())}


def parts() -> list[str]:
    sources = (name for name in kernel(ROOT / "src/odradek") if name.endswith(".pyx"))
    return [name.removesuffix(".pyx").replace("/", ".") for name in sources]


def test_a_wheel_with_the_kernel(checkout: Path, tmp_path: Path) -> None:
    wheel = build("wheel", checkout, tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = BytesParser().parsebytes(archive.read(metadata))
        (entry_points,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        assert b"odradek = odradek.cli.main:main" in archive.read(entry_points)
    assert {f"odradek/{part.replace('.', '/')}{SUFFIX}" for part in parts()} <= names
    assert {f"odradek__mypyc{SUFFIX}", f"odradek/broker/network/connection{SUFFIX}"} <= names
    assert {"odradek/py.typed", "odradek/broker/process/main.py"} <= names
    assert not [name for name in names if name.endswith(".c") or name.startswith("tests")]
    assert (fields["Name"], fields["License-Expression"]) == ("odradek", "Apache-2.0")
    assert fields["Requires-Python"] == ">=3.11"
    assert fields.get_payload().startswith("# odradek") or "odradek" in fields.get_payload()
    found = doctor(install(wheel, tmp_path / "venv"))
    assert {f"kernel {part}": found[f"kernel {part}"]["what"] for part in parts()} == {
        f"kernel {part}": "compiled" for part in parts()
    }
    assert found["what requests pass"]["what"] == "compiled"


def test_without_a_compiler_it_installs_and_says_what_that_costs(checkout: Path, tmp_path: Path) -> None:
    wheel = build("wheel", checkout, tmp_path / "wheel", compiler="/bin/false")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]
    found = doctor(install(wheel, tmp_path / "venv"))
    (script,) = (tmp_path / "venv" / "lib").glob(
        "python*/site-packages/odradek/spark/sessions/worker_python.sh"
    )
    assert os.access(script, os.X_OK)
    for part in parts():
        finding = found[f"kernel {part}"]
        assert not finding["well"]
        assert finding["what"].startswith("not compiled: ")
        assert "C compiler" in finding["remedy"]
    assert found["what requests pass"]["what"].startswith("not compiled: ")


def test_with_nothing_compiled_it_is_one_for_every_machine(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMPILE", "0")
    assert build("wheel", checkout, tmp_path / "wheel").name.endswith("-py3-none-any.whl")


def test_the_source_distribution_has_what_a_build_needs(checkout: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", checkout, tmp_path / "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/odradek/{name}" for name in kernel(ROOT / "src/odradek")} <= names
    assert {"setup.py", "pyproject.toml", "LICENSE", "README.md", "src/odradek/py.typed"} <= names
