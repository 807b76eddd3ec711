import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.util.properties import escaped_value, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1\nb = 2\nc:3\nd 4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# note\n! note\n\n  a=1", {"a": "1"}),
        ("a=1\r\nb=2\r", {"a": "1", "b": "2"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=x,\\\n   y,\\\n   z", {"a": "x,y,z"}),
        ("a=ends in two\\\\\nb=1", {"a": "ends in two\\", "b": "1"}),
        ("a\\=b=1\na\\ c=2", {"a=b": "1", "a c": "2"}),
        ("path=C\\:\\\\tmp\\tx", {"path": "C:\\tmp\tx"}),
        ("e=\\u00e9t\\u00e9", {"e": "été"}),
        ("a=1\na=2", {"a": "2"}),
        ("alone", {"alone": ""}),
        ("a=\\\n# not a comment here", {"a": "# not a comment here"}),
        ("a=open\\", {"a": "open"}),
    ],
)
def test_parse(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_bad_unicode_escape_names_the_line() -> None:
    with pytest.raises(ValueError, match=r"line 2: \\u00g1"):
        parse_properties("a=1\nb=\\u00g1x")


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example(" a\\\t\n\r\f= \\")
def test_a_value_that_is_written_is_read_as_it_was(value: str) -> None:
    assert parse_properties(f"a={escaped_value(value)}\nb=2\n") == {"a": value, "b": "2"}
