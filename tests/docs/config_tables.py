"""The tables of configs on the pages of docs/coming_from, made from `client/names_elsewhere.py`.

`PYTHONPATH=tests python -m docs.config_tables` writes them anew.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from itertools import groupby

from odradek.client.config import python_name
from odradek.client.names_elsewhere import AIOKAFKA, ELSEWHERE, FAUST, KAFKA_PYTHON, LIBRDKAFKA, Here

from .pairs import FOLDER

BEGIN, END = "<!-- made from src/odradek/client/names_elsewhere.py -->\n", "<!-- end -->\n"
_WITHOUT_REMARK = next(
    here for here in LIBRDKAFKA.values() if not here.config and here.remark.startswith("there is")
)
_IN_BYTES = {"batch.size", "buffer.memory", "max.request.size"}


def names(page: str) -> Mapping[str, Here]:
    """The configs of a client that have another name here, or none."""
    if page == "aiokafka":
        return AIOKAFKA | {name: ELSEWHERE[name] for name in _aiokafka() if name in KAFKA_PYTHON}
    return {"confluent_kafka": LIBRDKAFKA, "kafka_python": KAFKA_PYTHON, "faust": FAUST}[page]


def _aiokafka() -> list[str]:
    import aiokafka
    import aiokafka.admin

    clients = (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer, aiokafka.admin.AIOKafkaAdminClient)
    return sorted({name for client in clients for name in inspect.signature(client.__init__).parameters})


def table(page: str) -> str:
    """The table of a page, and below it the names without anything here."""
    return "".join(f"{line}\n" for line in _lines(page))


def _lines(page: str) -> Iterator[str]:
    yield "| there | here | unit here | remark |"
    yield "|---|---|---|---|"
    lacking = []
    for here, group in groupby(names(page).items(), key=lambda item: item[1]):
        there = ", ".join(f"`{name}`" for name, _ in group)
        if here == _WITHOUT_REMARK:
            lacking.append(there)
            continue
        config = here.config if page == "confluent_kafka" else python_name(here.config)
        yield f"| {there} | {f'`{config}`' if config else ''} | {_unit(here.config)} | {here.remark} |"
    if lacking:
        yield ""
        yield from textwrap.wrap(f"Nothing here is like {', '.join(lacking)}.", 120, break_on_hyphens=False)


def _unit(config: str) -> str:
    if config.endswith(".ms"):
        return "ms"
    return "bytes" if config.endswith(".bytes") or config in _IN_BYTES else ""


def filled(page: str, text: str) -> str:
    """The text of a page with its table as it has to be."""
    whole = f"{BEGIN}\n{table(page)}\n{END}"
    return re.sub(f"{BEGIN}.*?{END}", lambda _: whole, text, count=1, flags=re.DOTALL)


def main() -> None:
    warnings.simplefilter("ignore", DeprecationWarning)
    for file in FOLDER.glob("*.md"):
        if file.stem != "README":
            text = file.read_text(encoding="utf-8")
            file.write_text(filled(file.stem, text), encoding="utf-8")


if __name__ == "__main__":
    main()
