"""The JAAS file (`odradek.jaas.config.file`): login modules by context, as Java reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cluster.configs.config_def import ConfigError
from odradek.sasl.jaas import JaasError, LoginModule, parse_jaas_file

if TYPE_CHECKING:
    from odradek.broker.config.broker_config import BrokerConfig


def modules_in_file(config: BrokerConfig, *contexts: str) -> list[LoginModule]:
    """Return the login modules of the first of these contexts that the file has; none without a file.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = config.odradek_jaas_config_file
    if not path:
        return []
    try:
        found = parse_jaas_file(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"odradek.jaas.config.file: {path} cannot be read: {error}") from error
    except JaasError as error:
        raise ConfigError(f"odradek.jaas.config.file: {path}: {error}") from error
    return next((found[context] for context in contexts if found.get(context)), [])
