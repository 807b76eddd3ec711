"""The queue of the controller's work, and where its results are published.

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


class EventQueue(Protocol):
    """Runs the controller's work, one piece after the other."""

    def run(self, work: Callable[[], Result]) -> Any:
        """Run a piece of work that may change the metadata. Returns its result, or a future of it."""
        ...

    def post(self, work: Callable[[], object]) -> None:
        """Put a piece of work in the queue, from whatever thread; nobody waits for it. Errors are logged.

        Dropped once the queue has been stopped.
        """
        ...

    def publish(self, image: ClusterImage, delta: ClusterDelta, change: Callable[[], None]) -> None:
        """Call `change` in the thread in which the image is read, and return when it is done.

        `image` is what it will be, `delta` what is different in it.
        """
        ...


class ImmediateQueue:
    """Runs everything in the caller's thread: without a broker, and while one starts or stops."""

    def run(self, work: Callable[[], Result]) -> Result:
        """See `EventQueue.run`."""
        return work()

    def post(self, work: Callable[[], object]) -> None:
        """See `EventQueue.post`. Runs at once."""
        work()

    def publish(self, image: ClusterImage, delta: ClusterDelta, change: Callable[[], None]) -> None:  # noqa: ARG002
        """See `EventQueue.publish`."""
        change()
