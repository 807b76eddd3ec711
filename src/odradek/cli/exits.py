"""The exit codes of all tools: those of Kafka's.

| code | meaning |
|---|---|
| 0 | everything was done; also when the reader of the output has gone, as `head` does |
| 1 | anything else, words on the command line that are not understood included |
| 130, 143 | Ctrl-C, SIGTERM: what a shell sees of a JVM that was ended so. The servers end with 0 |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

FAILED = 1
INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM came. What Ctrl-C would have a program do is right then, too; only the exit code differs."""


class WrongWordsError(click.UsageError):
    """Words that are not understood; click's own such errors end a program with 2."""

    exit_code = FAILED


@contextmanager
def by_kafkas_rule() -> Iterator[None]:
    """Within, wrong words and signals end a program with the codes of this module."""
    try:
        yield
    except WrongWordsError:
        raise
    except click.UsageError as error:
        raise WrongWordsError(error.format_message(), error.ctx) from error
    except Terminated:
        raise click.exceptions.Exit(TERMINATED) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
