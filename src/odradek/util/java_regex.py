"""Regular expressions as Java's `java.util.regex.Pattern` reads them, translated to Python's.

Kafka's tools and Spark's Kafka connector take topic patterns in Java's language. Much of it means the same in
Python; what does not, means something else there without a word: `[a-z&&[^b]]` is a class of characters and
then a bracket. So the pattern is parsed by Java's rules, and written anew for Python. A class becomes the set
of its characters, so that unions, intersections and negations are exact.

Understood: literals, `.`, classes with everything in them (nested, `&&`, `^`, ranges, `\\Q…\\E`), the
predefined `\\d \\w \\s \\h \\v` and their opposites, `\\p{Alpha}` and the other POSIX names, general
categories (`\\p{Lu}`, `\\p{IsL}`), groups (named, not capturing, atomic, looking ahead and behind), all
quantifiers (greedy, lazy, possessive), back references, anchors, `\\R`, numbered characters, and the flags
i, s, m and u.

Refused, with an error that names it: what Java refuses, and what Python's engine has no way to do (`\\G`,
`\\X`, `\\b{g}`, `\\N{…}`, scripts and blocks, the flags x, d and U, looking behind without a fixed length).

Pure. As Java 9 and newer: a `^` negates the whole class, intersections included.
"""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache

Ranges = list[tuple[int, int]]
"""Characters by number: first and last, ascending, apart from each other."""

_MOST = sys.maxunicode
# Java's line terminators; `.` takes none of them, and `$` also stands before the last one of the text.
_LINE_ENDS = "\n\r\x85\u2028\u2029"
_LETTERS = string.ascii_letters
_ASCII_CLASSES = {
    "Lower": string.ascii_lowercase,
    "Upper": string.ascii_uppercase,
    "ASCII": "".join(map(chr, range(128))),
    "Alpha": _LETTERS,
    "Digit": string.digits,
    "Alnum": _LETTERS + string.digits,
    "Punct": string.punctuation,
    "Graph": _LETTERS + string.digits + string.punctuation,
    "Print": _LETTERS + string.digits + string.punctuation + " ",
    "Blank": " \t",
    "Cntrl": "".join(map(chr, range(32))) + "\x7f",
    "XDigit": string.hexdigits,
    "Space": " \t\n\x0b\f\r",
}
_PREDEFINED = {
    "d": string.digits,
    "w": _LETTERS + string.digits + "_",
    "s": " \t\n\x0b\f\r",
    "h": " \t\xa0\u1680\u180e\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))),
    "v": "\n\x0b\f\r\x85\u2028\u2029",
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_CATEGORIES = frozenset(
    [
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "Mn",
        "Mc",
        "Me",
        "Nd",
        "Nl",
        "No",
        "Pc",
        "Pd",
        "Ps",
        "Pe",
        "Pi",
        "Pf",
        "Po",
        "Sm",
        "Sc",
        "Sk",
        "So",
        "Zs",
        "Zl",
        "Zp",
        "Cc",
        "Cf",
        "Cs",
        "Co",
        "Cn",
    ]
)
_OPENINGS = {"(?:": "(?:", "(?=": "(?=", "(?!": "(?!", "(?<=": "(?<=", "(?<!": "(?<!", "(?>": "(?>"}


class JavaPatternError(ValueError):
    """The pattern is none in Java, or asks for what cannot be had here; the message says what and where."""


@lru_cache(maxsize=64)
def compile_java(pattern: str) -> re.Pattern[str]:
    """Return the pattern for Python's engine. `search` is Java's `find`, and `fullmatch` its `matches`.

    Raises:
        JavaPatternError: see the head of this file.
    """
    translated = _Translator(pattern).whole()
    try:
        # For `\b` and `\B` alone, which are about ASCII since Java 19 (JDK-8264160), as `\w` has ever been.
        return re.compile(translated, re.ASCII)
    except re.error as error:
        raise JavaPatternError(f"{error.msg} in {pattern!r}") from None
    except (OverflowError, RecursionError):
        raise JavaPatternError(f"{pattern!r} is too large") from None


def _union(*many: Ranges) -> Ranges:
    merged: Ranges = []
    for low, high in sorted(pair for ranges in many for pair in ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _negated(ranges: Ranges) -> Ranges:
    gaps: Ranges = []
    at = 0
    for low, high in ranges:
        if low > at:
            gaps.append((at, low - 1))
        at = high + 1
    if at <= _MOST:
        gaps.append((at, _MOST))
    return gaps


def _both(left: Ranges, right: Ranges) -> Ranges:
    return _negated(_union(_negated(left), _negated(right)))


def _of(characters: Iterable[str]) -> Ranges:
    return _union([(ord(char), ord(char)) for char in characters])


@cache
def _categories() -> dict[str, Ranges]:
    """The characters of each general category; read once, it takes a fifth of a second."""
    categories: dict[str, Ranges] = {}
    for number in range(_MOST + 1):
        ranges = categories.setdefault(unicodedata.category(chr(number)), [])
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return categories


def _cases(char: str, *, unicode: bool) -> set[str]:
    """The character in both cases."""
    if not unicode and not char.isascii():
        return {char}
    return {char} | {form for form in (char.lower(), char.upper()) if len(form) == 1}


def _written(ranges: Ranges) -> str:
    """Return a class of Python's with exactly these characters."""
    if not ranges:
        return "(?!)"  # `[]` is none of Python's classes
    if ranges == [(0, _MOST)]:
        return r"[\x00-\U0010ffff]"
    parts = [f"\\U{low:08x}" + (f"-\\U{high:08x}" if high > low else "") for low, high in ranges]
    return f"[{''.join(parts)}]"


class _Translator:
    """A parser by Java's rules, whose productions give Python's text."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._groups = 0
        """How many capturing groups have begun: those that a back reference may name."""
        self._names: set[str] = set()
        self._flags: frozenset[str] = frozenset()
        """The flags that hold here; those of a group end with it."""

    def whole(self) -> str:
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise self._wrong("unmatched closing )")
        return text

    # --- groups and sequences

    def _alternatives(self) -> str:
        options = [self._sequence()]
        while self._accept("|"):
            options.append(self._sequence())
        return "|".join(options)

    def _sequence(self) -> str:
        parts: list[str] = []
        while self._peek() not in ("", "|", ")"):
            if self._accept("\\Q"):
                # What is behind it repeats its last character alone.
                quoted = self._quoted()
                parts += [self._literal(char) for char in quoted]
                if quoted:
                    parts[-1] += self._quantifier()
            elif self._peek() in "*+?":
                raise self._wrong(f"dangling meta character '{self._peek()}'")
            elif self._peek() == "{":
                raise self._wrong("illegal repetition (a literal brace is written \\{)")
            else:
                atom = self._atom()
                parts.append(atom + (self._quantifier() if atom else ""))
        return "".join(parts)

    def _quantifier(self) -> str:
        start = self._at
        if self._peek() in ("*", "+", "?"):
            self._at += 1
        elif self._peek() == "{":
            bounds = re.compile(r"\{(\d{1,9})(,(\d{1,9})?)?\}", re.ASCII).match(self._pattern, self._at)
            if bounds is None:
                raise self._wrong("illegal repetition")
            if bounds[3] and int(bounds[3]) < int(bounds[1]):
                raise self._wrong("illegal repetition range")
            self._at = bounds.end()
        else:
            return ""
        # Lazy or possessive, which Python writes in the same way since 3.11.
        if self._peek() in ("?", "+"):
            self._at += 1
        return self._pattern[start : self._at]

    def _atom(self) -> str:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return _written(self._class())
        if char == ".":
            return _written([(0, _MOST)] if "s" in self._flags else _negated(_of(_LINE_ENDS)))
        # Anchors are put into brackets, since Python repeats no bare anchor.
        if char == "^":
            return "(?m:^)" if "m" in self._flags else r"(?:\A)"
        if char == "$":
            ends = rf"(?:\r\n|[{_LINE_ENDS}])"
            return rf"(?={ends}|\Z)" if "m" in self._flags else rf"(?={ends}?\Z)"
        if char == "\\":
            return self._escape()
        return self._literal(char)

    def _group(self) -> str:
        self._at -= 1
        before = self._flags
        # The longest first: `(?<` begins a name, and `(?<=` does not.
        opening = next(
            (
                opening_text
                for opening_text in sorted(_OPENINGS, key=len, reverse=True)
                if self._accept(opening_text)
            ),
            None,
        )
        if opening is not None:
            opening = _OPENINGS[opening]
        elif self._accept("(?<"):
            opening = f"(?P<{self._name('>')}>"
        elif self._accept("(?"):
            if self._set_flags():
                return ""  # from here to the end of the group around it
            opening = "(?:"
        else:
            self._take()
            self._groups += 1
            opening = "("
        inner = self._alternatives()
        if not self._accept(")"):
            raise self._wrong("unclosed group")
        self._flags = before
        return f"{opening}{inner})"

    def _name(self, end: str) -> str:
        match = re.compile(rf"([a-zA-Z][a-zA-Z0-9]*){end}", re.ASCII).match(self._pattern, self._at)
        if match is None:
            raise self._wrong("a group's name is letters and digits, in angle brackets")
        if match[1] in self._names:
            raise self._wrong(f"named capturing group <{match[1]}> is already defined")
        self._names.add(match[1])
        self._groups += 1
        self._at = match.end()
        return match[1]

    def _set_flags(self) -> bool:
        """Take flags, `i-s)` or `i-s:`; return whether they are not those of a group."""
        on, flags = True, set(self._flags)
        while True:
            char = self._take()
            if char == "-" and on:
                on = False
            elif char in ("i", "s", "m", "u"):
                (flags.add if on else flags.discard)(char)
            elif char in (":", ")"):
                self._flags = frozenset(flags)
                return char == ")"
            elif char in ("x", "d", "U"):
                raise self._wrong(f"the flag {char} is not understood here")
            else:
                raise self._wrong("unknown inline modifier, or a group that Java does not have")

    # --- single characters

    def _literal(self, char: str) -> str:
        # Python's own flag would be about ASCII, or about Unicode, in the whole pattern.
        if "i" in self._flags:
            return _written(_of(_cases(char, unicode="u" in self._flags)))
        return re.escape(char)

    def _escape(self) -> str:
        char = self._take()
        if char in "AbB":
            if char == "b" and self._pattern.startswith("{g}", self._at):
                raise self._wrong("\\b{g} is not understood here")
            # In brackets, since Python repeats no bare anchor.
            return f"(?:\\{char})"
        if char in "zZ":
            return r"(?:\Z)" if char == "z" else rf"(?=(?:\r\n|[{_LINE_ENDS}])?\Z)"
        if char == "R":
            return r"(?>\r\n|[\n\x0b\x0c\r\x85\u2028\u2029])"
        if char == "k":
            if not self._accept("<"):
                raise self._wrong("\\k is followed by a group's name in angle brackets")
            end = self._pattern.find(">", self._at)
            name = self._pattern[self._at : end] if end >= 0 else ""
            if name not in self._names:
                raise self._wrong(f"named capturing group <{name}> does not exist")
            self._at = end + 1
            return f"(?P={name})"
        if char in "123456789":
            # More digits belong to it only as long as there is a group of that number.
            number = char
            while self._peek() in tuple(string.digits) and int(number + self._peek()) <= self._groups:
                number += self._take()
            if int(number) > self._groups:
                raise self._wrong(f"group {number} is not there yet")
            # In brackets: a digit behind it does not belong to the number.
            return f"(?:\\{number})"
        ranges = self._escaped_class(char)
        if ranges is not None:
            return _written(ranges)
        return self._literal(self._escaped_char(char))

    def _escaped_class(self, char: str) -> Ranges | None:
        """Read `\\d`, `\\p{…}` and the like, whose letter was taken; None if it is none of them."""
        if char in _PREDEFINED:
            return _of(_PREDEFINED[char])
        if char.lower() in _PREDEFINED:
            return _negated(_of(_PREDEFINED[char.lower()]))
        if char in ("p", "P"):
            ranges = self._property()
            return _negated(ranges) if char == "P" else ranges
        return None

    def _property(self) -> Ranges:
        if self._accept("{"):
            end = self._pattern.find("}", self._at)
            if end < 0:
                raise self._wrong("unclosed character family")
            name = self._pattern[self._at : end]
            self._at = end + 1
        else:
            name = self._take()
        if name in _ASCII_CLASSES:
            # Without regard to case, upper and lower case are the same class in Java.
            cased = "i" in self._flags and name in ("Lower", "Upper")
            return _of(_LETTERS if cased else _ASCII_CLASSES[name])
        category = name.removeprefix("Is")
        for prefix in ("general_category=", "gc="):
            category = category.removeprefix(prefix)
        if category == "LC":
            category_names = {"Lu", "Ll", "Lt"}
        else:
            category_names = {name for name in _CATEGORIES if name == category or name[0] == category}
        if not category_names:
            raise self._wrong(
                f"the character property {{{name}}} is not understood here; POSIX names (Alpha) and general "
                "categories (Lu) are"
            )
        if "i" in self._flags and category in ("Lu", "Ll", "Lt"):
            category_names = {"Lu", "Ll", "Lt"}
        return _union(*(_categories().get(name, []) for name in category_names))

    def _escaped_char(self, char: str) -> str:
        """Read an escape that is one character, whose first letter was taken."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0":
            # Three digits only if the number fits a byte.
            digits_match = re.compile(r"[0-3]?[0-7]{1,2}", re.ASCII).match(self._pattern, self._at)
            return self._numbered(digits_match, 8, "illegal octal escape sequence")
        if char == "x":
            digits = r"\{([0-9a-fA-F]{1,8})\}" if self._peek() == "{" else r"([0-9a-fA-F]{2})"
            digits_match = re.compile(digits).match(self._pattern, self._at)
            return self._numbered(digits_match, 16, "illegal hexadecimal escape sequence")
        if char == "u":
            digits_match = re.compile(r"([0-9a-fA-F]{4})").match(self._pattern, self._at)
            return self._numbered(digits_match, 16, "illegal Unicode escape sequence")
        if char == "c":
            return chr(ord(self._take()) ^ 64)
        # Java keeps all letters for escapes to come; any other sign stands for itself.
        if char.isascii() and char.isalnum():
            raise self._wrong(f"\\{char} is not understood here, or illegal")
        return char

    def _numbered(self, match: re.Match[str] | None, base: int, why: str) -> str:
        if match is None:
            raise self._wrong(why)
        number = int(match[match.lastindex or 0], base)
        if number > _MOST:
            raise self._wrong(why)
        self._at = match.end()
        return chr(number)

    # --- classes

    def _class(self) -> Ranges:
        """Read a class up to its `]`; the `[` was taken."""
        negative = self._accept("^")
        result: Ranges | None = None
        members: Ranges | None = None
        while True:
            char = self._peek()
            if not char:
                raise self._wrong("unclosed character class")
            # The first sign of a class is a member, a `]` too.
            if char == "]" and (members is not None or result is not None):
                self._at += 1
                break
            # All that stands between two `&&` is one side of the intersection.
            if self._accept("&&"):
                if members is None or self._peek() == "&":
                    raise self._wrong("a class before && is missing, or there are more than two &")
                result = members if result is None else _both(result, members)
                members = None
                continue
            members = _union(members or [], self._member())
        if members is None:
            raise self._wrong("a class behind && is missing")
        result = members if result is None else _both(result, members)
        return _negated(result) if negative else result

    def _member(self) -> Ranges:
        if self._accept("["):
            return self._class()
        if self._accept("\\Q"):
            return _union(*(self._single(char, char) for char in self._quoted()))
        low: str | Ranges = self._class_char()
        if not isinstance(low, str):
            return low
        # A `-` before a bracket is a member of its own, as in Java's `Pattern.range`.
        behind = self._pattern[self._at + 1 : self._at + 2]
        if self._peek() != "-" or behind in ("]", "[", ""):
            return self._single(low, low)
        if self._pattern.startswith("-&&", self._at):
            return self._single(low, low)
        self._at += 1
        high = self._class_char()
        if not isinstance(high, str) or high < low:
            raise self._wrong("illegal character range")
        return self._single(low, high)

    def _class_char(self) -> str | Ranges:
        char = self._take()
        if char != "\\":
            return char
        char = self._take()
        ranges = self._escaped_class(char)
        return ranges if ranges is not None else self._escaped_char(char)

    def _single(self, low: str, high: str) -> Ranges:
        ranges = [(ord(low), ord(high))]
        if "i" not in self._flags:
            return ranges
        unicode = "u" in self._flags
        if not unicode:
            letters = [char for char in _LETTERS if low <= char <= high]
        else:
            # No character beyond plane 1 has a case.
            letters = [chr(n) for n in range(ord(low), min(ord(high), 0x1FFFF) + 1)]
        return _union(ranges, _of(case for char in letters for case in _cases(char, unicode=unicode)))

    # --- the text

    def _quoted(self) -> str:
        end = self._pattern.find("\\E", self._at)
        text = self._pattern[self._at :] if end < 0 else self._pattern[self._at : end]
        self._at = len(self._pattern) if end < 0 else end + 2
        return text

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise self._wrong("unexpected end")
        self._at += 1
        return char

    def _accept(self, text: str) -> bool:
        if self._pattern.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _wrong(self, why: str) -> JavaPatternError:
        return JavaPatternError(f"{why}, near index {self._at} of {self._pattern!r}")
