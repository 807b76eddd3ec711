"""A broker in a process of its own, as its cluster sets faults on it: over its control port."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.broker.apis.registry import Handlers
from odradek.errors import BrokerNotAvailableError, ErrorCode, error_for
from odradek.testing.control.of_process import faults_file
from odradek.testing.faults.checks import FaultRefusedError
from odradek.testing.faults.set_fault import Cut

if TYPE_CHECKING:
    from odradek.broker.requests.peer import Peer
    from odradek.testing.faults.calls import Calls
    from odradek.testing.faults.set_fault import SetFault

_TIMEOUT_S = 30.0


class RemoteBroker:
    """See `odradek.testing.faults.keeper.Faulty`.

    Attributes:
        url: of its control port; None while it does not run.
        is_paused: whether it stands still: nothing can be asked of it.
    """

    def __init__(self, number: int, release: str | None, number_of: Callable[[SetFault], int]) -> None:
        """
        Args:
            number: its broker id.
            release: of Kafka, that it is.
            number_of: gives a fault its number on all control ports of the cluster.
        """
        self.number = number
        self.url: str | None = None
        self.is_paused = False
        self._release = release
        self._number_of = number_of
        self._faults: dict[int, tuple[str, str, dict[str, Any]]] = {}
        """By number, the requests that set them, in their order."""
        self._lifted_late: list[int] = []
        """Those that were lifted while it was paused."""
        self._missed: dict[int, dict[str, int]] = {}
        """By number, what those that were lifted have missed."""

    @cached_property
    def handlers(self) -> Handlers:
        """Return what a broker of its release answers."""
        return Handlers.of_release(self._release)

    @property
    def listener_names(self) -> list[str]:
        """Return none: the process itself refuses a fault for a listener that it has not."""
        return []

    def write_faults(self, folder: Path) -> None:
        """Write the faults with which its next life begins."""
        faults_file(folder, self.number).write_text(json.dumps(list(self._faults.values())), encoding="utf-8")

    def ask(self, method: str, target: str, document: Any = None) -> Any:
        """Return what its control port answers.

        Raises:
            BrokerNotAvailableError: it does not run, or is paused.
            KafkaError: the broker refuses it.
            ValueError: it cannot be.
        """
        if self.url is None or self.is_paused:
            how = "is paused" if self.is_paused else "does not run"
            raise BrokerNotAvailableError(f"broker {self.number} {how}: nothing can be asked of it")
        connection = HTTPConnection(self.url.removeprefix("http://"), timeout=_TIMEOUT_S)
        try:
            connection.request(method, target, None if document is None else json.dumps(document))
            with connection.getresponse() as response:
                content = json.loads(response.read())
        finally:
            connection.close()
        if response.status == 200:
            return content
        if "error" in content:
            raise error_for(ErrorCode[content["error"]], content["message"])
        raise (ValueError if response.status == 400 else RuntimeError)(content["message"])

    # ------------------------------------------------------------------ faults

    def add_fault(self, fault: SetFault) -> None:
        """See `Faulty.add_fault`.

        Raises:
            BrokerNotAvailableError: it is paused.
            FaultRefusedError: the process refuses it.
        """
        number = self._number_of(fault)
        if isinstance(fault, Cut):
            words = {"client_id": fault.fault.client_id, "lasts": fault.lasts, "id": number}
            setting: tuple[str, str, dict[str, Any]] = "POST", "/cut_client", words
        else:
            setting = "PUT", f"/faults/{number}", fault.fault.to_json()
        if self.url is not None:
            try:
                self.ask(*setting)
            except ValueError as error:
                raise FaultRefusedError(str(error)) from None
        self._faults[number] = setting

    def keep_cutting(self, cut: Cut) -> None:
        """See `Faulty.keep_cutting`."""
        self.add_fault(cut)

    def remove_fault(self, fault: SetFault) -> None:
        """See `Faulty.remove_fault`."""
        number = self._number_of(fault)
        if self._faults.pop(number, None) is None or self.url is None:
            return
        if self.is_paused:
            self._lifted_late.append(number)
            return
        try:
            self._missed[number] = self.ask("DELETE", f"/faults/{number}")["missed"]
        except (OSError, HTTPException):
            # It has died, as a broker in a test may: its faults are gone with it.
            self.url = None

    def has_resumed(self) -> None:
        """Take away the faults that were lifted meanwhile."""
        self.is_paused = False
        lifted, self._lifted_late = self._lifted_late, []
        for number in lifted:
            self.ask("DELETE", f"/faults/{number}")

    def has_ended(self) -> None:
        """Note that the process is gone."""
        self.url, self.is_paused, self._lifted_late = None, False, []

    def abort_connections(self, client_id: str, calls: Calls) -> list[Peer]:  # noqa: ARG002
        """Return none: the process does so itself when a `Cut` is added."""
        return []

    def missed(self, number: int) -> Counter[str]:
        """Return why a fault did not meet requests; see `Calls.missed`."""
        if number not in self._faults:
            return Counter(self._missed.get(number))
        return Counter(self._ask_if_it_can(f"/faults/{number}", "missed"))

    def requests_by_api(self) -> Counter[str]:
        """See `Faulty.requests_by_api`; none of a broker that cannot be asked."""
        return Counter(self._ask_if_it_can("/requests", "counts"))

    def _ask_if_it_can(self, target: str, name: str) -> dict[str, int]:
        if self.url is None or self.is_paused:
            return {}
        try:
            content: dict[str, int] = self.ask("GET", target)[name]
        except (OSError, HTTPException):
            return {}
        return content
