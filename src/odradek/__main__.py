"""`python -m odradek` is `odradek`."""

from odradek.cli.main import main

main()
