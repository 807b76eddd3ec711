"""`odradek completion`: the script with which a shell completes tools and their options."""

from __future__ import annotations

import click

from odradek.cli.tool import Tool

PROGRAM = "odradek"
#: click's name of the variable by which a shell asks for completions.
VARIABLE = "_ODRADEK_COMPLETE"


@click.command(cls=Tool, name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print what a shell needs to complete tools and options.

    bash: odradek completion bash > ~/.local/share/bash-completion/completions/odradek

    zsh: odradek completion zsh > "${fpath[1]}/_odradek"

    fish: odradek completion fish > ~/.config/fish/completions/odradek.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "one of the choices"
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
