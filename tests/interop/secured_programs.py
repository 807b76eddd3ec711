"""Clients of other languages at listeners with TLS or logins; what they take stands in the programs."""

from __future__ import annotations

import shutil

import pytest

from interop.programs import Program, go_program, node_program

NAMES = ("franzsecured", "kafkajssecured")


def secured_program(name: str) -> Program:
    """One of `NAMES`; skips the test where its language is not on this machine."""
    tool, make = ("go", go_program) if name == "franzsecured" else ("node", node_program)
    if shutil.which(tool) is None:
        pytest.skip(f"not on this machine: {tool}")
    return make(name)
