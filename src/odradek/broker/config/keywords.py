"""Configs as Python's keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.broker.config.names import config_name, known_names, might_be


def properties_from_keywords(keywords: Mapping[str, Any]) -> dict[str, str]:
    """Configs given as Python keywords: `num_partitions=3` is `num.partitions=3`."""
    properties = {}
    for attribute, value in keywords.items():
        name = config_name(attribute)
        if isinstance(value, bool):
            properties[name] = "true" if value else "false"
        elif isinstance(value, (list, tuple)):
            properties[name] = ",".join(map(str, value))
        else:
            properties[name] = str(value)
    return properties


def check_keywords(keywords: Mapping[str, Any], others: tuple[str, ...]) -> None:
    """Check that keywords are configs.

    Args:
        keywords: as given.
        others: further keywords that may be given, to be suggested.

    Raises:
        TypeError: one is no config that Kafka or this broker has; what may have been meant is named.
    """
    for attribute in keywords:
        if not might_be(config_name(attribute)):
            from difflib import get_close_matches

            names = [*others, *(name.replace(".", "_") for name in known_names())]
            near = get_close_matches(attribute.replace(".", "_"), names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"there is no config {attribute} (Kafka: {config_name(attribute)}){hint}")
