"""Single values as Arrow's, made of their bytes.

Where Arrow converts an object of Python's itself (`pa.scalar`, `pa.array`, a number given to `pc.equal`), it
imports pandas first, if that is installed: half a second of each process that reads or writes columns.
"""

from __future__ import annotations

import struct

import pyarrow as pa


def int32(value: int) -> pa.Int32Scalar:
    """Return a number as Arrow's int32.

    Raises:
        struct.error: it does not fit.
    """
    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(struct.pack("=i", value))])[0]


def string(value: str) -> pa.StringScalar:
    """Return text as Arrow's string."""
    data = value.encode()
    ends = pa.py_buffer(struct.pack("=ii", 0, len(data)))
    return pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(data)])[0]
