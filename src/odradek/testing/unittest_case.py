"""Classes of `unittest` whose tests have a broker, clean for each."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any, ClassVar

from odradek.testing.broker import Broker

if TYPE_CHECKING:
    _Base = unittest.TestCase
else:
    _Base = object


class WithBroker(_Base):
    """A broker for the tests of a class of `unittest`, before its other bases.

    Attributes:
        broker_config: the broker's keywords, for the class to say.
        broker: is there from `setUpClass` on, and cleaned up after each test, when its own cleanups are
            done; see `odradek.testing.Broker.clean_up`.
    """

    broker_config: ClassVar[dict[str, Any]] = {}
    broker: ClassVar[Broker]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the broker."""
        super().setUpClass()
        cls.broker = Broker(**cls.broker_config)
        cls.enterClassContext(cls.broker)

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test, and clean up behind it."""
        # The first that is added is the last that is done, whatever the class does in its `setUp`.
        self.addCleanup(lambda: self.broker.clean_up())
        return super().run(result)


class BrokerTestCase(WithBroker, unittest.TestCase):
    """A `unittest.TestCase` with a broker; see `WithBroker`."""


class AsyncBrokerTestCase(WithBroker, unittest.IsolatedAsyncioTestCase):
    """A `unittest.IsolatedAsyncioTestCase` with a broker; see `WithBroker`."""
