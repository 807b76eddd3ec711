"""Headers as a map; of a name that is there several times the last counts, as with `Headers.lastHeader`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def as_map(headers: pa.Array, map_type: Any) -> pa.Array:
    """A list of (key, value) for each row as a map of `map_type` (string to binary)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = headers.values.field("key")
    offsets = headers.offsets
    rows = pc.list_parent_indices(headers)
    at = offsets[0].as_py() if len(offsets) else 0
    inside = headers.values.slice(at, len(rows))
    if _repeats(rows, inside.field("key")):
        return pa.array([_last(row) for row in headers.to_pylist()], map_type)
    entries = pa.StructArray.from_arrays(
        [names, headers.values.field("value")], fields=[map_type.key_field, map_type.item_field]
    )
    buffers = headers.buffers()[:2]
    return pa.Array.from_buffers(
        map_type, len(headers), buffers, headers.null_count, headers.offset, children=[entries]
    )


def _repeats(rows: pa.Array, names: pa.Array) -> bool:
    """Return whether any row has a name twice."""
    import pyarrow as pa

    pairs = pa.table({"row": rows, "name": names})
    return pairs.group_by(["row", "name"]).aggregate([]).num_rows < pairs.num_rows


def _last(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    if headers is None:
        return None
    return list({header["key"]: header["value"] for header in headers}.items())
