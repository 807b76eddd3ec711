"""How the blocks of a page are found and judged."""

from __future__ import annotations

import pytest

from .blocks import Block, as_printed, blocks, commands, fault

PAGE = """\
# A page

```python
print(1)
```
- an item

    of two paragraphs

<!-- excerpt: shortened -->
  ```sql
  SELECT …
  ```

<!-- prints: ready -->
~~~console
$ odradek server
ready
~~~
"""


def test_blocks_are_found_with_their_marks() -> None:
    assert list(blocks("page.md", PAGE)) == [
        Block("page.md", 3, "python", "print(1)\n"),
        Block("page.md", 11, "sql", "  SELECT …\n", excerpt="shortened"),
        Block("page.md", 16, "console", "$ odradek server\nready\n", prints="ready"),
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("```python\nprint(1)\n", "page.md:1: the fence is not closed"),
        ("Do this:\n\n    make test\n", "page.md:3: indented code"),
        ("- one\n\nDo this:\n\n    make test\n", "page.md:5: indented code"),
    ],
)
def test_what_hides_code_is_refused(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        list(blocks("page.md", text))


@pytest.mark.parametrize(
    ("block", "what"),
    [
        (Block("p", 1, "python", ""), ""),
        (Block("p", 1, "text", ""), ""),
        (Block("p", 1, "console", "$ ls\n"), ""),
        (Block("p", 1, "", "", excerpt="why"), ""),
        (Block("p", 1, "", "", excerpt=""), "say why"),
        (Block("p", 1, "", ""), "a block of 'no language'"),
        (Block("p", 1, "toml", ""), "a block of 'toml'"),
        (Block("p", 1, "console", "ls\n"), "begins with a command"),
    ],
)
def test_a_block_that_nothing_runs_says_so(block: Block, what: str) -> None:
    assert fault(block).startswith(what) if not what else what in fault(block)
    assert bool(fault(block)) == bool(what)


def test_commands_and_what_they_print() -> None:
    code = "$ echo a \\\n    b\na b\n$ true\n$ echo c\nc\nd\n"
    assert list(commands(code)) == [("echo a \\\n    b", "a b\n"), ("true", ""), ("echo c", "c\nd\n")]


def test_an_ellipsis_stands_for_anything() -> None:
    shown = as_printed("a.\n…\nz\n")
    assert shown.fullmatch("a.\nb\nc\nz")
    assert not shown.fullmatch("ab\nb\nz")
    assert not shown.fullmatch("a.\nb\nzz")
