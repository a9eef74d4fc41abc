"""`python -m penstock.cli`: the command, for child processes that need the same interpreter."""

from penstock.cli import app

app()
