"""Changes the image where it is read, and tells those who listen.

There are three kinds of listeners. Those of configs hear of them at any time, as any broker follows them.
Control listeners tell the brokers; they and the listeners of the image hear of a term alone: of its start
before anything else of it, and of its end, whatever ended it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from odradek.cluster import loading
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.image import BrokerImage, ClusterDelta, ClusterImage

ImageListener = Callable[[ClusterImage, ClusterDelta], None]
"""Called with the new image and what has changed."""

ConfigListener = Callable[[Mapping[str, Mapping[str, str]]], None]
"""Called with changed entities (`topics/clicks`, …) and all of their configs; empty when none are left."""


class ControlListener(Protocol):
    """Tells the brokers what the active controller knows. Called where the event queue publishes."""

    def start(self, image: ClusterImage) -> None:
        """This broker is the active controller from now on, and this is all there is."""
        ...

    def on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Something has changed."""
        ...

    def resend(self, broker_id: int) -> None:
        """A broker is to be asked for the state of all of its replicas."""
        ...

    def await_return(self, broker: BrokerImage) -> None:
        """A registered broker is left out, as nobody listens at its address: see whether it comes back."""
        ...

    def stop(self) -> None:
        """This broker is no longer the active controller."""
        ...


class ImagePublisher:
    """The way from a change of the image to those who listen.

    Args:
        context: has the image.
        on_changed: called after each change, where it was asked for.

    Attributes:
        is_told: whether listeners of the image hear of changes: their term has been told of.
    """

    def __init__(self, context: ControllerContext, on_changed: Callable[[ClusterDelta], None]) -> None:
        self._context = context
        self._on_changed = on_changed
        self.is_told = False
        self._listeners: list[ImageListener] = []
        self._control_listeners: list[ControlListener] = []
        self._config_listeners: list[ConfigListener] = []

    def add_listener(self, listener: ImageListener) -> None:
        """Call `listener` with everything when a term is told of, then with every change, in order."""
        self._listeners.append(listener)

    def add_control_listener(self, listener: ControlListener) -> None:
        """Let `listener` tell the brokers, while this one is the active controller."""
        self._control_listeners.append(listener)

    def add_config_listener(self, listener: ConfigListener) -> None:
        """Call `listener` with all configs at `start`, and then with those that change."""
        self._config_listeners.append(listener)

    def start(self, image: ClusterImage, awaited: BrokerImage | None = None) -> None:
        """Tell everything, and from now on every change.

        Args:
            image: all that there is.
            awaited: a registered broker that is left out of it, if there is one.
        """
        delta = loading.full_delta(image)

        def change() -> None:
            self._context.image = image
            self.is_told = True
            for control_listener in self._control_listeners:
                control_listener.start(image)
                if awaited is not None:
                    control_listener.await_return(awaited)
            self._tell(image, delta)

        self._context.event_queue.publish(image, delta, change)

    def replace(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Put another image in the place of the present one, and tell what is different in it."""

        def change() -> None:
            self._context.image = image
            if delta.configs:
                for config_listener in self._config_listeners:
                    config_listener(delta.configs)
            if self.is_told:
                for control_listener in self._control_listeners:
                    control_listener.on_image(image, delta)
                self._tell(image, delta)

        self._context.event_queue.publish(image, delta, change)
        self._on_changed(delta)

    def apply(self, delta: ClusterDelta) -> None:
        """Change the image by what is different, and tell it."""
        if delta:
            self.replace(self._context.image.apply(delta), delta)

    def resend(self, brokers: Iterable[int]) -> None:
        """Ask brokers for the state of all of their replicas."""

        def ask() -> None:
            for listener in self._control_listeners:
                for broker in brokers:
                    listener.resend(broker)

        self._context.event_queue.publish(self._context.image, ClusterDelta(), ask)

    def stop(self, image: ClusterImage) -> None:
        """Tell the end of the term, if it was told of; `image` is what is known without it."""

        def change() -> None:
            self._context.image = image
            if self.is_told:
                for listener in self._control_listeners:
                    listener.stop()
            self.is_told = False

        self._context.event_queue.publish(image, ClusterDelta(), change)

    def _tell(self, image: ClusterImage, delta: ClusterDelta) -> None:
        # A listener may write; its change is told after this one, by the call inside.
        for listener in list(self._listeners):
            listener(image, delta)
