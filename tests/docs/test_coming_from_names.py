"""The pages of docs/coming_from name configs, defaults, classes and methods that are there, on both sides."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

import aiokafka
import pytest

import odradek
from client.test_names_elsewhere import librdkafka_properties
from odradek import AsyncConsumer
from odradek.client.config import AdminConfig, ConsumerConfig, ProducerConfig, python_name

from .config_tables import filled
from .pairs import FOLDER, PACKAGES, needs_package

OURS = (
    "odradek",
    "odradek.client.types",
    "odradek.errors",
    "odradek.client.errors",
    "odradek.client.processing",
)
THEIRS = {
    "confluent_kafka": ("confluent_kafka", "confluent_kafka.admin", "confluent_kafka.aio"),
    "kafka_python": ("kafka", "kafka.admin"),
    "aiokafka": ("aiokafka", "aiokafka.admin"),
    "faust": ("faust", "faust.events", "faust.agents"),
}
WHOLE = {
    "confluent_kafka": ("Producer", "Consumer", "AdminClient"),
    "kafka_python": ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient"),
    "aiokafka": ("AIOKafkaProducer", "AIOKafkaConsumer", "AIOKafkaAdminClient"),
}
"""Classes of which a page names every method."""

_NAME = re.compile(r"`([A-Z]\w*(?:\.\w+)?)(?:\(([^`]*)\))?`")
PAGES = {page: (FOLDER / f"{page}.md").read_text(encoding="utf-8") for page in PACKAGES}


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a line of the page."""
    table = re.search(r"^\|.*?\n\|[-|]+\n((?:\|.*\n)+)", PAGES[page].partition(heading)[2], re.MULTILINE)
    assert table is not None, f"{page}: no table below {heading}"
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[1].splitlines()]


def there_is(name: str, modules: list[ModuleType]) -> Any:
    """What a `Class.attribute` is that a module has, or a field that a dataclass has.

    Raises:
        AttributeError: there is none.
    """
    first, _, attribute = name.partition(".")
    found = next((vars(module)[first] for module in modules if first in vars(module)), None)
    if found is None:
        found = getattr(modules[0], first)
    if not attribute or (is_dataclass(found) and attribute in {f.name for f in fields(found)}):
        return found
    return getattr(found, attribute)


def missing(page: str, column: int, modules: list[str]) -> Iterator[str]:
    """The names of a column that are not there, and the arguments that they do not take."""
    imported = [importlib.import_module(module) for module in modules]
    for row in rows(page, "## Classes and methods"):
        for name, arguments in _NAME.findall(row[column]):
            try:
                found = there_is(name, imported)
            except AttributeError:
                yield name
                continue
            taken = re.findall(r"(\w+)=", arguments)
            if taken:
                yield from (
                    f"{name}({one}=)" for one in taken if one not in inspect.signature(found).parameters
                )


@pytest.mark.parametrize("page", PACKAGES)
def test_what_is_named_of_ours_is_there(page: str) -> None:
    assert list(missing(page, 1, list(OURS))) == []


@pytest.mark.parametrize("page", PACKAGES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_named_of_theirs_is_there(page: str) -> None:
    needs_package(page)
    assert list(missing(page, 0, list(THEIRS[page]))) == []


@pytest.mark.parametrize("page", WHOLE)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_each_method_of_theirs_is_named(page: str) -> None:
    named = {name for row in rows(page, "## Classes and methods") for name, _ in _NAME.findall(row[0])}
    modules = [importlib.import_module(module) for module in THEIRS[page]]
    methods = {
        f"{name}.{method}"
        for name in WHOLE[page]
        for method, value in inspect.getmembers(there_is(name, modules))
        if not method.startswith("_") and callable(value)
    }
    assert sorted(methods - named) == []


@pytest.mark.parametrize("page", WHOLE)
def test_a_method_that_both_have_is_beside_itself(page: str) -> None:
    """What a page says to have no counterpart may have one since."""
    ours = (
        ("AsyncProducer", "AsyncConsumer", "AsyncAdmin")
        if page == "aiokafka"
        else ("Producer", "Consumer", "Admin")
    )
    counterparts = dict(zip(WHOLE[page], ours, strict=True))
    left_out = []
    for there, here, _ in rows(page, "## Classes and methods"):
        named = {name for name, _ in _NAME.findall(here)}
        for name, _ in _NAME.findall(there):
            client, _, method = name.partition(".")
            counterpart = counterparts.get(client, "")
            if method and hasattr(getattr(odradek, counterpart, None), method):
                left_out += {f"{counterpart}.{method}"} - named
    assert left_out == []


@pytest.mark.parametrize("page", PACKAGES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_table_of_configs_is_that_of_the_hints(page: str) -> None:
    assert filled(page, PAGES[page]) == PAGES[page], "PYTHONPATH=tests python -m docs.config_tables"


def _defaults(page: str) -> dict[str, Any]:
    """The defaults of a client's configs."""
    if page == "confluent_kafka":
        return dict(librdkafka_properties())
    modules = [importlib.import_module(module) for module in THEIRS[page]]
    producer, consumer, _ = (there_is(name, modules) for name in WHOLE[page])
    if page == "kafka_python":
        return producer.DEFAULT_CONFIG | consumer.DEFAULT_CONFIG
    return {
        name: parameter.default
        for client in (consumer, producer)
        for name, parameter in inspect.signature(client.__init__).parameters.items()
    }


@pytest.mark.parametrize("page", WHOLE)
def test_the_defaults_are_those(page: str) -> None:
    theirs = _defaults(page)
    ours = {f.name: f.default for of in (AdminConfig, ConsumerConfig, ProducerConfig) for f in fields(of)}
    for there, default, here, our_default in rows(page, "Defaults that differ:"):
        assert f"{theirs[there.strip('`')]}".lower() == default.strip("`").lower(), there
        assert f"{ours[python_name(here.strip('`'))]}".lower() == our_default.strip("`").lower(), here
        assert default != our_default


def test_what_has_to_be_awaited_here_alone_is_told() -> None:
    def is_coroutine(client: type, method: str) -> bool:
        return inspect.iscoroutinefunction(getattr(client, method, None))

    told = PAGES["aiokafka"].partition("**More has to be awaited.**")[2].partition("are coroutines here")[0]
    theirs, ours = aiokafka.AIOKafkaConsumer, AsyncConsumer
    methods = [name for name in dir(theirs) if not name.startswith("_") and hasattr(ours, name)]
    here_alone = [name for name in methods if is_coroutine(ours, name) and not is_coroutine(theirs, name)]
    assert re.findall(r"`(\w+)`", told) == here_alone


def test_a_name_that_is_not_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    row = "| `Producer.produce` | `Producer.produce`, `Producer.send(valu=…)` |"
    told = f"## Classes and methods\n\n| a | b |\n|---|---|\n{row}\n"
    monkeypatch.setitem(PAGES, "confluent_kafka", told)
    assert list(missing("confluent_kafka", 1, list(OURS))) == ["Producer.produce", "Producer.send(valu=)"]
    assert list(missing("confluent_kafka", 0, ["confluent_kafka"])) == []
