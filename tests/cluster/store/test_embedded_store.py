"""The SQLite store: what survives a restart, a crash, a full disk; what a bad file gets."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.cluster.store.embedded import EmbeddedStore, StoreFileError
from odradek.cluster.store.store import Create, Delete, MetadataStore, SetData, StoreUnavailable, ensure_path
from odradek.cluster.store.tree import Plan
from odradek.util.clock import ManualClock
from waiting import WITHIN_S


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


def _dump(store: MetadataStore, path: str = "/") -> dict[str, object]:
    data, stat = store.get(path)
    # The number of the ephemeral nodes that ever were is not kept.
    found: dict[str, object] = {path: (data, stat._replace(cversion=0))}
    for name in store.children(path):
        found |= _dump(store, f"{path.rstrip('/')}/{name}")
    return found


def test_everything_but_ephemerals_survives_a_restart(file: Path) -> None:
    store = EmbeddedStore(file, ManualClock())
    ensure_path(store, "/a/b")
    store.set("/a/b", b"1")
    store.create("/a/null")
    store.create("/a/s_", sequence=True)
    store.create("/gone")
    store.delete("/gone")
    before = _dump(store)
    store.create("/a/live", b"x", ephemeral=True)
    store.close()
    with_restart = EmbeddedStore(file, ManualClock())
    assert _dump(with_restart) == before
    assert with_restart.create("/a/s_", sequence=True) == "/a/s_0000000003"
    with_restart.close()


def test_zxids_grow_across_restarts_even_if_only_ephemerals_were_made(file: Path) -> None:
    epochs: list[int] = []
    for _ in range(3):
        store = EmbeddedStore(file, ManualClock())
        store.multi([Create("/id", ephemeral=True), SetData("/id", b"{}")])
        stat = store.exists("/id")
        assert stat is not None
        epochs.append(stat.czxid)
        store.close()
    assert epochs == sorted(set(epochs))


def test_an_ephemeral_node_costs_no_write(file: Path) -> None:
    store = EmbeddedStore(file, ManualClock())
    store.create("/ids")
    written: list[str] = []
    store.database.set_trace_callback(written.append)
    store.multi([Create("/ids/1", ephemeral=True), SetData("/ids/1", b"{}")])
    store.delete("/ids/1")
    assert written == []
    store.close()


def test_a_session_id_is_never_used_twice(file: Path) -> None:
    ids = []
    for _ in range(3):
        store = EmbeddedStore(file)
        ids.append(store.session_id)
        store.close()
    assert ids == [1, 2, 3]


def test_a_second_process_is_refused_with_the_files_name(file: Path) -> None:
    store = EmbeddedStore(file)
    with pytest.raises(StoreFileError, match="in use by another broker") as caught:
        EmbeddedStore(file)
    assert str(file) in str(caught.value)
    store.create("/still-works")
    store.close()
    EmbeddedStore(file).close()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"not a database at all, but long enough to be looked at" * 40, "damaged or not a metadata store"),
        (b"SQLite format 3\0" + b"\xff" * 4096, "damaged or not a metadata store"),
    ],
)
def test_a_damaged_file_is_refused_and_left_alone(file: Path, content: bytes, complaint: str) -> None:
    file.write_bytes(content)
    with pytest.raises(StoreFileError, match=complaint) as caught:
        EmbeddedStore(file)
    assert str(file) in str(caught.value)
    assert file.read_bytes() == content


def test_a_foreign_sqlite_file_is_refused_and_left_alone(file: Path) -> None:
    db = sqlite3.connect(file)
    db.execute("CREATE TABLE accounts (name TEXT)")
    db.commit()
    db.close()
    before = file.read_bytes()
    with pytest.raises(StoreFileError, match="another program"):
        EmbeddedStore(file)
    assert file.read_bytes() == before


def test_a_file_of_a_newer_version_is_refused(file: Path) -> None:
    EmbeddedStore(file).close()
    db = sqlite3.connect(file)
    db.execute("PRAGMA user_version = 99")
    db.commit()
    db.close()
    with pytest.raises(StoreFileError, match="newer odradek"):
        EmbeddedStore(file)


def test_a_node_without_a_parent_is_damage(file: Path) -> None:
    store = EmbeddedStore(file)
    ensure_path(store, "/a/b")
    store.close()
    db = sqlite3.connect(file)
    db.execute("DELETE FROM node WHERE path = '/a'")
    db.commit()
    db.close()
    with pytest.raises(StoreFileError, match=r"damaged.*no parent"):
        EmbeddedStore(file)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFileError, match="cannot be"):
        EmbeddedStore(tmp_path / "absent" / "metadata.sqlite")


def test_a_write_that_fails_changes_nothing_and_later_ones_work(file: Path) -> None:
    store = EmbeddedStore(file)
    store.create("/a", b"0")
    pages = store.database.execute("PRAGMA page_count").fetchone()[0]
    store.database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreUnavailable, match="full"):
        store.multi([SetData("/a", b"1"), Create("/big", b"x" * 1_000_000)])
    assert store.get("/a")[0] == b"0"
    assert store.exists("/big") is None
    store.database.execute("PRAGMA max_page_count = 100000")
    store.multi([SetData("/a", b"1"), Create("/big", b"x" * 1_000_000)])
    store.close()
    again = EmbeddedStore(file)
    assert again.get("/a")[0] == b"1"
    again.close()


CHILD = """
import os, sys
from pathlib import Path
from odradek.cluster.store import embedded
from odradek.cluster.store.store import Create, SetData

file, crash_at, where = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
store = embedded.EmbeddedStore(file)
class Db:
    # Dies without warning around the commit of one chosen transaction.
    def __init__(self, db): self.db, self.commits = db, 0
    def __getattr__(self, name): return getattr(self.db, name)
    def execute(self, sql, *args):
        if sql == "COMMIT":
            self.commits += 1
            if self.commits == crash_at and where == "before": os._exit(9)
        result = self.db.execute(sql, *args)
        if sql == "COMMIT" and self.commits == crash_at and where == "after": os._exit(9)
        return result
    def executemany(self, sql, *args):
        result = self.db.executemany(sql, *args)
        if self.commits == crash_at - 1 and where == "within": os._exit(9)
        return result
store.database = Db(store.database)
store.create("/a", b"0")
for i in range(1, 10):
    store.multi([SetData("/a", str(i).encode()), Create(f"/t{i}"), Create(f"/t{i}/p", str(i).encode())])
    print(i, flush=True)
"""


@pytest.mark.parametrize("where", ["before", "within", "after"])
@pytest.mark.parametrize("crash_at", [2, 5])
def test_a_killed_process_leaves_whole_transactions(file: Path, crash_at: int, where: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(file), str(crash_at), where],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert child.returncode == 9, child.stderr
    acknowledged = int((child.stdout.split() or ["0"])[-1])
    store = EmbeddedStore(file)
    data, _ = store.get("/a")
    last = int(data or b"-1")
    # What was acknowledged is there; one more may be that was committed but not yet acknowledged.
    assert last == (crash_at - 1 if where == "after" else crash_at - 2)
    assert acknowledged in (last, last - 1)
    topics = [name for name in store.children("/") if name.startswith("t")]
    assert sorted(topics) == [f"t{i}" for i in range(1, last + 1)]
    for name in topics:
        assert store.get(f"/{name}/p")[0] == name[1:].encode()
    store.create("/more")
    store.close()


def test_what_is_planned_but_not_written_is_not_seen(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EmbeddedStore(file)

    def fails(plan: Plan) -> None:
        raise StoreUnavailable(str(file), "no")

    monkeypatch.setattr(store, "_write", fails)
    with pytest.raises(StoreUnavailable):
        store.create("/a")
    assert store.exists("/a") is None
    monkeypatch.undo()
    store.create("/a")
    store.delete("/a")
    with pytest.raises(StoreUnavailable):
        monkeypatch.setattr(store, "_write", fails)
        store.multi([Create("/b"), Delete("/b")])
    store.close()


def test_the_file_is_for_its_owner(tmp_path: Path) -> None:
    """Credentials of users stand in it; one of a release that let others read is closed to them."""
    path = tmp_path / "metadata.db"
    EmbeddedStore(path, ManualClock()).close()
    assert path.stat().st_mode & 0o077 == 0
    path.chmod(0o644)
    store = EmbeddedStore(path, ManualClock())
    assert path.stat().st_mode & 0o007 == 0
    assert all(one.stat().st_mode & 0o007 == 0 for one in tmp_path.iterdir())
    store.close()
