"""`parse_fetch` and `encode_fetch`: compiled where there is the kernel, else the twin `broker._pyfetch`."""

from __future__ import annotations

from odradek.util.compiled import choose

_chosen, COMPILED = choose("odradek._fetch", "odradek.broker.fast._pyfetch")
parse_fetch = _chosen.parse_fetch
encode_fetch = _chosen.encode_fetch
