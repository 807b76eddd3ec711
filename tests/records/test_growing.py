"""Buffers of the compiled kernels without memory to grow into: an error, and what is in them stays."""

from __future__ import annotations

import subprocess
import sys

import pytest

from odradek.records.kernel import NATIVE
from odradek.spark.formats import kernels
from waiting import WITHIN_S

WITHIN_LITTLE_MEMORY = """
import pathlib, resource, struct
from odradek.records._kernel import ColumnBuilder, append_record
from odradek.spark.formats._tree import Records, Tree, decode_text
from odradek.spark.formats.kinds import STRING

value = bytes(8 << 20)
section = bytearray()
append_record(section, 0, 0, None, value, [("h", None)])
builder = ColumnBuilder(True, False, 1)
tree = Tree((STRING, b"", 0, 0, 1, []))
records = Records(None, struct.pack("<2i", 0, len(value)), value, 0, 1)
pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
most = pages * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))


def refused(append):
    for _ in range(100):
        try:
            append()
        except MemoryError:
            return True
    return False


assert refused(lambda: builder.append(section, 1, 0, 0, 0, 0, 0, 0, 2**62, 2**30, 2**40))
rows, keys, values, *_, headers = builder.finish()
assert rows > 0 and len(values[-1]) == rows * len(value)
# The record that could not be taken over has left nothing: its key, which is null, came first.
assert keys[1] == rows and len(keys[2]) == len(values[2]) == 4 * (rows + 1)
lists, header_count, names, payloads = headers
assert header_count == payloads[1] == len(names[-1]) == rows and len(lists[-1]) == 4 * (rows + 1)
del keys, values, headers, lists, names, payloads
assert refused(lambda: decode_text(tree, records))
assert tree.rows > 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and RLIMIT_AS is not held everywhere")
@pytest.mark.skipif(not (NATIVE and kernels.NATIVE), reason="the kernels are not compiled, or not wanted")
def test_no_memory_is_an_error() -> None:
    subprocess.run([sys.executable, "-c", WITHIN_LITTLE_MEMORY], check=True, timeout=WITHIN_S)
