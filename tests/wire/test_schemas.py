"""Every schema is found by Kafka's name, in one module alone."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from odradek.wire import schemas
from odradek.wire.message import Message


def _declared(module: str) -> dict[str, type[Message]]:
    names = vars(import_module(f"odradek.wire.schemas.{module}"))
    return {
        name: cls
        for name, cls in names.items()
        if isinstance(cls, type) and issubclass(cls, Message) and cls.KIND
    }


def test_every_module_is_looked_through() -> None:
    assert sorted(schemas.MODULES) == sorted(found.name for found in pkgutil.iter_modules(schemas.__path__))


def test_every_schema_is_found_by_its_name_and_is_declared_once() -> None:
    declared = [item for module in schemas.MODULES for item in _declared(module).items()]
    assert len(dict(declared)) == len(declared) == 59
    for name, cls in declared:
        assert schemas.schema_class(name) is cls


@pytest.mark.parametrize("name", ["Nonsense", "StateBatch", "Data", "record_key", "__name__"])
def test_what_is_no_schema_is_not_found(name: str) -> None:
    with pytest.raises(ValueError, match=f"no schema is called {name}"):
        schemas.schema_class(name)
