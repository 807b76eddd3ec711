"""What is made from the declarations of the clients' configs: `UPDATE_DOCS=1` writes it anew.

That is `odradek.client.config_dicts`, the types of keywords, and the table in docs/client/configs.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

from odradek.client.config import (
    AdminConfig,
    CommonConfig,
    ConsumerConfig,
    ProducerConfig,
    declared,
    kafka_name,
    python_name,
)
from odradek.client.security import takes

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "src/odradek/client/config_dicts.py"
PAGE = ROOT / "docs/client/configs.md"
BEGIN = "<!-- Made by tests/client/test_config_dicts.py of the declarations; UPDATE_DOCS=1 writes it. -->\n"
END = "<!-- end of what is made -->\n"

HEAD = '''"""Configs as keywords: their names and types, for type checkers.

Made by tests/client/test_config_dicts.py of the declarations in `odradek.client.config` and
`odradek.client.security`, which say the rest; UPDATE_DOCS=1 writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypedDict

from odradek.client.type_variables import (
    Deserializer,
    HasToken,
    K_co,
    K_contra,
    Serializer,
    V_co,
    V_contra,
)

if TYPE_CHECKING:
    from odradek.client.core.assignors import Assignor
    from odradek.client.core.partitioners import Partitioner
    from odradek.sasl.token_providers import TokenProvider
'''

#: A client that has a parameter of the same name cannot have it among its keywords.
NAMED = ("bootstrap_servers", "client_id", "transactional_id", "request_timeout_ms")
GENERIC = ("K_co", "V_co", "K_contra", "V_contra")


def type_of(spec: Field[Any]) -> str:
    """The type of a keyword, as Python's text."""
    if spec.metadata.get("takes"):
        return str(spec.metadata["takes"])
    if spec.metadata.get("one_of"):
        names = ", ".join(f'"{value}"' for value in spec.metadata["one_of"])
        return f"Literal[{names}]"
    return str(spec.type)


def belongs_to_all(spec: Field[Any]) -> bool:
    return spec.name in {common.name for common in declared(CommonConfig)}


def is_of_the_client(spec: Field[Any]) -> bool:
    return spec.name in NAMED or any(variable in type_of(spec) for variable in GENERIC)


def typed_dict(name: str, bases: str, doc: str, keys: Iterable[tuple[str, str]]) -> str:
    lines = [f"    {key}: {of_type}" for key, of_type in keys]
    return f'\n\nclass {name}({bases}, total=False):\n    """{doc}"""\n\n' + "\n".join(lines) + "\n"


def typed(specs: Iterable[Field[Any]]) -> list[tuple[str, str]]:
    return [(spec.name, type_of(spec)) for spec in specs]


def module() -> str:
    """`odradek.client.config_dicts`."""
    common = [spec for spec in declared(CommonConfig) if not is_of_the_client(spec)]
    named = [spec for spec in declared(CommonConfig) if is_of_the_client(spec)]
    security = [(python_name(name), of_type) for name, of_type in takes().items()]
    parts = [
        HEAD,
        typed_dict("CommonConfigs", "TypedDict", "Those of all clients.", [*typed(common), *security]),
    ]
    for title, kind, config_class, variables in (
        ("Send", "Producer", ProducerConfig, "K_contra, V_contra"),
        ("Read", "Consumer", ConsumerConfig, "K_co, V_co"),
    ):
        own = [spec for spec in declared(config_class) if not belongs_to_all(spec)]
        rest = [spec for spec in own if not is_of_the_client(spec)]
        parts.append(
            typed_dict(
                f"{title}Configs",
                "CommonConfigs",
                f"A {kind.lower()}'s, but for those that not all such clients take.",
                typed(rest),
            )
        )
        parts.append(
            typed_dict(
                f"{kind}Configs",
                f"{title}Configs, Generic[{variables}]",
                f"A {kind.lower()}'s.",
                typed([*named, *(spec for spec in own if is_of_the_client(spec))]),
            )
        )
    own = [spec for spec in declared(AdminConfig) if not belongs_to_all(spec)]
    parts.append(typed_dict("AdminConfigs", "CommonConfigs", "An admin client's.", typed([*named, *own])))
    return "".join(parts)


# The table of docs/client/configs.md


def default_of(spec: Field[Any]) -> str:
    value = spec.default
    assert value is not MISSING
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{part}`" for part in value)
    return f"`{value}`"


def unit_of(name: str) -> str:
    if name.endswith("_ms"):
        return "ms"
    in_bytes = ("_bytes", "_size", "_memory")
    return "bytes" if name.endswith(in_bytes) else ""


def note_of(spec: Field[Any]) -> str:
    parts = []
    if spec.metadata.get("one_of") and not spec.metadata.get("takes"):
        parts.append(" / ".join(f"`{value}`" for value in spec.metadata["one_of"]))
    if spec.metadata.get("note"):
        parts.append(str(spec.metadata["note"]))
    return ". ".join(parts)


def row(spec: Field[Any]) -> str:
    cells = [
        f"`{spec.name}`",
        f"`{kafka_name(spec.name)}`",
        default_of(spec),
        unit_of(spec.name),
        note_of(spec).replace("|", "\\|"),
    ]
    return f"| {' | '.join(cells)} |"


def table(title: str, specs: Sequence[Field[Any]]) -> str:
    head = ["| config | Kafka's name | default | unit | what differs |", "|---|---|---|---|---|"]
    return "\n".join([f"### {title}", "", *head, *map(row, specs), ""])


def tables() -> str:
    """The part of the page between `BEGIN` and `END`."""
    own = [
        (kind, [spec for spec in declared(config_class) if not belongs_to_all(spec)])
        for kind, config_class in (
            ("Producers", ProducerConfig),
            ("Consumers", ConsumerConfig),
            ("Admin clients", AdminConfig),
        )
    ]
    return "\n".join(table(title, specs) for title, specs in [("All clients", declared(CommonConfig)), *own])


def page_with(made: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, "the page has the place for the table"
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def hold(path: Path, text: str) -> None:
    if os.environ.get("UPDATE_DOCS"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "run with UPDATE_DOCS=1"


def test_the_types_of_keywords_are_made_from_the_declarations() -> None:
    hold(MODULE, module())


def test_the_table_is_made_from_the_declarations() -> None:
    hold(PAGE, page_with(tables()))
