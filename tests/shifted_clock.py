"""What cannot be tested where libfaketime shifts the clock (tests/elsewhere.py)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

import pytest


class NoLibrdkafka(MetaPathFinder):
    """Skips a test that imports confluent-kafka.

    librdkafka waits by C11's `cnd_timedwait`, which libfaketime does not know: a moment that it reads from
    the shifted clock is waited for by the real one, for days.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder.find_spec`."""
        if fullname == "confluent_kafka":
            pytest.skip(
                "librdkafka waits by the real clock, and reads the shifted one", allow_module_level=True
            )
        return None
