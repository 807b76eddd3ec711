"""No public signature of the clients has `Any` in it: what type checkers know of it, they would not know."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek import client
from odradek.client import types
from odradek.client.core.delivery import DeliveryMethods

Anything = Callable[[int], Any]

SPECIAL = {
    "__init__",
    "__iter__",
    "__next__",
    "__aiter__",
    "__anext__",
    "__await__",
    "__enter__",
    "__aenter__",
}


def public_classes() -> list[type]:
    """What is exported, and the values that go in and out."""
    exported = [getattr(client, name) for name in client.__all__]
    values = [value for name, value in vars(types).items() if not name.startswith("_")]
    own = [cls for cls in [*exported, *values, DeliveryMethods] if inspect.isclass(cls)]
    return sorted({cls for cls in own if cls.__module__.startswith("odradek.")}, key=lambda cls: cls.__name__)


def annotations_of(cls: type) -> Iterator[tuple[str, object, str]]:
    """(what it is about, the annotation, its module), of methods, properties and fields."""
    for name, annotation in getattr(cls, "__annotations__", {}).items():
        if not name.startswith("_"):
            yield f"{cls.__name__}.{name}", annotation, cls.__module__
    for name, member in inspect.getmembers(cls):
        if name.startswith("_") and name not in SPECIAL:
            continue
        function = member.fget if isinstance(member, property) else member
        module = str(getattr(function, "__module__", None))
        if not inspect.isroutine(function) or not module.startswith("odradek."):
            continue
        signature = inspect.signature(function)
        of = f"{cls.__name__}.{name}"
        for parameter in signature.parameters.values():
            yield f"{of}({parameter.name})", parameter.annotation, module
        yield f"{of} ->", signature.return_annotation, module


def has_any(annotation: object, module: str) -> bool:
    """Whether `Any` is in it, or in an alias that it names."""
    text = annotation if isinstance(annotation, str) else str(annotation)
    if re.search(r"\bAny\b", text):
        return True
    names = set(re.findall(r"[A-Za-z_]\w*", text))
    aliases = [vars(sys.modules[module]).get(name) for name in names]
    return any(re.search(r"\btyping\.Any\b", repr(alias)) for alias in aliases if not inspect.isclass(alias))


@pytest.mark.parametrize("cls", public_classes(), ids=lambda cls: cls.__name__)
def test_no_public_signature_has_any(cls: type) -> None:
    assert [of for of, annotation, module in annotations_of(cls) if has_any(annotation, module)] == []


def test_it_is_found_in_an_alias() -> None:
    assert has_any("Mapping[str, Any] | None", __name__)
    assert not has_any("Company", __name__)
    assert has_any("tuple[Anything]", __name__)
