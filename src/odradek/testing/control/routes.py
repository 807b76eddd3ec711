"""The paths of a control port, and what each does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek import __version__
from odradek.testing.control.words import NEEDED, ControlRefusedError, Word
from odradek.testing.faults.fault import Fault
from odradek.util.http_routes import Routes

if TYPE_CHECKING:
    from odradek.testing.control.controlled import Controlled
    from odradek.testing.control.set_faults import SetFaults


class Control(NamedTuple):
    """The things that a request is worked on with.

    Attributes:
        controlled: the broker or the cluster.
        faults: those that were set over the port.
    """

    controlled: Controlled
    faults: SetFaults


class Action(NamedTuple):
    """The action of a path.

    Attributes:
        function: called with the control and what the words say; what it returns is answered.
        summary: a line about it.
        words: what may be said, in the body, the query or the path.
        whole: whether the function is given the body's object as it is (`document`), beside the words of path
            and query.
        asks: whether brokers have to answer, which those that are paused do not.
    """

    function: Callable[..., Any]
    summary: str
    words: Mapping[str, Word] = {}
    whole: bool = False
    asks: bool = True

    @property
    def names(self) -> list[str]:
        """The names of all that may be said."""
        return [*self.words, *(_FAULT_WORDS if self.whole else ())]


_FAULT_WORDS = (*(field.name for field in fields(Fault)), "broker")
_BROKER = {"broker": Word(int)}
_PARTITION = {"topic": Word(str, NEEDED), "partition": Word(int, 0)}
_COORDINATED = {"group": Word(str), "transactional_id": Word(str)}


def _about(control: Control) -> dict[str, Any]:
    controlled = control.controlled
    return {
        "odradek": __version__,
        "bootstrap_servers": controlled.bootstrap_servers,
        "brokers": controlled.state(),
        "routes": [
            {
                "route": f"{method} {path}",
                "summary": action.summary,
                "words": action.names,
            }
            for method, path, action in TABLE
        ],
    }


# ---------------------------------------------------------------------- by hand


def _verify(control: Control) -> dict[str, Any]:
    unmet = control.faults.unmet()
    if unmet:
        raise ControlRefusedError(
            409,
            "; ".join(fault["unmet"].splitlines()[0] for fault in unmet),
            "a test whose fault no request met has not tested what it was for; "
            '"may_be_unmet": true says that it is no error',
            unmet=unmet,
        )
    return {"unmet": []}


def _requests(control: Control) -> dict[str, Any]:
    total: dict[str, int] = {}
    for broker in control.controlled.brokers:
        for api, count in broker.requests_by_api().items():
            if count:
                total[api] = total.get(api, 0) + count
    return {"counts": dict(sorted(total.items()))}


def _create_topic(
    control: Control, name: str, partitions: int, configs: dict[str, str], replication_factor: int | None
) -> dict[str, Any]:
    if not 1 <= partitions <= 10_000:
        raise ControlRefusedError(400, f"partitions is {partitions}", "it is 1 to 10000")
    cluster = control.controlled.cluster
    if cluster is not None:
        cluster.create_topic(name, partitions, configs, replication_factor=replication_factor)
    else:
        control.controlled.running(0)
        control.controlled.kit.create_topic(name, partitions, configs)
    return {}


def _on_a_broker(method: str) -> Callable[..., Any]:
    def act(control: Control, broker: int | None) -> dict[str, Any]:
        controlled = control.controlled
        controlled.make(method, controlled.running(broker))
        return {}

    return act


def _restart(control: Control, broker: int | None) -> dict[str, Any]:
    control.controlled.restart(control.controlled.broker_id(broker))
    return {}


def _disk(method: str) -> Callable[..., Any]:
    def act(control: Control, broker: int | None) -> dict[str, Any]:
        controlled = control.controlled
        getattr(controlled.brokers[controlled.broker_id(broker)], method)()
        return {}

    return act


def _on_the_kit(method: str) -> Callable[..., Any]:
    def act(control: Control, **words: Any) -> dict[str, Any]:
        controlled = control.controlled
        if controlled.cluster is None:
            controlled.running(0)
        getattr(controlled.kit, method)(**words)
        return {}

    return act


def _on_the_cluster(method: str, *, answer: str | None = None) -> Callable[..., Any]:
    """Call a method of a cluster with brokers' ids, which come first, and what else is said.

    Args:
        method: its name.
        answer: the name under which its value is answered; None where it has none.
    """

    def act(
        control: Control, broker: int | None = None, other: int | None = None, **words: Any
    ) -> dict[str, Any]:
        cluster = control.controlled.of_cluster()
        names = [words.pop(name) for name in _PARTITION if name in words]
        ids = [control.controlled.broker_id(given) for given in (broker, other) if given is not None]
        value = getattr(cluster, method)(*names, *ids, **words)
        return {} if answer is None else {answer: value}

    return act


_A_BROKER = {"broker": Word(int, NEEDED)}
_TWO_BROKERS = {"broker": Word(int, NEEDED), "other": Word(int, NEEDED)}
_BY_HAND = {
    "pause": Action(_on_a_broker("pause"), "a broker stands still", _BROKER, asks=False),
    "resume": Action(_on_a_broker("resume"), "it goes on", _BROKER, asks=False),
    "kill": Action(_on_a_broker("kill"), "a broker ends as by kill -9", _BROKER, asks=False),
    "restart": Action(_restart, "a broker starts again with its data", _BROKER, asks=False),
    "fill_disk": Action(_disk("fill_disk"), "a broker's disk is full", _BROKER, asks=False),
    "free_disk": Action(_disk("free_disk"), "it has room again", _BROKER, asks=False),
    "expire_session": Action(
        _on_the_kit("expire_session"),
        "a group member's session runs out",
        {"group": Word(str, NEEDED), "member": Word(str)},
    ),
    "fence_producer": Action(
        _on_the_kit("fence_producer"),
        "another producer takes a transactional id over",
        {"transactional_id": Word(str, NEEDED)},
    ),
    "stop": Action(_on_the_cluster("stop"), "a broker of a cluster stops in good order", _A_BROKER),
    "move_leader": Action(
        _on_the_cluster("move_leader"),
        "a broker becomes the leader of a partition",
        _PARTITION | _A_BROKER,
    ),
    "move_coordinator": Action(
        _on_the_cluster("move_coordinator"),
        "a broker becomes the coordinator of a group or a transactional id",
        _A_BROKER | _COORDINATED,
    ),
    "cut": Action(
        _on_the_cluster("cut"),
        "nothing gets through between two brokers",
        _TWO_BROKERS | {"one_way": Word(bool, False)},
    ),
    "refuse": Action(_on_the_cluster("refuse"), "a broker refuses another one's connections", _TWO_BROKERS),
    "isolate": Action(_on_the_cluster("isolate"), "a broker is cut off from all others", _A_BROKER),
    "expire": Action(_on_the_cluster("expire"), "a broker's session with the store ends", _A_BROKER),
    "heal": Action(_on_the_cluster("heal"), "all cuts are taken back"),
}


# ---------------------------------------------------------------------- the table

_FAULT = {"id": Word(int, NEEDED)}
TABLE: tuple[tuple[str, str, Action], ...] = (
    ("GET", "/", Action(_about, "the brokers and these routes", asks=False)),
    ("GET", "/faults", Action(lambda c: c.faults.reports(), "the faults, with their counts", asks=False)),
    ("POST", "/faults", Action(lambda c, document: c.faults.set(document), "set a fault", whole=True)),
    ("DELETE", "/faults", Action(lambda c: c.faults.lift_all(), "take all faults away")),
    ("GET", "/faults/{id}", Action(lambda c, id: c.faults.report(id), "a fault", _FAULT, asks=False)),
    (
        "PUT",
        "/faults/{id}",
        Action(
            lambda c, document, id: c.faults.set(document, id),
            "set a fault under a number, in place of its own",
            _FAULT,
            whole=True,
        ),
    ),
    ("DELETE", "/faults/{id}", Action(lambda c, id: c.faults.lift(id), "take a fault away", _FAULT)),
    (
        "POST",
        "/cut_client",
        Action(
            lambda c, **words: c.faults.cut_client(**words),
            "a client's connections are closed; with lasts also later ones, until the fault is taken away",
            {"client_id": Word(str, NEEDED), "lasts": Word(bool, False), "id": Word(int)},
        ),
    ),
    ("GET", "/verify", Action(_verify, "whether each fault was met: else 409", asks=False)),
    ("GET", "/requests", Action(_requests, "how many requests of each API have come")),
    (
        "POST",
        "/topics",
        Action(
            _create_topic,
            "create a topic",
            {
                "name": Word(str, NEEDED),
                "partitions": Word(int, 1),
                "configs": Word(dict, {}),
                "replication_factor": Word(int),
            },
        ),
    ),
    (
        "GET",
        "/leader",
        Action(_on_the_cluster("leader", answer="broker"), "the leader of a partition", _PARTITION),
    ),
    (
        "GET",
        "/coordinator",
        Action(_on_the_cluster("coordinator", answer="broker"), "a coordinator", _COORDINATED),
    ),
    *(("POST", f"/{name}", action) for name, action in _BY_HAND.items()),
)
ROUTES = Routes(TABLE)
OF_A_PROCESS = Routes(
    row
    for row in TABLE
    if row[1] not in ("/pause", "/resume", "/kill", "/restart", "/topics", "/fence_producer")
)
"""Those of a broker that is a process: how it lives is the matter of signals."""
