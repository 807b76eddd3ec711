"""`subscribePattern` beside the language that it is in: Java's own engine, which Spark's JVM has at hand."""

import random
from typing import Any

import pytest

from odradek.util.java_regex import JavaPatternError, compile_java
from seeds import seed

pytestmark = pytest.mark.spark

ATOMS = [
    "a", "b", "B", "-", "\\.", ".", "1", "_", "\\d", "\\W", "\\w", "\\s", "\\h", "\\p{Alpha}", "\\P{Upper}",
    "\\p{Lu}", "\\pL", "\\p{Punct}", "\\x61", "\\u0062", "\\0141", "^", "$", "\\b", "\\Qa.\\E", "\\A", "\\z",
    "\\Z", "\\1", "(?i)", "(?s)", "]", "}", "&", "\\R", "\\e",
]  # fmt: skip
MEMBERS = [
    "a", "b-d", "A-C", "-", "&", "\\d", "\\W", "\\p{Lower}", "\\.", "[bc]", "[^a]", "&&", "&&[^b]", "&&a-c",
    "\\x62", "\\Q-.\\E", "^", ".", "]", "1-3",
]  # fmt: skip
OPENINGS = ["(", "(?:", "(?=", "(?!", "(?>", "(?i:", "(?<n>", "(?<=", "(?<!", "(?-i:"]
QUANTIFIERS = ["", "", "", "", "*", "+", "?", "*?", "++", "?+", "{2}", "{1,2}", "{0,}?", "{", "{,2}"]
NAMES = ["a", "ab", "B", "a.b", "a-1", "b_b1", "Ab", "aab", "", "c]}&", "ä", "1 a"]


def member_class(rng: random.Random) -> str:
    inside = "".join(rng.choice(MEMBERS) for _ in range(rng.randint(1, 4)))
    return f"[{rng.choice(('', '', '^'))}{inside}]"


def pattern(rng: random.Random, depth: int = 0) -> str:
    parts = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.2 and depth < 2:
            atom = f"{rng.choice(OPENINGS)}{pattern(rng, depth + 1)})"
        elif kind < 0.45:
            atom = member_class(rng)
        else:
            atom = rng.choice(ATOMS)
        parts.append(atom + rng.choice(QUANTIFIERS))
    text = "".join(parts)
    return f"{text}|{pattern(rng, depth + 1)}" if depth < 2 and rng.random() < 0.2 else text


def test_patterns_mean_what_they_mean_in_java(spark: Any) -> None:
    rng = random.Random(seed(18))
    java = spark._jvm.java.util.regex.Pattern
    both = ours_only_refuses = 0
    for _ in range(400):
        text = pattern(rng)
        try:
            theirs = java.compile(text)
        except Exception:  # py4j's; whatever Java says, it is none
            theirs = None
        try:
            ours = compile_java(text)
        except JavaPatternError:
            ours_only_refuses += theirs is not None
            continue
        assert theirs is not None, f"Java refuses {text!r}"
        both += 1
        for name in NAMES:
            if "\\b" in text and not name.isascii():
                continue  # since Java 19 it is ASCII's, as ours
            assert bool(ours.search(name)) == theirs.matcher(name).find(), (text, name)
    # What is refused is a small part.
    assert both > 2 * ours_only_refuses


def test_the_topics_that_spark_s_connector_would_take(new_topic: Any, read: Any) -> None:
    prefix = new_topic(1).name
    for name in ("aa", "ba", "ca"):
        new_topic(1, name=f"{prefix}.{name}").produce([name])
    frame = read(subscribePattern=rf"\Q{prefix}.\E[a-z&&[^b]]a")
    assert sorted(bytes(row.value) for row in frame.collect()) == [b"aa", b"ca"]
