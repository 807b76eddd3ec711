"""The action of a path of a control port."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.testing.faults.fault import Fault

if TYPE_CHECKING:
    from odradek.testing.control.controlled import Controlled
    from odradek.testing.control.set_faults import SetFaults
    from odradek.testing.control.words import Word

_FAULT_WORDS = (*(field.name for field in fields(Fault)), "broker")


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
        waits: whether it may wait for what others do meanwhile, who must not wait for it.
    """

    function: Callable[..., Any]
    summary: str
    words: Mapping[str, Word] = {}
    whole: bool = False
    asks: bool = True
    waits: bool = False

    @property
    def names(self) -> list[str]:
        """The names of all that may be said."""
        return [*self.words, *(_FAULT_WORDS if self.whole else ())]
