"""Values of configs that stand elsewhere: `${file:/path:key}`, `${dir:/path:name}`, `${env:NAME}` (KIP-421).

Which providers there are is said by configs themselves, as in Kafka:

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/run/secrets

Passwords then need not stand in the file that says everything else. A variable of a provider that there is
not, or that the provider does not have, stays as it is; what a value turns out to be is not looked through
again.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from odradek.util.properties import load_properties

logger = logging.getLogger(__name__)

PROVIDERS = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."
_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")

Lookup = Callable[[str, str], str | None]
"""From a path, "" for none, and a key to the value."""


class ConfigProviderError(ValueError):
    """A provider cannot be used; the message says why, and has no value in it."""


def resolve(configs: Mapping[str, str]) -> dict[str, str]:
    """Put in the place of variables what they stand for.

    Args:
        configs: names to text, as from a properties file.

    Raises:
        ConfigProviderError: a provider is none of Kafka's three, or what it is to read cannot be read.
    """
    providers = _providers(configs)
    if not providers:
        return dict(configs)

    def value(variable: re.Match[str]) -> str:
        provider = providers.get(variable[1])
        replacement = None if provider is None else provider(variable[3] or "", variable[4])
        return variable[0] if replacement is None else replacement

    return {name: _VARIABLE.sub(value, text) for name, text in configs.items()}


def _providers(configs: Mapping[str, str]) -> dict[str, Lookup]:
    providers: dict[str, Lookup] = {}
    for name in filter(None, map(str.strip, configs.get(PROVIDERS, "").split(","))):
        prefix = f"{PROVIDERS}.{name}."
        kind = configs.get(f"{prefix}class")
        if kind is None:
            continue  # as in Kafka: variables of it stay as they are
        make = _KINDS.get(kind.strip())
        if make is None:
            raise ConfigProviderError(
                f"{prefix}class={kind}: there is no such provider here. Those that there are: "
                f"{', '.join(_KINDS)}."
            )
        start = f"{prefix}param."
        parameters = {key[len(start) :]: text for key, text in configs.items() if key.startswith(start)}
        providers[name] = make(parameters)
    return providers


# ---------------------------------------------------------------------- Kafka's three


def _file_provider(parameters: Mapping[str, str]) -> Lookup:
    """`FileConfigProvider`: keys of properties files."""
    allowed = _allowed_paths(parameters)
    read: dict[Path, dict[str, str]] = {}

    def look_up(path: str, key: str) -> str | None:
        file = _checked(path, allowed)
        if file is None:
            return None
        if file not in read:
            try:
                read[file] = load_properties(str(file))
            except (OSError, ValueError) as error:
                raise ConfigProviderError(
                    f"Could not read properties from file {path}: {_why(error)}"
                ) from error
        return read[file].get(key)

    return look_up


def _directory_provider(parameters: Mapping[str, str]) -> Lookup:
    """`DirectoryConfigProvider`: files of a folder; each holds one value, to its last byte."""
    allowed = _allowed_paths(parameters)

    def look_up(path: str, key: str) -> str | None:
        folder = _checked(path, allowed)
        if folder is None:
            return None
        if not folder.is_dir():
            logger.warning("The path %s is not a directory", path)
            return None
        if "/" in key or key in ("", ".", ".."):
            return None
        file = folder / key
        if not file.is_file():
            return None
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigProviderError(
                f"Could not read file {file} for property {key}: {_why(error)}"
            ) from error

    return look_up


def _environment_provider(parameters: Mapping[str, str]) -> Lookup:
    """`EnvVarConfigProvider`: variables of the environment."""
    text = parameters.get("allowlist.pattern", ".*")
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ConfigProviderError(f"allowlist.pattern={text}: no regular expression: {error}") from error

    def look_up(path: str, key: str) -> str | None:
        if path:
            raise ConfigProviderError(
                f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'"
            )
        return os.environ.get(key) if pattern.fullmatch(key) else None

    return look_up


_KINDS: Mapping[str, Callable[[Mapping[str, str]], Lookup]] = {
    f"{_PACKAGE}FileConfigProvider": _file_provider,
    f"{_PACKAGE}DirectoryConfigProvider": _directory_provider,
    f"{_PACKAGE}EnvVarConfigProvider": _environment_provider,
}


def _allowed_paths(parameters: Mapping[str, str]) -> list[Path] | None:
    """The folders that may be read from; None for all."""
    text = parameters.get("allowed.paths", "")
    if not text:
        return None
    paths = []
    for part in text.split(","):
        path = Path(os.path.normpath(part))
        if not path.is_absolute():
            raise ConfigProviderError(f"allowed.paths: Path {path} is not absolute")
        if not path.exists():
            raise ConfigProviderError(f"allowed.paths: Path {path} does not exist")
        paths.append(path)
    return paths


def _checked(path: str, allowed: list[Path] | None) -> Path | None:
    if not path:
        return None
    if allowed is None:
        return Path(path)
    normal = Path(os.path.normpath(path))
    if any(normal.is_relative_to(folder) for folder in allowed):
        return normal
    logger.warning("The path %s is not allowed to be accessed", path)
    return None


def _why(error: Exception) -> str:
    """Return what is wrong, without what stands in the file."""
    return (error.strerror or "") if isinstance(error, OSError) else type(error).__name__
