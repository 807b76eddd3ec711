"""The decoders: compiled where the wheel or the machine has them, else their twins in pure Python.

See `odradek.util.compiled` for how to force one of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.util.compiled import choose

if TYPE_CHECKING:
    import pyarrow as pa

tree_kernel, NATIVE = choose("odradek.spark.formats._tree", "odradek.spark.formats._pytree")
json_kernel, _ = choose("odradek.spark.formats._json", "odradek.spark.formats._pyjson")
avro_kernel, _ = choose("odradek.spark.formats._avro", "odradek.spark.formats._pyavro")
protobuf_kernel, _ = choose("odradek.spark.formats._protobuf", "odradek.spark.formats._pyprotobuf")


def records_of(array: pa.Array) -> Any:
    """A binary array as the decoders take it."""
    validity, offsets, data = array.buffers()
    return tree_kernel.Records(
        validity if array.null_count else None, offsets, data, array.offset, len(array)
    )
