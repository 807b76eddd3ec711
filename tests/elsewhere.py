"""Run a part of the tests as they would run elsewhere: another day, folder, user, home, time zone, locale.

A test may hold only in the folder, in the week, or for the user that it was written by. Each *world* below
has one such thing changed, for all processes that a test starts; a world's name says what. What a world needs
and this machine lacks is told by name, and that world left out.

python tests/elsewhere.py [--worlds NAME,…] [ARGUMENTS OF PYTEST]: each world by itself, on these tests
python tests/elsewhere.py --together [ARGUMENTS OF PYTEST]: as few runs as have every world in them
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import util
from pathlib import Path

ROOT = Path(__file__).parents[1]
DAY_S = 86_400
BEFORE_MIDNIGHT_S = 20
"""What a run needs until its first tests begin, roughly: midnight is to come while they run."""

NOBODY_KNOWN = 12_345
"""A user id without a name, as containers have it."""


class Absent(Exception):
    """What a world needs is not on this machine; the message names it."""


@dataclass
class Run:
    """How pytest is started.

    Attributes:
        checkout: the folder that the tests run in, a copy of this one.
        command: what stands before it.
        environment: what is changed of the environment; None takes a variable away.
    """

    checkout: Path
    command: list[str] = field(default_factory=list)
    environment: dict[str, str | None] = field(default_factory=dict)


def _shifted(run: Run, seconds: int) -> None:
    found = util.find_spec("libfaketime")
    libraries = sorted(Path(found.origin or "").parent.rglob("libfaketime.so*")) if found else []
    if not libraries:
        raise Absent("libfaketime is not installed, which needs a C compiler")
    # The wall clock alone: nobody's monotonic clock jumps. Files have the times that the processes see.
    run.environment |= {
        "LD_PRELOAD": str(libraries[0]),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def in_eight_days(run: Run) -> None:
    """`segment.ms`, and whatever else takes a week, has passed since recordings were made."""
    _shifted(run, 8 * DAY_S)


def in_four_hundred_days(run: Run) -> None:
    """Certificates have expired, and the year is another."""
    _shifted(run, 400 * DAY_S)


def as_a_month_ends(run: Run) -> None:
    """Some seconds before midnight of a month's last day, by UTC, which is the time zone then."""
    run.environment["TZ"] = "UTC"
    now = datetime.now(UTC)
    first = (now.replace(day=1) + timedelta(days=32)).replace(day=1, hour=0, minute=0, second=0)
    _shifted(run, int((first - now).total_seconds()) - BEFORE_MIDNIGHT_S)


def in_another_folder(run: Run) -> None:
    """A path with a blank and letters that are not ASCII."""
    place = run.checkout.parent / "Ein Blank und ü" / "odradek"
    place.parent.mkdir()
    run.checkout.rename(place)
    run.checkout = place


def in_another_zone(run: Run) -> None:
    """A time zone with an odd offset, a quarter of an hour in it."""
    run.environment["TZ"] = "Asia/Kathmandu"


def in_another_locale(run: Run) -> None:
    """A locale of ASCII, which Python does not override."""
    run.environment |= {"LC_ALL": "C", "LANG": None, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def with_a_read_only_home(run: Run) -> None:
    """Nothing can be written below the home folder."""
    home = run.checkout.parent / "home"
    home.mkdir()
    home.chmod(stat.S_IRUSR | stat.S_IXUSR)
    run.environment["HOME"] = str(home)


def as_somebody_else(run: Run) -> None:
    """A user who is not root and has no name."""
    run.environment |= {"USER": None, "LOGNAME": None}
    if os.geteuid() != 0:
        return
    # In a user namespace: files still belong to whoever runs this, without root's power over them.
    command = ["unshare", "--user", f"--map-user={NOBODY_KNOWN}", f"--map-group={NOBODY_KNOWN}"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as problem:
        raise Absent(f"unshare --user gives no namespace of users: {problem}") from problem
    run.command += command


World = Callable[[Run], None]

WORLDS: tuple[World, ...] = (
    in_eight_days,
    in_four_hundred_days,
    as_a_month_ends,
    in_another_folder,
    in_another_zone,
    in_another_locale,
    with_a_read_only_home,
    as_somebody_else,
)

TOGETHER: tuple[tuple[World, ...], ...] = (
    (in_eight_days, in_another_folder, in_another_zone),
    (in_four_hundred_days, with_a_read_only_home, as_somebody_else),
    (as_a_month_ends, in_another_locale),
)
"""Each world once. A home is read-only for those alone who are not root."""


def name_of(world: World) -> str:
    """A world's name on the command line."""
    return world.__name__.replace("_", "-")


@contextmanager
def copied() -> Iterator[Run]:
    """A copy of the checkout, with what is compiled, that goes away again."""
    with tempfile.TemporaryDirectory(prefix="odradek-elsewhere-", ignore_cleanup_errors=True) as folder:
        checkout = Path(folder) / "odradek"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            timeout=500,
        ).stdout
        names = [Path(os.fsdecode(name)) for name in listed.split(b"\0") if name]
        names += [found.relative_to(ROOT) for found in (ROOT / "src").rglob("*.so")]
        names += [found.relative_to(ROOT) for found in (ROOT / "build").glob("compiled*.sha256")]
        for name in names:
            if (ROOT / name).is_file():
                (checkout / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, checkout / name)
        yield Run(checkout)
        # Others have to be let in again before it can go.
        for home in Path(folder).glob("home"):
            home.chmod(0o700)


def run_in(worlds: Sequence[World], arguments: Sequence[str]) -> int:
    """Run the tests where all these worlds hold; 0 also if one of them is not to be had here."""
    told = ", ".join(name_of(world) for world in worlds)
    with copied() as run:
        for world in worlds:
            try:
                world(run)
            except Absent as absent:
                say(f"{told}: {name_of(world)} is left out: {absent}")
                if len(worlds) == 1:
                    return 0
        environment = {**os.environ, "PYTHONPATH": str(run.checkout / "src"), **run.environment}
        say(f"the tests {told}")
        return subprocess.run(
            [*run.command, sys.executable, "tests/again.py", *arguments],
            cwd=run.checkout,
            env={name: value for name, value in environment.items() if value is not None},
            check=False,
            timeout=500,
        ).returncode


def say(line: str) -> None:
    """Tell whoever reads the log."""
    sys.stdout.write(f"\n{line}\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    """Return the exit code: 0 if every test has passed in every world."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", default=",".join(name_of(world) for world in WORLDS), help="by name")
    parser.add_argument("--together", action="store_true", help="several worlds in each run")
    parser.add_argument("--turn", type=int, help="of the runs together, the one whose turn it is")
    chosen, arguments = parser.parse_known_args(words)
    names = set(chosen.worlds.split(","))
    if unknown := names - {name_of(world) for world in WORLDS}:
        parser.error(f"no such world: {', '.join(sorted(unknown))}")
    runs = TOGETHER if chosen.together else [(world,) for world in WORLDS]
    if chosen.together and chosen.turn is not None:
        now = TOGETHER[chosen.turn % len(TOGETHER)]
        others = [name_of(world) for worlds in TOGETHER if worlds != now for world in worlds]
        say(f"skipped, as it is the turn of others: {', '.join(others)}")
        runs = [now]
    wanted = [tuple(world for world in worlds if name_of(world) in names) for worlds in runs]
    codes = {worlds: run_in(worlds, arguments) for worlds in wanted if worlds}
    for worlds, code in codes.items():
        say(f"{', '.join(map(name_of, worlds))}: {'passed' if code == 0 else f'FAILED ({code})'}")
    return max(codes.values(), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
