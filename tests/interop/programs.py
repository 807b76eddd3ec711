"""Client libraries of other languages as small programs: built once, told their role by words.

The roles and their lines are described in `go/role/role.go`; all programs have the same.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from interop import kafka_peer
from interop.kafka_peer import CACHE
from interop.served import Served
from waiting import WITHIN_S, joined

SOURCES = Path(__file__).parent
SUITES = SOURCES / "go" / "suites"


@dataclass(frozen=True)
class Program:
    """A program that takes a role: its words, and what has to be in its environment."""

    words: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start it in a role."""
        return subprocess.Popen(
            [*self.words, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
        )

    def serve(self, *words: str, folder: Path) -> Served:
        """Return it as one that runs in a folder until it is ended, and prints to `log` there."""
        return Served([*self.words, *words], folder / "log", self.environment)

    def run(self, *words: str, stdin: str = "", timeout: float = kafka_peer.TOOL_LIMIT_S) -> Any:
        """Run it to its end; return what it printed, from JSON, or None.

        Raises `AssertionError` with its errors when it fails.
        """
        out = self.printed(*words, stdin=stdin, timeout=timeout)
        return json.loads(out) if out else None

    def printed(self, *words: str, stdin: str = "", timeout: float = kafka_peer.TOOL_LIMIT_S) -> str:
        """Run it to its end; return what it printed.

        Raises `AssertionError` with its errors when it fails.
        """
        child = self.start(*words)
        try:
            out, errors = child.communicate(stdin, timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            out, errors = child.communicate(timeout=WITHIN_S)
            raise AssertionError(
                f"{words}: not within {timeout:.0f} s\n{out[-1000:]}\n{errors[-3000:]}"
            ) from None
        assert child.returncode == 0, f"{words}: {out[-3000:]}{errors[-3000:]}"
        return out


def _build(command: Sequence[str], where: Path, what: str, more: Mapping[str, str] | None = None) -> None:
    environment = {**os.environ, **(more or {})}
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=500)
    if done.returncode:
        raise RuntimeError(f"{what} could not be built:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")


def for_release(source: str, version: str) -> str:
    """A source without the lines that are for other releases.

    `//#if >= 2.0` or `//#if < 2.0` opens a part, `//#end` closes it; parts may be nested. The lines that are
    left out stay as empty ones, so that messages name the right line.
    """
    compare = {">=": operator.ge, "<": operator.lt}
    own = kafka_peer.version_tuple(version)
    kept: list[str] = []
    open_parts: list[bool] = []
    for line in source.splitlines():
        words = line.split()
        if words[:1] == ["//#if"]:
            open_parts.append(compare[words[1]](own, kafka_peer.version_tuple(words[2])))
            kept.append("")
        elif words[:1] == ["//#end"]:
            open_parts.pop()
            kept.append("")
        else:
            kept.append(line if all(open_parts) else "")
    assert not open_parts, "a part is not closed"
    return "\n".join(kept) + "\n"


LOGGING = (("org.slf4j", "slf4j-simple", "1.7.36"),)


def java_program(
    name: str,
    version: str,
    artifacts: Sequence[tuple[str, str, str]] = (),
    logging: Sequence[tuple[str, str, str]] = LOGGING,
) -> Program:
    """A class of the folder `java`, compiled against one release of Kafka's clients.

    Args:
        name: the class.
        version: the release; parts of the source are for some releases only.
        artifacts: what it needs when that is not Kafka's clients alone.
        logging: what logs to standard error, when the artifacts do not bring it.
    """
    wanted = [*artifacts] or [("org.apache.kafka", "kafka-clients", version)]
    wanted += logging
    source = for_release((SOURCES / "java" / f"{name}.java").read_text(encoding="utf-8"), version)
    return java_classes(f"{name.lower()}-{version}", wanted, {f"{name}.java": source}, name)


def java_classes(
    group: str, wanted: Sequence[tuple[str, str, str]], sources: Mapping[str, str], *words: str
) -> Program:
    """Classes that are compiled with what they need.

    Args:
        group: the name of their folder in the cache.
        wanted: the artifacts.
        sources: each file's name, and what is in it.
        words: what `java` is told: the class that is run, and its arguments.
    """
    with kafka_peer.building(f"{group}-classes"):
        library = kafka_peer.resolve(group, [*wanted])
        digest = hashlib.sha256("".join(sources.values()).encode()).hexdigest()[:16]
        classes = library.parent / digest
        if not classes.exists():
            folder = library.parent / "source"
            folder.mkdir(exist_ok=True)
            for file, source in sources.items():
                (folder / file).write_text(source, encoding="utf-8")
            fresh = library.parent / "fresh"
            shutil.rmtree(fresh, ignore_errors=True)
            command = ["javac", "-nowarn", "-cp", f"{library}/*", "-d", str(fresh), *sources]
            _build(command, folder, group)
            fresh.rename(classes)
    options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return Program(("java", *options, level, "-cp", f"{classes}:{library}/*", *words))


def go_program(name: str, modules: str = "go.mod") -> Program:
    """Build a program of the folder `go` with the versions that a file of modules names."""
    home = CACHE / "go"
    home.mkdir(parents=True, exist_ok=True)
    binary = home / f"{name}-{Path(modules).stem}"
    # Go's own cache makes this quick when nothing has changed.
    command = ["go", "build", "-buildvcs=false", f"-modfile={modules}", "-o", str(binary), f"./{name}"]
    with kafka_peer.building(binary.name):
        _build(command, SOURCES / "go", name)
    return Program((str(binary),))


def go_tests(name: str, sources: Mapping[str, str]) -> Program:
    """The program that `go test -c` makes of a package, with the modules of the file of modules.

    Args:
        name: the name of its folder in the cache.
        sources: each file's name, and what is in it.
    """
    home = CACHE / "go" / name
    with kafka_peer.building(name):
        home.mkdir(parents=True, exist_ok=True)
        for file in ("go.mod", "go.sum"):
            shutil.copy(SOURCES / "go" / file, home)
        for file, source in sources.items():
            (home / file).write_text(source, encoding="utf-8")
        _build(["go", "test", "-c", "-o", "tests", "."], home, name)
    return Program((str(home / "tests"),))


class Change(NamedTuple):
    """A change to the sources of somebody else's tests, before they are compiled.

    Attributes:
        file: the one that is changed.
        old: what stands there once.
        new: what takes its place.
        added: a file of the folder `go/suites` that is put beside it.
    """

    file: str
    old: str
    new: str
    added: str = ""

    @property
    def digest(self) -> str:
        """Tells it from others."""
        beside = (SUITES / self.added).read_bytes() if self.added else b""
        return hashlib.sha256(beside + repr(self).encode()).hexdigest()[:8]

    def make(self, folder: Path) -> None:
        """Make it in the folder of the tests."""
        if self.added:
            shutil.copy(SUITES / self.added, folder)
        source = (folder / self.file).read_text(encoding="utf-8")
        assert source.count(self.old) == 1, f"{self.file} has another {self.old!r}"
        (folder / self.file).write_text(source.replace(self.old, self.new), encoding="utf-8")


def go_suite(module: str, package: str = ".", changes: Sequence[Change] = ()) -> tuple[str, Path]:
    """Build the tests of a Go module, as its authors run them, in the version that the file of modules names.

    Args:
        module: its path.
        package: the folder in it whose tests are meant.
        changes: what is changed in them.

    Returns:
        The version without its `v`, and the program that `go test -c` makes of them; it runs in its folder.
    """
    about = ["go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", module]
    sources = SOURCES / "go"
    # Go has the sources at hand only where they were asked for.
    subprocess.run(
        ["go", "mod", "download", module], cwd=sources, check=True, capture_output=True, timeout=500
    )
    done = subprocess.run(about, cwd=sources, check=True, capture_output=True, text=True, timeout=500)
    version, where = done.stdout.split()
    changed = "".join(f"-{change.digest}" for change in changes)
    home = CACHE / f"{module.rsplit('/', 1)[1]}-tests-{version}{changed}"
    binary = home / package / "tests"
    with kafka_peer.building(home.name):
        if not binary.exists():
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(where, home, copy_function=shutil.copy)
            for path in (home, *home.rglob("*")):
                path.chmod(path.stat().st_mode | 0o200)
            for change in changes:
                change.make(home / package)
            _build(["go", "test", "-mod=mod", "-c", "-o", str(binary), f"./{package}"], home, "go test")
    return version.removeprefix("v"), binary


def rust_program(name: str) -> Program:
    """The program of the folder `rust`, with the crates of its lock file; librdkafka is compiled along."""
    home = CACHE / "rust"
    with kafka_peer.building("rust"):
        command = ["cargo", "build", "--locked", "--quiet", "--target-dir", str(home)]
        # Nobody measures it: unoptimised and without debug information it takes half of the time.
        quick = {"CFLAGS": "-O0 -g0", "CARGO_PROFILE_DEV_DEBUG": "0"}
        _build(command, SOURCES / "rust", name, quick)
    return Program((str(home / "debug" / name),))


LIBRDKAFKA = ("./configure", "--disable-optimization", "--disable-gssapi", "--disable-curl")


def librdkafka_suite(changes: Sequence[Change]) -> tuple[str, Path]:
    """Build librdkafka's own tests, of the sources that the crate of the lock file carries.

    Args:
        changes: what is changed in them.

    Returns:
        Its version, and the `test-runner`; it runs in its folder.
    """
    with kafka_peer.building("librdkafka-tests"):
        # It downloads the crates that are not here.
        about = ["cargo", "metadata", "--locked", "--format-version", "1"]
        done = subprocess.run(
            about, cwd=SOURCES / "rust", check=True, capture_output=True, text=True, timeout=500
        )
        (crate,) = (one for one in json.loads(done.stdout)["packages"] if one["name"] == "rdkafka-sys")
        version = crate["version"].partition("+")[2]
        changed = "-".join(change.digest for change in changes)
        home = CACHE / f"librdkafka-tests-{version}-{changed}"
        tests = home / "tests"
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(Path(crate["manifest_path"]).parent / "librdkafka", home)
            for change in changes:
                change.make(tests)
            _build(LIBRDKAFKA, home, "librdkafka")
            _build(["make", "-j2", "libs"], home, "librdkafka")
            _build(["make", "-j2", "-C", "tests", "build"], home, "librdkafka's tests")
            (home / "complete").touch()
    return version, tests / "test-runner"


def node_program(name: str) -> Program:
    """A program of the folder `node`, with the packages of its lock file."""
    home = CACHE / "node"
    lock = (SOURCES / "node" / "package-lock.json").read_bytes()
    stamp = home / "complete"
    digest = hashlib.sha256(lock).hexdigest()
    with kafka_peer.building("node"):
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != digest:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            for file in ("package.json", "package-lock.json"):
                shutil.copy(SOURCES / "node" / file, home)
            _build(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], home, name)
            stamp.write_text(digest, encoding="utf-8")
    script = SOURCES / "node" / f"{name}.js"
    return Program(("node", str(script)), {"NODE_PATH": str(home / "node_modules")})


def python_program(name: str) -> Program:
    """A program of the folder `python`, run by the Python of the tests."""
    return Program((sys.executable, str(SOURCES / "python" / f"{name}.py")))


def python_with(distribution: str, version: str, extras: str = "") -> str:
    """The Python of an environment that has a release from PyPI, what that needs, and nothing else.

    Args:
        distribution, version: the release.
        extras: of the distribution, with commas between them.

    Raises:
        RuntimeError: it cannot be had.
    """
    folder = CACHE / "-".join(filter(None, (distribution, version, *extras.split(","))))
    python, complete = folder / "bin" / "python", folder / "complete"
    with kafka_peer.building(folder.name):
        if not complete.exists():
            venv.create(folder, with_pip=True, clear=True)
            words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _build([str(python), *words, f"{distribution}[{extras}]=={version}"], folder, distribution)
            complete.touch()
    return str(python)


def debian_packages(*names: str) -> Path:
    """A folder with what packages of Debian's hold, unpacked and not installed: some exclude each other.

    Raises:
        RuntimeError: they cannot be had.
    """
    folder = CACHE / "debian" / "-".join(names)
    with kafka_peer.building(folder.name):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                _build(["apt-get", "download", *names], folder, names[0])
                for package in folder.glob("*.deb"):
                    _build(["dpkg", "-x", str(package), "."], folder, package.name)
            except FileNotFoundError as why:
                raise RuntimeError(f"not on this machine: {why.filename}") from None
            (folder / "complete").touch()
    return folder


def debian_release(folder: Path, name: str) -> str:
    """The release of a package in such a folder, without Debian's own number."""
    (package,) = folder.glob(f"{name}_*.deb")
    return package.name.split("_")[1].partition("-")[0]


class ProgramMember:
    """A running `consume`: its lines are gathered as they come."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self.records: list[dict[str, Any]] = []
        self._assigned: set[int] = set()
        self._given = 0
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for text in self.child.stdout:
            line = json.loads(text)
            with self._more:
                if "assigned" in line:
                    self._assigned = set(line["assigned"])
                else:
                    self.records.append(line)
                self._more.notify_all()

    def poll(self) -> list[bytes]:
        """Values that have come since the last call."""
        with self._more:
            if len(self.records) == self._given:
                self._more.wait(0.1)
            fresh, self._given = self.records[self._given :], len(self.records)
        return [record["value"].encode() for record in fresh]

    def partitions(self) -> set[int]:
        """The partitions that it told of last."""
        return self._assigned

    def close(self) -> None:
        """Have it commit and leave, and wait for its end."""
        assert self.child.stdin is not None and self.child.stderr is not None
        self.child.stdin.close()
        try:
            status = self.child.wait(60)
            errors = self.child.stderr.read()
        finally:
            self.kill()
        assert status == 0, errors[-3000:]

    def kill(self) -> None:
        """End it whatever it does; a pipe left open would be told of in somebody else's test."""
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait(WITHIN_S)
        joined(self._reader)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            assert pipe is not None
            pipe.close()


class ProgramClient:
    """A program at a broker, told as `members.Client`; the codecs take turns."""

    def __init__(self, program: Program, bootstrap: str, version: str, codecs: Sequence[str]) -> None:
        self.program = program
        self.at = (bootstrap, version)
        self.codecs = codecs
        self.members: list[ProgramMember] = []

    def run(self, role: str, *words: str, stdin: str = "") -> Any:
        """Run a role to its end."""
        return self.program.run(role, *self.at, *words, stdin=stdin)

    def produce(self, topic: str, values: list[bytes]) -> None:
        """Send a share of the values with each codec."""
        count = len(self.codecs)
        for i, codec in enumerate(self.codecs):
            lines = [value.decode() for value in values[i::count]]
            self.run("produce", topic, codec, stdin="".join(f"{line}\n" for line in lines))

    def join(self, topic: str, group: str, version: str | None = None) -> ProgramMember:
        """A new member; `version` in place of the one that all roles are told."""
        bootstrap, usual = self.at
        member = ProgramMember(self.program.start("consume", bootstrap, version or usual, topic, group))
        self.members.append(member)
        return member

    def close(self) -> None:
        """End what still runs."""
        for member in self.members:
            member.kill()
