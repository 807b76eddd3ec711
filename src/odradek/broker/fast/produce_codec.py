"""`parse_produce`, `check_batch`, `encode_produce`: compiled where there is the kernel, else the twin
`broker._pyproduce`, which is their contract."""

from __future__ import annotations

from odradek.util.compiled import choose

_chosen, COMPILED = choose("odradek._produce", "odradek.broker.fast._pyproduce")
parse_produce = _chosen.parse_produce
check_batch = _chosen.check_batch
encode_produce = _chosen.encode_produce
