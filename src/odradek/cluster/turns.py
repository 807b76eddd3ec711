"""Where the controller's work is done, and where its results are shown.

A change of the metadata waits for the disk. So that nobody else waits with it, a broker has the controller
work in a thread of its own, one piece of work after the other; what readers see (the image, and what
listeners make of it) changes in the readers' thread, in one step
(docs/decisions/disk-beside-the-loop.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from odradek.cluster.image import ClusterDelta, ClusterImage

Result = TypeVar("Result")


class Turns(Protocol):
    """Gives each piece of the controller's work its turn."""

    def run(self, work: Callable[[], Result]) -> Any:
        """Do a piece of work that may change the metadata; what it returns, or a future of that."""
        ...

    def show(self, image: ClusterImage, delta: ClusterDelta, change: Callable[[], None]) -> None:
        """Have `change` called where the image is read; returns when it has been.

        `image` is what it will be, `delta` what is different in it.
        """
        ...


class AtOnce:
    """Everything in the caller's thread: without a broker, and while one starts or stops."""

    def run(self, work: Callable[[], Result]) -> Result:
        """See `Turns.run`."""
        return work()

    def show(self, image: ClusterImage, delta: ClusterDelta, change: Callable[[], None]) -> None:
        """See `Turns.show`."""
        change()
