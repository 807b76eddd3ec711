"""Configs as Python's keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.broker.config.broker_config import config_name


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
