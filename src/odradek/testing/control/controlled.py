"""A broker or a cluster as a control port has it: brokers by their ids, whichever of the two it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.testing.cluster import Cluster
from odradek.testing.control.words import ControlRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from odradek.testing.broker import Broker


class Controlled:
    """The broker or cluster that a control port serves.

    Attributes:
        kit: the broker or the cluster.
        cluster: the cluster, None where it is one broker.
        brokers: by their ids.
    """

    def __init__(self, kit: Broker | Cluster) -> None:
        self.kit = kit
        self.cluster = kit if isinstance(kit, Cluster) else None
        self.brokers: Sequence[Broker] = kit.brokers if isinstance(kit, Cluster) else [kit]

    @property
    def bootstrap_servers(self) -> str | None:
        """The addresses for clients; None while the only broker does not run."""
        is_down = self.cluster is None and self.brokers[0].broker is None
        return None if is_down else self.kit.bootstrap_servers

    def state(self) -> list[dict[str, Any]]:
        """Return the brokers and how they are."""
        return [
            {
                "id": broker_id,
                "address": broker.bootstrap_servers if broker.broker is not None else None,
                "state": _state(broker),
            }
            for broker_id, broker in enumerate(self.brokers)
        ]

    def broker_id(self, given: int | None) -> int:
        """Return the id of the broker that is meant: where there is one alone, it need not be said.

        Raises:
            ControlRefusedError: it is not said, or there is no such broker.
        """
        if given is None and len(self.brokers) > 1:
            raise ControlRefusedError(400, "broker is missing", f"give one of {self._ids()}")
        if given is not None and not 0 <= given < len(self.brokers):
            raise ControlRefusedError(400, f"there is no broker {given}", f"give one of {self._ids()}")
        return given or 0

    def _ids(self) -> str:
        return ", ".join(map(str, range(len(self.brokers))))

    def running(self, given: int | None) -> int:
        """Return the id of the broker that is meant, which runs, paused or not.

        Raises:
            ControlRefusedError: see `broker_id`, or it does not run.
        """
        broker_id = self.broker_id(given)
        if self.brokers[broker_id].broker is None:
            raise ControlRefusedError(
                409, f"broker {broker_id} does not run", "POST /restart starts it again"
            )
        return broker_id

    def running_kit(self) -> Broker | Cluster:
        """Return what is told what becomes of it; where it is one broker, it runs.

        Raises:
            ControlRefusedError: it does not.
        """
        if self.cluster is None:
            self.running(0)
        return self.kit

    def answering(self) -> None:
        """Check that no broker is paused: nothing can be asked of such a one.

        Raises:
            ControlRefusedError: one is.
        """
        for broker_id, broker in enumerate(self.brokers):
            if broker.is_paused:
                raise ControlRefusedError(
                    409, f"broker {broker_id} is paused: it cannot be asked", "POST /resume lets it go on"
                )

    def of_cluster(self) -> Cluster:
        """Return the cluster.

        Raises:
            ControlRefusedError: it is one broker.
        """
        if self.cluster is None:
            raise ControlRefusedError(
                409, "this is one broker", "it needs a cluster: odradek mock --brokers 3"
            )
        return self.cluster

    def make(self, method: str, broker_id: int) -> None:
        """Call a method that a cluster has with a broker's id, and a broker without."""
        getattr(self.kit, method)(*([] if self.cluster is None else [broker_id]))

    def restart(self, broker_id: int) -> None:
        """Start a broker again, that runs or not."""
        if self.cluster is not None and self.brokers[broker_id].broker is not None:
            self.cluster.stop(broker_id)
        self.make("restart", broker_id)


def _state(broker: Broker) -> str:
    if broker.broker is None:
        return "down"
    return "paused" if broker.is_paused else "running"
