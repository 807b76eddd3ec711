"""Java's regular expressions; `tests/spark/test_subscribe_pattern.py` has them beside Java's own."""

import pytest

from odradek.util.java_regex import JavaPatternError, compile_java

NAMES = ["aa", "ba", "ca", "Aa", "a.b", "a-b_c", "orders", "orders-eu", "a1", "[a]", "a&&b", "ä", ""]


def found(pattern: str) -> list[str]:
    compiled = compile_java(pattern)
    return [name for name in NAMES if compiled.search(name)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("[a-z&&[^b]]a", ["aa", "ca"]),
        ("^[a-z&&[^bc]]a", ["aa"]),
        ("^[a-c&&b-z]a", ["ba", "ca"]),
        ("^[^a-b&&b-c]a", ["aa", "ca", "Aa", "[a]"]),
        ("^[a-b[A]]a", ["aa", "ba", "Aa"]),
        ("^[[:alpha:]]a", ["aa"]),  # a class of the characters ":alph"
        (r"^\p{Upper}", ["Aa"]),
        (r"^\p{Alpha}++$", ["aa", "ba", "ca", "Aa", "orders"]),
        (r"^\P{Alpha}", ["[a]", "ä"]),
        (r"^\p{L}", [name for name in NAMES if name and name != "[a]"]),
        (r"\pL\p{Nd}", ["a1"]),
        (r"\w\W", ["a.b", "a-b_c", "orders-eu", "[a]", "a&&b"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"\Q[a]", ["[a]"]),
        ("a++a", []),  # possessive: nothing is given back
        ("(?>a|aa)b", []),
        ("(?<first>a)\\k<first>", ["aa"]),
        (r"(a)\1", ["aa"]),
        ("(?i)AA", ["aa", "Aa"]),
        ("a(?i)A|C(?-i)a", ["aa", "ca"]),
        ("(?i:B)a", ["ba"]),
        ("(?i)[b&&[^B]]", []),
        ("(?iu)Ä", ["ä"]),
        ("(?i)Ä", []),
        (r"\x61\u0061|\x{62}\0141", ["aa", "ba"]),
        (r"a\.b|a\Z1", ["a.b"]),
        ("^a.b$", ["a.b"]),
        ("(?=or)orders(?!-)", ["orders"]),
        ("(?<=orders)-", ["orders-eu"]),
        ("^$", [""]),
        ("^[&]|a[&&&]", None),
        ("[]a]\\]", ["[a]"]),
        ("^[a-]-?\\.", ["a.b"]),
        (r"^[\p{Alpha}&&\P{Lower}]", ["Aa"]),
        (r"^[\Qa-b\E]+_", ["a-b_c"]),
        ("a{1}1|a{2,}", ["aa", "a1"]),
    ],
)
def test_what_it_finds(pattern: str, names: list[str] | None) -> None:
    if names is None:
        with pytest.raises(JavaPatternError):
            compile_java(pattern)
    else:
        assert found(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a(", "unclosed group"),
        ("a)", "unmatched closing"),
        ("[a", "unclosed character class"),
        ("*a", "dangling meta character"),
        ("a**", "dangling meta character"),
        ("a{", "illegal repetition"),
        ("{a}", "illegal repetition"),
        ("a{,3}", "illegal repetition"),
        ("a{3,2}", "illegal repetition range"),
        ("[b-a]", "illegal character range"),
        (r"[a-\d]", "illegal character range"),
        (r"\y", r"\\y is not understood"),
        (r"\G", r"\\G is not understood"),
        (r"[\b]", r"\\b is not understood"),
        (r"\p{IsLatin}", "{IsLatin} is not understood here"),
        (r"\p{Alpha", "unclosed character family"),
        ("(?x)a b", "the flag x is not understood"),
        ("(?P<a>b)", "a group that Java does not have"),
        ("(?#a)", "a group that Java does not have"),
        ("(?<a>b)(?<a>c)", "already defined"),
        (r"\k<a>", "does not exist"),
        (r"\1(a)", "group 1 is not there yet"),
        (r"(?<=a*)b", "look-behind requires fixed-width"),
        (r"\u12", "Unicode escape"),
        (r"\x{110000}", "hexadecimal"),
        ("\\", "unexpected end"),
    ],
)
def test_what_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(JavaPatternError, match=why):
        compile_java(pattern)
