"""Elects the controller: this broker registers, is elected, and gives that up.

The active controller holds the ephemeral `/controller`, which it creates together with the next controller
epoch. Kafka: `KafkaController.elect`, `KafkaZkClient.registerControllerAndIncrementControllerEpoch`.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress

from odradek.cluster import loading, nodes, paths
from odradek.cluster.controller.controller_context import ControllerContext
from odradek.cluster.image import BrokerImage
from odradek.cluster.nodes import BrokerRegistration, ControllerNode
from odradek.cluster.store.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NoNode,
    SetData,
    StoreError,
)

logger = logging.getLogger(__name__)

STAND_BACK_MS = 3_000
"""How long a broker leaves it to others to be elected."""


class ControllerElection:
    """One broker's part in the election of the controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._previous_election = -1
        """The zxid of the last election before this broker's own: a registration above it came later."""
        self._refused_controller = -1
        """The controller at whose address nobody listens; -1 for none, and once there is another one."""
        self._stands_back_until_ms = -math.inf
        self._gave_way: dict[int, int] = {}
        """Epochs, by id, of the brokers for which this one has given way: once for each of their lives."""

    # --- registering --------------------------------------------------------------------------------------

    def register(self, registration: BrokerRegistration) -> None:
        """Register this broker.

        Raises:
            StoreError: another broker has this id, or the store cannot be written.
        """
        context = self._context
        path = paths.broker_id(context.broker_id)
        try:
            context.store.multi(
                [
                    Create(path, ephemeral=True),
                    SetData(path, nodes.encode_registration(registration)),
                ]
            )
        except NodeExists as error:
            raise NodeExists(
                path,
                f"a broker with id {context.broker_id} is registered already. Give this one another "
                "broker.id, or wait until the session of the other has ended.",
            ) from error
        stat = context.store.exists(path)
        assert stat is not None
        context.broker_epoch = stat.czxid

    def forget(self, path: str) -> None:
        """Remove a node of this broker's, if it is there and the store can be written."""
        try:
            self._context.store.delete(path)
        except NoNode:
            return
        except StoreError as error:
            logger.warning("cannot remove %s: %s", path, error)

    # --- being elected ------------------------------------------------------------------------------------

    def elect(self) -> None:
        """Try to become the controller; `is_active` says afterwards whether this broker is.

        Raises:
            StoreError: the store cannot be read or written.
        """
        context, store = self._context, self._context.store
        # Only the first controller ever creates it.
        with suppress(NodeExists):
            store.create(paths.CONTROLLER_EPOCH, nodes.encode_epoch(0))
        data, stat = store.get(paths.CONTROLLER_EPOCH)
        epoch = nodes.decode_epoch(paths.CONTROLLER_EPOCH, data) + 1
        self._previous_election = stat.mzxid
        node = ControllerNode(context.broker_id, context.clock.now_ms())
        try:
            store.multi(
                [
                    Create(paths.CONTROLLER, nodes.encode_controller(node), ephemeral=True),
                    SetData(paths.CONTROLLER_EPOCH, nodes.encode_epoch(epoch), stat.version),
                ]
            )
        except (NodeExists, BadVersion):
            context.is_active = False
            return
        context.is_active, context.epoch, context.epoch_version = True, epoch, stat.version + 1

    def elect_in_turn(self, holder: tuple[int, int]) -> tuple[int, int]:
        """Try to become the controller where there is none, unless others shall.

        Args:
            holder: who is the controller, and in which epoch.

        Returns:
            The same, after the election.

        Raises:
            StoreError: the store cannot be read or written.
        """
        context = self._context
        if holder[0] == context.broker_id:
            # Left by a term of this broker that could not begin, or by its process before.
            self.remove_dead(context.broker_id)
            holder = loading.load_controller(context.store)
        if holder[0] < 0 and context.clock.monotonic_ms() >= self._stands_back_until_ms:
            self.elect()
            holder = loading.load_controller(context.store)
        if not context.is_active and holder[0] != self._refused_controller:
            self._refused_controller = -1  # it was of a controller before that one
        return holder

    def resign(self) -> None:
        """Remove `/controller`, unless another controller has come since this one."""
        context = self._context
        try:
            context.store.multi(
                [Check(paths.CONTROLLER_EPOCH, context.epoch_version), Delete(paths.CONTROLLER)]
            )
        except (NoNode, BadVersion):
            return
        except StoreError as error:
            logger.warning("cannot remove %s: %s", paths.CONTROLLER, error)

    # --- a controller that is dead, or one that shall not be ----------------------------------------------

    def remove_dead(self, controller_id: int) -> bool:
        """Remove `/controller` if it still names this broker, whose process is known to be gone.

        Returns:
            Whether it was removed; the election that follows is each broker's own.

        Raises:
            StoreError: the store cannot be read or written.
        """
        store = self._context.store
        try:
            _, epoch = store.get(paths.CONTROLLER_EPOCH)
            data, stat = store.get(paths.CONTROLLER)
        except NoNode:
            return False
        if nodes.decode_controller(paths.CONTROLLER, data).broker_id != controller_id:
            return False
        try:
            # Versions of /controller begin at 0 again with every election: the epoch's do not.
            store.multi(
                [Check(paths.CONTROLLER_EPOCH, epoch.version), Delete(paths.CONTROLLER, stat.version)]
            )
        except StoreError as error:
            if error.op_index is None:
                raise
            return False
        return True

    def note_refused(self, controller_id: int) -> None:
        """Nobody listens at the controller's address: whoever follows it need not try it first.

        Should this broker be elected next, its term begins without that one: otherwise all leaders would be
        told twice, before the first message to it is refused and after. May be called in any thread.
        """
        self._refused_controller = controller_id

    def leave_out_refused(self) -> BrokerImage | None:
        """Count the controller before as dead, if it refused in the life in which it was elected.

        Returns:
            That broker, if it does.
        """
        context = self._context
        broker = context.image.brokers.get(self._refused_controller)
        self._refused_controller = -1
        if broker is None or broker.broker_id == context.broker_id or broker.epoch > self._previous_election:
            return None
        logger.warning("nobody listened at the address of controller %d: it counts as dead", broker.broker_id)
        context.refused[broker.broker_id] = broker.epoch
        return broker

    def stand_back(self) -> None:
        """Let others be elected for a while: this broker and one that lives refuse each other.

        May be called in any thread.
        """
        self._stands_back_until_ms = self._context.clock.monotonic_ms() + STAND_BACK_MS

    def gives_way(self, broker_id: int, epoch: int) -> bool:
        """Return whether somebody else shall be the controller who reaches a broker that lives and refuses
        this one: once in the broker's life. If nobody takes it, this one goes on.

        Args:
            broker_id, epoch: the broker, and its registration's epoch.
        """
        if not self._context.is_active or self._gave_way.get(broker_id) == epoch:
            return False
        logger.warning(
            "another broker shall be the controller, as broker %d and this one refuse each other", broker_id
        )
        self._gave_way[broker_id] = epoch
        self.stand_back()
        return True
