"""The reasons that keep a broker from starting, said in one error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odradek.broker.network.server import AddressInUse
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.store.store import StoreError
from odradek.errors import OdradekError
from odradek.log.errors import DataDirectoryError


class StartError(OdradekError):
    """The broker cannot start; the message says why and what to do. Nothing was changed."""


@contextmanager
def start_errors() -> Iterator[None]:
    """Within, turn the errors that an operator can do something about into `StartError`.

    Raises:
        StartError: a folder, the store, an address or a config cannot be used. Other errors are faults of
            ours, and stay what they are.
    """
    try:
        yield
    except (DataDirectoryError, StoreError, AddressInUse, ConfigError) as error:
        raise StartError(str(error)) from error
    except OSError as error:
        path = error.filename or "a file or folder"
        raise StartError(f"{path} cannot be used: {error.strerror or error}. Nothing was started.") from error
