"""Patterns of strangers, beside Python's own engine, and such as would keep that busy."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.util.linear_regex import LinearPattern, PatternError

CASES = [
    ("", "", "a"),
    ("abc", "abc", "abcd"),
    ("a.c", "abc", "a\nc"),
    ("(?s)a.c", "a\nc", "ac"),
    ("[a-c]+", "abcabc", "abd"),
    ("[^a-c]*", "xyz", "xaz"),
    ("[]a]+", "]a]", "b"),
    ("[a-]+", "a-a", "b"),
    (r"[\d_]{2,3}", "1_2", "1_23"),
    (r"[\x41-\x{43}]", "B", "D"),
    ("x{2}", "xx", "xxx"),
    ("x{2,}", "xxxx", "x"),
    ("x{,2}", "x{,2}", "xx"),
    ("(ab|cd)*", "abcdab", "abc"),
    ("(?:ab)+?", "abab", "aba"),
    ("(?P<name>a)b", "ab", "b"),
    ("(?i)Abc", "aBC", "abd"),
    ("(?i:A)b", "ab", "aB"),
    ("(?i)a(?-i)b", "Ab", "AB"),
    ("((?i)a)b", "Ab", "AB"),
    (r"\Qa.b*\E+", "a.b**", "aXb*"),
    (r"^txn-\d+$", "txn-17", "txn-"),
    (r"a|^b$", "b", "c"),
    (r"\bfoo\b.*", "foo bar", "foobar"),
    (r".*\Bar", "bar", "b ar"),
    (r"\w+\W\S+\s\D", "ab-c d", "ab-c 1"),
    (r"a\.b\t", "a.b\t", "axb\t"),
    ("ä+", "ää", "a"),
    ("(a*)*", "aaa", "b"),
    ("(a|a)*(b?)+", "aabb", "ba"),
    ("", "", "x"),
]


@pytest.mark.parametrize(("pattern", "fits", "does_not"), CASES)
def test_what_matches(pattern: str, fits: str, does_not: str) -> None:
    compiled = LinearPattern(pattern)
    for _ in range(2):
        assert compiled.matches(fits)
        assert not compiled.matches(does_not)


REFUSED = [
    "(", ")", "a)", "[a", "*a", "a**", "a{3,2}", "a{1001}", "(?=a)", "(?<!a)", r"\1", r"\p{L}", "(?P<>a)",
    "[z-a]", "\\", "[[:alpha:]]", r"\xZZ", r"\x{110000}", "(?", "(?x)a", "(" * 200 + ")" * 200,
    "(((a{100}){100}){100})", "(((){1000}){1000}){1000}", r"[a\p]", "a{1}{2}",
    "[" + "a" * 2_000 + "]",
    r"\x{41", r"[\x{41", r"\x{", r"\x{}", r"\x4", r"\x{4_1}", r"\x{0x41}", r"\x+1",
]  # fmt: skip


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(PatternError):
        LinearPattern(pattern)


@given(st.text(r"\x{}[]()?:<>P^$|*+-,.QEisU0149a", max_size=12))
def test_any_text_is_a_pattern_or_refused(pattern: str) -> None:
    try:
        compiled = LinearPattern(pattern)
    except PatternError:
        return
    compiled.matches("a1")


def test_what_keeps_others_busy() -> None:
    text = "a" * 2_000
    assert not LinearPattern("(a+)+b").matches(text)
    assert not LinearPattern("(a|a|aa)*b").matches(text)
    assert LinearPattern("(a?){500}a{500}").matches("a" * 700)
    assert not LinearPattern(r"(\w*a)*\b!").matches(text)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0:
        return draw(st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\W", r"\b", "^", "$", "-"]))
    kind = draw(st.sampled_from(["one", "and", "or", "repeat"]))
    inner = patterns(depth - 1)
    if kind == "one":
        return draw(inner)
    if kind == "and":
        return "".join(draw(st.lists(inner, max_size=3)))
    if kind == "or":
        return "(?:" + "|".join(draw(st.lists(inner, min_size=1, max_size=3))) + ")"
    return f"(?:{draw(inner)})" + draw(st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?"]))


@given(pattern=patterns(), text=st.text("ab-", max_size=8))
def test_as_python_matches(pattern: str, text: str) -> None:
    # Where `$` stands before a line's end Python's is another one, which these texts do not have.
    assert LinearPattern(pattern).matches(text) == (re.fullmatch(pattern, text, re.ASCII) is not None)
