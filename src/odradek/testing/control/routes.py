"""The paths of a control port, and what each does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from odradek import __version__
from odradek.testing.control.action import Action, Control
from odradek.testing.control.looking import LOOKING, MOST_PARTITIONS, REQUESTS
from odradek.testing.control.words import (
    FLAG,
    NEEDED,
    NUMBER,
    TEXT,
    TEXT_BY_NAME,
    WHOLE,
    ControlRefusedError,
    Word,
    check_range,
)
from odradek.testing.faults.set_fault import UnmetFaultError
from odradek.util.http_routes import Routes

_BROKER = {"broker": Word(WHOLE)}
_PARTITION = {"topic": Word(TEXT, NEEDED), "partition": Word(WHOLE, 0)}
_COORDINATED = {"group": Word(TEXT), "transactional_id": Word(TEXT)}


def _about(control: Control) -> dict[str, Any]:
    controlled = control.controlled
    unready, clock = controlled.kit.unready, controlled.kit.clock
    return {
        "odradek": __version__,
        "bootstrap_servers": controlled.bootstrap_servers,
        "brokers": controlled.state(),
        "unready_seed": None if unready is None else unready.seed,
        "clock_ms": None if clock is None else clock.now_ms(),
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
        raise _refusal_of_unmet(unmet, [fault["unmet"] for fault in unmet])
    return {"unmet": []}


def _refusal_of_unmet(unmet: list[dict[str, Any]], texts: list[str]) -> ControlRefusedError:
    return ControlRefusedError(
        409,
        "; ".join(text.splitlines()[0] for text in texts),
        "a test whose fault no request met has not tested what it was for; "
        '"may_be_unmet": true says that it is no error',
        unmet=unmet,
    )


def _create_topic(
    control: Control, name: str, partitions: int, configs: dict[str, str], replication_factor: int | None
) -> dict[str, Any]:
    check_range("partitions", partitions, 1, MOST_PARTITIONS)
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
        getattr(control.controlled.running_kit(), method)(**words)
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


_A_BROKER = {"broker": Word(WHOLE, NEEDED)}
_TWO_BROKERS = {"broker": Word(WHOLE, NEEDED), "other": Word(WHOLE, NEEDED)}
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
        {"group": Word(TEXT, NEEDED), "member": Word(TEXT)},
    ),
    "fence_producer": Action(
        _on_the_kit("fence_producer"),
        "another producer takes a transactional id over",
        {"transactional_id": Word(TEXT, NEEDED)},
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
        _TWO_BROKERS | {"one_way": Word(FLAG, False)},
    ),
    "refuse": Action(_on_the_cluster("refuse"), "a broker refuses another one's connections", _TWO_BROKERS),
    "isolate": Action(_on_the_cluster("isolate"), "a broker is cut off from all others", _A_BROKER),
    "expire": Action(_on_the_cluster("expire"), "a broker's session with the store ends", _A_BROKER),
    "heal": Action(_on_the_cluster("heal"), "all cuts are taken back"),
}


# ---------------------------------------------------------------------- time, and between two tests


def _advance(control: Control, **words: float) -> dict[str, Any]:
    kit = control.controlled.kit
    if kit.clock is None:
        raise ControlRefusedError(
            409, "its time is the machine's", "odradek mock --clock has one that waits for this"
        )
    try:
        by = timedelta(**words)
    except OverflowError:
        by = timedelta.max
    check_range("the time in days", by / timedelta(days=1), 0, _MOST_DAYS)
    kit.advance(by)
    return {"now_ms": kit.clock.now_ms()}


_UNITS = ("days", "hours", "minutes", "seconds", "milliseconds")
_MOST_DAYS = 36_500
"""A century at once."""


def _clean_up(control: Control) -> dict[str, Any]:
    try:
        control.controlled.kit.clean_up()
    except UnmetFaultError as error:
        raise _refusal_of_unmet(control.faults.unmet(), [str(error)]) from None
    finally:
        control.faults.lift_all()
    return {"bootstrap_servers": control.controlled.bootstrap_servers}


# ---------------------------------------------------------------------- the table

_FAULT = {"id": Word(WHOLE, NEEDED)}
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
            {"client_id": Word(TEXT, NEEDED), "lasts": Word(FLAG, False), "id": Word(WHOLE)},
        ),
    ),
    ("GET", "/verify", Action(_verify, "whether each fault was met: else 409", asks=False)),
    *LOOKING,
    (
        "POST",
        "/topics",
        Action(
            _create_topic,
            "create a topic",
            {
                "name": Word(TEXT, NEEDED),
                "partitions": Word(WHOLE, 1),
                "configs": Word(TEXT_BY_NAME, {}),
                "replication_factor": Word(WHOLE),
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
    (
        "POST",
        "/clock/advance",
        Action(
            _advance, "let time pass, with --clock", {unit: Word(NUMBER, 0) for unit in _UNITS}, asks=False
        ),
    ),
    (
        "POST",
        "/clean_up",
        Action(_clean_up, "take away what a test has made: 409 if a fault was not met", asks=False),
    ),
    ("POST", "/keep", Action(_on_the_kit("keep"), "let what there is now stay in later clean-ups")),
)
ROUTES = Routes(TABLE)
_OF_A_PROCESS = ("/", "/faults", "/faults/{id}", "/cut_client", "/fill_disk", "/free_disk", "/expire_session")
OF_A_PROCESS = Routes(row for row in TABLE if row[1] in _OF_A_PROCESS or row == REQUESTS)
"""Those of a broker that is a process: how it lives is the matter of signals, and of its cluster."""
