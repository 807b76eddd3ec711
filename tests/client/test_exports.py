"""The names of the package itself."""

from __future__ import annotations

import odradek
from odradek import client


def test_a_star_imports_what_is_promised() -> None:
    """`from odradek import *` in a shell, though nothing is imported before it is asked for."""
    names: dict[str, object] = {}
    exec("from odradek import *", names)
    for name in odradek.__all__:
        assert names[name] is getattr(client, name)
        assert name in dir(odradek)
