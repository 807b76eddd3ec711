"""Regular expressions that take time linear in the text, whatever the pattern: those of strangers.

Python's own engine backtracks, so that a few characters can keep it busy for years. Here a pattern becomes a
machine with one state per element, and a text is read once with the set of states that it may be in. The
syntax is that of RE2, which Kafka takes such patterns in, less what has no use in matching names: captures
are not told, and Unicode classes are not known.

    literals  .  [a-z]  [^a-z]  \\d \\w \\s \\D \\W \\S  \\t \\n \\r \\f \\v \\a \\x41 \\x{41}  \\Q...\\E
    xy  x|y  (x)  (?:x)  (?P<name>x)  (?i)x  (?s)x  (?i:x)    x*  x+  x?  x{2,3}, each with a ? behind it
    ^  $  \\A  \\z  \\b  \\B
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_REPEAT = 1_000
MAX_STATES = 2_000
MAX_CHARACTERS = 2_000
"""RE2 has bounds on all, too: a short pattern could ask for a machine of any size, and a long one is read
character by character."""
MAX_DEPTH = 100
"""The parser calls itself for each group: a pattern of brackets alone could end the thread's stack."""
_STEPS_KEPT = 10_000
"""Steps that a pattern remembers; further steps are computed each time."""


class PatternError(ValueError):
    """The pattern is none, or asks for what there is not; the message says what and where."""


_Test = Callable[[str], bool]
_Look = Callable[[str, int], bool]


@dataclass(slots=True)
class _Node:
    """A piece of the machine: `kind` is 'char', 'look', 'split' or 'end'; `to` where it goes on."""

    kind: str
    to: list[int]
    test: _Test | None = None
    look: _Look | None = None


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


def _at_word_boundary(text: str, at: int) -> bool:
    before = at > 0 and _is_word(text[at - 1])
    after = at < len(text) and _is_word(text[at])
    return before != after


_CLASSES: dict[str, _Test] = {
    "d": lambda char: char in "0123456789",
    "w": _is_word,
    "s": lambda char: char in "\t\n\f\r ",  # without \v, as in RE2
}
_HEXADECIMAL = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,8})\}")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_LOOKS: dict[str, _Look] = {
    "A": lambda _, at: at == 0,
    "z": lambda text, at: at == len(text),
    "b": _at_word_boundary,
    "B": lambda text, at: not _at_word_boundary(text, at),
}


def _negated(test: _Test) -> _Test:
    return lambda char: not test(char)


def _folded(test: _Test) -> _Test:
    # Both ways, as the pattern's letter may be of either case.
    return lambda char: test(char) or test(char.lower()) or test(char.upper())


# A tree first: repetitions build their piece several times over.
_Tree = tuple[str, Any]


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        """Only grows, which is why parsing ends."""
        self.depth = 0
        self.ignore_case = self.dot_all = False
        """The flags that hold here; a group's end with it."""

    def fail(self, why: str) -> PatternError:
        return PatternError(f"{why} at {self.at} in {self.pattern!r}")

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def take(self) -> str:
        char = self.peek()
        if not char:
            raise self.fail("unexpected end")
        self.at += 1
        return char

    def accept(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def whole(self) -> _Tree:
        tree = self.alternatives()
        if self.at < len(self.pattern):
            raise self.fail("unexpected )")
        return tree

    def alternatives(self) -> _Tree:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail("nested too deeply")
        options = [self.sequence()]
        while self.accept("|"):
            options.append(self.sequence())
        self.depth -= 1
        return options[0] if len(options) == 1 else ("or", options)

    def sequence(self) -> _Tree:
        parts: list[_Tree] = []
        while self.peek() not in ("", "|", ")"):
            if self.accept("\\Q"):
                end = self.pattern.find("\\E", self.at)
                quoted = self.pattern[self.at :] if end < 0 else self.pattern[self.at : end]
                self.at = len(self.pattern) if end < 0 else end + 2
                parts += [self.literal(char) for char in quoted]
                if parts:
                    parts[-1] = self.repeated(parts[-1])
            else:
                parts.append(self.repeated(self.atom()))
        return ("and", parts)

    def repeated(self, tree: _Tree) -> _Tree:
        times = 0
        while (bounds := self.bounds()) is not None:
            times += 1
            # RE2 refuses it as well: `a**` may be a mistake, and multiplies what `a{9}{9}` builds.
            if times > 1:
                raise self.fail("a repetition of a repetition")
            # Which one is tried first makes no difference to whether there is a match.
            self.accept("?")
            tree = ("repeat", (tree, *bounds))
        return tree

    def bounds(self) -> tuple[int, int | None] | None:
        for char, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.accept(char):
                return bounds
        end = self.pattern.find("}", self.at)
        if self.peek() != "{" or end < 0:
            return None
        low, comma, high = self.pattern[self.at + 1 : end].partition(",")
        if not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())):
            # As in RE2 the brace stands for itself then.
            return None
        # Five digits are beyond `MAX_REPEAT` already, and no work for `int`.
        least = int(low[:5])
        most = least if not comma else (int(high[:5]) if high else None)
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self.fail("a repetition out of bounds")
        self.at = end + 1
        return least, most

    def literal(self, char: str) -> _Tree:
        return self.char(lambda other: other == char)

    def char(self, test: _Test) -> _Tree:
        return ("char", _folded(test) if self.ignore_case else test)

    def atom(self) -> _Tree:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            return self.char(self.char_class())
        if char == ".":
            return self.char((lambda _: True) if self.dot_all else (lambda other: other != "\n"))
        # Of the text, not of a line: RE2's flag m is not known here.
        if char == "^":
            return ("look", _LOOKS["A"])
        if char == "$":
            return ("look", _LOOKS["z"])
        if char == "\\":
            return self.escape()
        if char in "*+?":
            raise self.fail("nothing to repeat")
        return self.literal(char)

    def group(self) -> _Tree:
        before = self.ignore_case, self.dot_all
        if self.accept("?P<") or self.accept("?<"):
            end = self.pattern.find(">", self.at)
            name = self.pattern[self.at : end] if end >= 0 else ""
            if not name or not all(_is_word(char) for char in name):
                raise self.fail("a group's name is missing")
            self.at = end + 1
        elif self.accept("?") and not self.flags():
            # From here to the end of the group around it.
            return ("and", [])
        tree = self.alternatives()
        if not self.accept(")"):
            raise self.fail("missing )")
        self.ignore_case, self.dot_all = before
        return tree

    def flags(self) -> bool:
        """Take flags; whether a group follows them."""
        on = True
        while True:
            char = self.take()
            if char == "-" and on:
                on = False
            elif char == "i":
                self.ignore_case = on
            elif char == "s":
                self.dot_all = on
            elif char == ":":
                return True
            elif char == ")":
                return False
            # U turns greed around, which makes no difference to whether there is a match.
            elif char != "U":
                raise self.fail(f"(?{char} is not known")

    def escape(self) -> _Tree:
        char = self.take()
        look = _LOOKS.get(char)
        if look is not None:
            return ("look", look)
        return self.char(self.escaped(char))

    def escaped(self, char: str) -> _Test:
        """Read an escape that stands for one character, or a class of them."""
        char_class = _CLASSES.get(char)
        if char_class is not None:
            return char_class
        opposite = _CLASSES.get(char.lower())
        if opposite is not None:
            return _negated(opposite)
        literal = self.escaped_char(char)
        return lambda other: other == literal

    def escaped_char(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            digits = _HEXADECIMAL.match(self.pattern, self.at)
            number = int(digits[1] or digits[2], 16) if digits is not None else -1
            if digits is None or number > sys.maxunicode:
                raise self.fail("a character's number is wrong")
            self.at = digits.end()
            return chr(number)
        if char.isalnum() and char.isascii():
            raise self.fail(f"\\{char} is not known")
        return char

    def char_class(self) -> _Test:
        negative = self.accept("^")
        tests: list[_Test] = []
        ranges: list[tuple[str, str]] = []
        # A `]` that comes first is a member.
        first = True
        while first or self.peek() != "]":
            first = False
            if self.accept("[:"):
                raise self.fail("classes with names are not known")
            char = self.take()
            if char == "\\":
                escape = self.take()
                if escape.lower() in _CLASSES:
                    tests.append(self.escaped(escape))
                    continue
                char = self.escaped_char(escape)
            last = char
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("", "]"):
                self.take()
                last = self.take()
                if last == "\\":
                    last = self.escaped_char(self.take())
                if last < char:
                    raise self.fail("a range goes backwards")
            ranges.append((char, last))
        self.take()

        def inside(other: str) -> bool:
            return any(low <= other <= high for low, high in ranges) or any(test(other) for test in tests)

        test = _folded(inside) if self.ignore_case else inside
        return _negated(test) if negative else test


_BEGINNING, _END = ("look", _LOOKS["A"]), ("look", _LOOKS["z"])
_States = frozenset[int]


class LinearPattern:
    """A compiled pattern.

    Args:
        pattern: in RE2's syntax, see the module.

    Raises:
        PatternError: the text is no pattern.
    """

    def __init__(self, pattern: str) -> None:
        self._nodes: list[_Node] = [_Node("end", [])]
        """The machine; state 0 is its end."""
        self._steps = 0
        """How many pieces have been built, those without states included."""
        if len(pattern) > MAX_CHARACTERS:
            raise PatternError(f"the pattern has {len(pattern)} characters, more than {MAX_CHARACTERS}")
        tree = _Parser(pattern).whole()
        if tree[0] == "and":
            # The whole text has to match in any case; without them the next step can be remembered.
            parts = list(tree[1])
            if parts and parts[0] == _BEGINNING:
                del parts[0]
            if parts and parts[-1] == _END:
                del parts[-1]
            tree = ("and", parts)
        self._start = self._build(tree, 0)
        self._looks = any(node.kind == "look" for node in self._nodes)
        """Whether a step depends on the place in the text; then none is remembered."""
        self._known: dict[tuple[_States, str], _States] = {}
        """Steps of the deterministic machine, made as they are needed; `_STEPS_KEPT` at most."""

    def _add(self, node: _Node) -> int:
        if len(self._nodes) >= MAX_STATES:
            raise PatternError("the pattern is too large")
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _build(self, tree: _Tree, then: int) -> int:
        """Build the machine of a tree that goes on with `then`; returns where it begins."""
        self._steps += 1
        if self._steps > 2 * MAX_STATES:
            # Empty pieces, repeated again and again, have no states.
            raise PatternError("the pattern is too large")
        kind, operand = tree
        if kind == "char":
            return self._add(_Node("char", [then], test=operand))
        if kind == "look":
            return self._add(_Node("look", [then], look=operand))
        if kind == "and":
            # From behind: a piece has to know where it goes on.
            for part in reversed(operand):
                then = self._build(part, then)
            return then
        if kind == "or":
            return self._add(_Node("split", [self._build(branch, then) for branch in operand]))
        inner, least, most = operand
        if most is None:
            loop = self._add(_Node("split", [then]))
            self._nodes[loop].to.append(self._build(inner, loop))
            then = loop
        else:
            # Each further time may be left out, with all that would follow it.
            after = then
            for _ in range(most - least):
                then = self._add(_Node("split", [self._build(inner, then), after]))
        for _ in range(least):
            then = self._build(inner, then)
        return then

    def matches(self, text: str) -> bool:
        """Return whether the whole text is what the pattern describes."""
        states = self._reached([self._start], text, 0)
        for at, char in enumerate(text):
            states = self._next(states, char, text, at + 1)
            if not states:
                return False
        return 0 in states

    def _next(self, states: _States, char: str, text: str, at: int) -> _States:
        if not self._looks:
            known_states = self._known.get((states, char))
            if known_states is not None:
                return known_states
        following = []
        for state in states:
            test = self._nodes[state].test
            if test is not None and test(char):
                following += self._nodes[state].to
        reached = self._reached(following, text, at)
        if not self._looks and len(self._known) < _STEPS_KEPT:
            self._known[states, char] = reached
        return reached

    def _reached(self, states: list[int], text: str, at: int) -> _States:
        """The states that can be had without a character, of those that wait for one, and the end."""
        seen: set[int] = set()
        waiting: set[int] = set()
        while states:
            state = states.pop()
            if state in seen:
                continue
            seen.add(state)
            node = self._nodes[state]
            if node.kind == "split" or (node.look is not None and node.look(text, at)):
                states += node.to
            elif node.look is None:
                waiting.add(state)
        return frozenset(waiting)
