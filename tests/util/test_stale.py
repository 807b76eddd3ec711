"""What was compiled of sources that have changed since."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from odradek.util.stale import check_walk, digest, is_stale, kernel, note, stale_walk, walk

PART, SHARED, WALKED = "log/_part.pyx", "_shared.pxd", "log/log.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which all is compiled."""
    sources = tmp_path / "src/odradek"
    (sources / "log").mkdir(parents=True)
    for name in (PART, SHARED, WALKED):
        (sources / name).write_text(f"# {name}\n", encoding="utf-8")
    (tmp_path / f"src/odradek__mypyc{sysconfig.get_config_var('EXT_SUFFIX')}").touch()
    note(tmp_path).parent.mkdir()
    note(tmp_path).write_text(
        "".join(f"{digest(sources / name)}  {name}\n" for name in (PART, SHARED, WALKED)), encoding="utf-8"
    )
    return tmp_path


def test_what_mypyc_compiles_says_so_in_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / WALKED).write_text("# compiled: mypyc\n", encoding="utf-8")
    (tmp_path / "b.py").write_text('"""Of what is not."""\n# compiled: mypyc\n', encoding="utf-8")
    (tmp_path / "a.py").write_text("# compiled: mypyc\nimport b\n", encoding="utf-8")
    assert walk(tmp_path) == ["a.py", WALKED]


def test_the_kernel_is_found_in_all_rooms(checkout: Path) -> None:
    assert kernel(checkout / "src/odradek") == [SHARED, PART]


def test_nothing_has_changed(checkout: Path) -> None:
    assert not is_stale(PART, checkout)
    assert list(stale_walk(checkout)) == []
    check_walk(checkout)


@pytest.mark.parametrize("changed", [PART, SHARED])
def test_a_part_of_the_kernel_whose_source_has_changed(checkout: Path, changed: str) -> None:
    (checkout / "src/odradek" / changed).write_text("# other\n", encoding="utf-8")
    assert is_stale(PART, checkout)
    check_walk(checkout)


def test_no_broker_begins_when_the_walk_has_changed(checkout: Path) -> None:
    (checkout / "src/odradek" / WALKED).write_text("# other\n", encoding="utf-8")
    assert list(stale_walk(checkout)) == [WALKED]
    with pytest.raises(ImportError, match=r"log/log\.py has changed since it was compiled.*pip install -e"):
        check_walk(checkout)


def test_a_walk_that_is_interpreted_may_change(checkout: Path) -> None:
    (checkout / "src/odradek" / WALKED).write_text("# other\n", encoding="utf-8")
    (checkout / f"src/odradek__mypyc{sysconfig.get_config_var('EXT_SUFFIX')}").unlink()
    check_walk(checkout)


def test_what_nobody_noted_or_what_is_not_there_is_not_stale(checkout: Path, tmp_path: Path) -> None:
    assert not is_stale("_other.pyx", checkout)
    assert not is_stale(PART, tmp_path / "elsewhere")
    (checkout / "src/odradek" / PART).unlink()
    assert not is_stale(PART, checkout)


def test_a_twin_serves_where_the_kernel_is_stale(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from odradek.util import compiled

    monkeypatch.delenv("ODRADEK_KERNEL", raising=False)
    monkeypatch.setattr(compiled, "is_stale", lambda name: name == "log/storage/_writing.pyx")
    module, is_compiled = compiled.choose("odradek.log.storage._writing", "odradek.log.storage._pywriting")
    assert (module.__name__, is_compiled) == ("odradek.log.storage._pywriting", False)
    assert "log/storage/_writing.pyx has changed since it was compiled" in caplog.text
    monkeypatch.setenv("ODRADEK_KERNEL", "native")
    with pytest.raises(ImportError, match=r"_writing\.pyx has changed"):
        compiled.choose("odradek.log.storage._writing", "odradek.log.storage._pywriting")
