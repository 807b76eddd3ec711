"""The templates of the console."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from odradek.console.views.texts import count_text, rate_text, size_text, time_text


@cache
def environment() -> Environment:
    """Return the environment of the templates: all that they are given is escaped."""
    made = Environment(
        loader=PackageLoader("odradek.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["size"] = size_text
    made.filters["count"] = count_text
    made.filters["rate"] = rate_text
    made.filters["time"] = time_text
    return made


def render(template: str, context: dict[str, Any]) -> str:
    """Return the HTML of a template.

    Args:
        template: the name of a file in `templates`.
        context: what it is given.
    """
    return environment().get_template(template).render(context)
