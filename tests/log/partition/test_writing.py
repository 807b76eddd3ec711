"""A batch that is written to its place in a log, by both kernels alike."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from odradek.log.storage import _pywriting as twin
from odradek.log.storage.memory_files import MemoryFileSystem
from odradek.log.storage.real_files import RealFileSystem
from odradek.records.batch import iter_batches

from ..batches import batch

try:
    native: Any = importlib.import_module("odradek.log.storage._writing")
except ImportError:
    native = None

KERNELS = [
    pytest.param(twin, id="python"),
    pytest.param(
        native, id="native", marks=pytest.mark.skipif(native is None, reason="the kernel is not compiled")
    ),
]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("value_bytes", [1, 1_950, 1_990, 2_100, 300_000])
@pytest.mark.parametrize("container", [bytes, bytearray, memoryview])
def test_a_batch_gets_its_offset_and_epoch_and_nothing_else_changes(
    kernel: Any, value_bytes: int, container: Any, tmp_path: Path
) -> None:
    sent = bytes(batch([b"v" * value_bytes]))
    with (tmp_path / "log").open("w+b") as file:
        given = container(sent)
        written = kernel.write_batch(file.fileno(), given, 5, 2**40 + 7, 2**31 - 1)
        assert written == len(sent)
        stored = os.pread(file.fileno(), 2 * len(sent), 0)
    assert bytes(given) == sent
    assert stored[:5] == bytes(5)
    assert stored[5:] == (2**40 + 7).to_bytes(8) + sent[8:12] + (2**31 - 1).to_bytes(4) + sent[16:]
    ((header, _),) = iter_batches(stored[5:])
    assert (header.base_offset, header.partition_leader_epoch) == (2**40 + 7, 2**31 - 1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_cannot_be_written_says_why(kernel: Any, tmp_path: Path) -> None:
    sent = bytes(batch([b"v"]))
    with pytest.raises(ValueError, match="no record batch has 15 bytes"):
        kernel.write_batch(0, sent[:15], 0, 0, 0)
    (tmp_path / "log").touch()
    file = os.open(tmp_path / "log", os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        kernel.write_batch(file, sent, 0, 0, -1)
    os.close(file)


@pytest.mark.parametrize("files", [RealFileSystem(), MemoryFileSystem()], ids=["real", "memory"])
def test_files_write_batches_alike(files: Any, tmp_path: Path) -> None:
    sent = bytes(batch([b"v" * 3_000]))
    if isinstance(files, MemoryFileSystem):
        files.make_dirs(tmp_path)
    file = files.open(tmp_path / "log", create=True)
    assert file.pwrite_batch(memoryview(sent), 0, 9, -1) == len(sent)
    assert file.pread(len(sent), 0) == (9).to_bytes(8) + sent[8:12] + b"\xff" * 4 + sent[16:]
    file.close()
