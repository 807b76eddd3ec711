"""Every file of a data folder, damaged in several ways: the broker starts with what it had, or refuses to
start, names the file, and changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.broker.app import StartError
from odradek.errors.codes import ErrorCode

from .. import live
from ..apis.test_hostile import warnings_of
from ..net import run

RECORDS = 60


async def fill(data: Path) -> None:
    async with live.running(data, log_segment_bytes=16384) as broker:
        await broker.controller.event_queue.run(broker.groups.ensure_topic)
        await live.create_topic(broker, "t")
        client = await live.connect(broker)
        for number in range(RECORDS // 10):
            answer = await live.append(client, "t", live.batch([b"%d" % number * 300] * 10))
            assert answer.error_code == ErrorCode.NONE
        client.close()


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in folder.rglob("*")
        if path.name != ".lock"
    }


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("sound") / "data"
    run(lambda: fill(data))
    return data


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"\xff\xfe garbage\n" * 20)


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0garbage")


def remove(path: Path) -> None:
    path.unlink()


HARMLESS = {
    empty: {".index", ".timeindex", ".snapshot", ".kafka_cleanshutdown"},
    garble: {".index", ".timeindex", ".snapshot", ".kafka_cleanshutdown"},
    lengthen: {".index", ".timeindex", ".snapshot", ".kafka_cleanshutdown"},
    remove: {".index", ".timeindex", ".snapshot", ".kafka_cleanshutdown"},
}
"""What can be made anew: with these damaged the broker has to start, and has everything."""


@pytest.mark.parametrize("damage", HARMLESS)
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_damaged_file(damage: Callable[[Path], None], clean: bool, sound: Path, tmp_path: Path) -> None:
    files = [path.relative_to(sound) for path in sorted(sound.rglob("*")) if path.is_file()]
    assert len(files) > 20

    async def main() -> None:
        for file in files:
            if file.name == ".lock":
                continue
            data = tmp_path / "data"
            shutil.copytree(sound, data)
            if not clean:
                (data / ".kafka_cleanshutdown").unlink()
            if (data / file).exists():
                damage(data / file)
            before = tree(data)
            try:
                async with live.running(
                    data, log_segment_bytes=16384, odradek_refuse_damaged_logs=True
                ) as broker:
                    await asyncio.sleep(0)
                    found = broker.replicas.find("t", 0)
                    end = found.log.log_end_offset if found is not None else 0
            except StartError as refusal:
                harmless = file.suffix in HARMLESS[damage] or file.name in HARMLESS[damage]
                assert not harmless, f"{file}: {refusal}"
                assert file.name in str(refusal), f"{file}: {refusal}"
                assert tree(data) == before, file
            else:
                if file.suffix != ".log" and file.name != "metadata.sqlite":
                    assert end == RECORDS, file
            shutil.rmtree(data)

    logger = logging.getLogger("odradek")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        run(main)
    finally:
        logger.setLevel(level)


def test_a_folder_in_a_files_place(sound: Path, tmp_path: Path) -> None:
    async def main() -> None:
        for name in ("meta.properties", "metadata.sqlite"):
            data = tmp_path / name / "data"
            shutil.copytree(sound, data)
            (data / name).unlink()
            (data / name).mkdir()
            before = tree(data)
            with pytest.raises(StartError, match=name):
                async with live.running(data):
                    pass
            assert tree(data) == before

    run(main)


def test_a_file_in_the_folders_place(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "data").write_text("mine", encoding="utf-8")
        for data in (tmp_path / "data", tmp_path / "data" / "below"):
            with pytest.raises(StartError, match=str(data)):
                async with live.running(data):
                    pass
        assert (tmp_path / "data").read_text(encoding="utf-8") == "mine"
        with pytest.raises(StartError, match="/proc/nowhere"):
            async with live.running(Path("/proc/nowhere")):
                pass

    run(main)


def test_lost_metadata_is_made_again_of_the_logs(sound: Path, tmp_path: Path) -> None:
    async def main() -> None:
        data = tmp_path / "data"
        shutil.copytree(sound, data)
        (data / "metadata.sqlite").unlink()
        logs = {name: content for name, content in tree(data).items() if name.endswith(".log")}
        with warnings_of() as lines:
            async with live.running(data) as broker:
                assert set(broker.image.topics) == {"__consumer_offsets", "t"}
                assert broker.replicas.get("t", 0).log.config.retention_ms == -1
        (line,) = [one for one in lines if "no metadata was there" in one]
        assert "count=2" in line
        assert {name: content for name, content in tree(data).items() if name.endswith(".log")} == logs

    run(main)


@pytest.mark.parametrize(
    "text",
    [
        "version=7\nbroker.id=0\ncluster.id=x\n",
        "version=0\nbroker.id=many\ncluster.id=x\n",
        "version=0\nbroker.id=0\ncluster.id=another-cluster-entirely\n",
        "version=1\nnode.id=4\ncluster.id=x\n",
        "broker.id=0\\u12\n",
    ],
)
def test_a_foreign_identity(text: str, sound: Path, tmp_path: Path) -> None:
    async def main() -> None:
        data = tmp_path / "data"
        shutil.copytree(sound, data)
        (data / "meta.properties").write_bytes(text.encode("latin-1"))
        before = tree(data)
        with pytest.raises(StartError, match=r"meta\.properties"):
            async with live.running(data, broker_id=0):
                pass
        assert tree(data) == before

    run(main)
