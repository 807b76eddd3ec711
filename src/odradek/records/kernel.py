"""The per-record loops: compiled where the wheel or the machine has them, else the pure-Python twin.

See `odradek.util.compiled` for how to force one of the two.
"""

from __future__ import annotations

from odradek.util.compiled import choose

kernel, NATIVE = choose("odradek.records._kernel", "odradek.records._pykernel")
"""The kernel in use, and whether it is the compiled one."""
