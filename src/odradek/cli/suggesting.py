"""A group of commands that names the nearest one to a name that it does not have."""

from __future__ import annotations

import click


class SuggestingGroup(click.Group):
    """A group of commands; see the module."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a name that is none, fail with the nearest there is."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], names, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(names)}."
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)
